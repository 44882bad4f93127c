"""Passages of other queries, where a query has no negatives of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.text_keys import text_key


@dataclass(frozen=True, kw_only=True)
class DrawnNegatives:
    """What stands for negatives. Raises SettingsError for a count below 1."""

    count: int = 4
    """How many a query gets."""
    pool: Sequence[str] = ()
    """The passages they are drawn from."""
    known: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """A query's text -> the `text_key`s of itself and of all its positives."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SettingsError(f"task.drawn_negatives must be at least 1; got {self.count}")

    @classmethod
    def of(cls, examples: Sequence[SimilarityExample], count: int) -> Self:
        """Return those of training examples."""
        known: dict[str, set[int]] = {}
        for example in examples:
            known.setdefault(example.text, {text_key(example.text)}).update(map(text_key, example.positives))
        return cls(
            count=count,
            pool=list(dict.fromkeys(text for example in examples for text in example.positives)),
            known={query: frozenset(keys) for query, keys in known.items()},
        )

    def draw(self, example: SimilarityExample) -> tuple[str, ...]:
        """Return passages of other queries: the same ones whenever the row comes. Raises DataError where none is."""
        known = self.known.get(example.text, frozenset()) | {text_key(text) for text in example.positives}
        known |= {text_key(example.text)}
        draw = np.random.default_rng(text_key(example.text) & ((1 << 63) - 1))
        found: dict[str, None] = {}
        for _ in range(10 * self.count if self.pool else 0):  # few passages may hold no other
            text = self.pool[int(draw.integers(len(self.pool)))]
            if text_key(text) not in known:
                found[text] = None
            if len(found) == self.count:
                break
        if not found:
            raise DataError(f"{example.place}: no negatives, and no other query's passage to stand for them")
        return tuple(found)
