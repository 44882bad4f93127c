"""Several rankings of the same things made one: reciprocal rank fusion (Cormack, Clarke and Buettcher 2009)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

DAMPING = 60
"""The paper's k: how little the first ranks weigh over the next."""


def fuse_ranks(*rankings: Sequence[Key]) -> dict[Key, float]:
    """Return the sum of 1 / (60 + rank) over the rankings that hold a thing, ranks from 1.

    >>> fuse_ranks(["a", "b"], ["b"]) == {"a": 1 / 61, "b": 1 / 62 + 1 / 61}
    True
    """
    fused: dict[Key, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, 1):
            fused[key] = fused.get(key, 0.0) + 1 / (DAMPING + rank)
    return fused
