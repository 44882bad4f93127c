"""Texts as numbers, and which of them are known to be alike: a copy of a positive is never a negative."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.data.labelled import SimilarityExample

_MIX = 0x9E3779B97F4A7C15  # odd, so that different queries part the same candidates
_WHOLE = (1 << 64) - 1


def text_key(text: str) -> int:
    """Return a text as a number of 64 bits: blanks apart, equal texts have equal ones."""
    digest = hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little", signed=True)


def known_pairs(examples: Sequence[SimilarityExample]) -> npt.NDArray[np.int64]:
    """Return the sorted keys of all pairs that examples call alike, in both directions."""
    keys = set()
    for example in examples:
        one = text_key(example.text)
        for other in map(text_key, example.positives):
            keys |= {_pair_key(one, other), _pair_key(other, one)}
    return np.array(sorted(keys), dtype=np.int64)


def _pair_key(one: int, other: int) -> int:
    mixed = (one * _MIX + other) & _WHOLE
    return mixed - (1 << 64) if mixed >> 63 else mixed


def alike(queries: Tensor, others: Tensor, near: Tensor, known: npt.NDArray[np.int64]) -> Tensor:
    """Return (n, m) bool: whether a text is the query's own, or a positive of the query's text anywhere.

    queries, others  (n,) and (m,) int64: `text_key`s
    near             (n, m) bool: the positives of this batch
    known            sorted keys of pairs, as `known_pairs` gives them
    """
    keys = queries[:, None] * (_MIX - (1 << 64)) + others[None, :]  # wraps around, as `_pair_key` does
    there = torch.from_numpy(known).to(keys.device)
    return (queries[:, None] == others[None, :]) | _among(keys, keys[near].sort().values) | _among(keys, there)


def _among(keys: Tensor, known: Tensor) -> Tensor:
    """Whether each of these keys is one of the sorted ones; torch.isin would sort them all together."""
    if not len(known):
        return torch.zeros_like(keys, dtype=torch.bool)
    return known[torch.searchsorted(known, keys).clamp(max=len(known) - 1)] == keys
