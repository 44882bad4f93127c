"""What codes lose against the float32 vectors they were made of, measured on some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from anaume.search.record import IndexRecord
from anaume.search.table import Passages
from anaume.search.vectors import eight_bits

SAMPLE = 2000
"""Vectors kept for it."""
_QUERIES = 100
_NEIGHBOURS = 10
_LEAST = 50


@dataclass
class VectorSample:
    """The first vectors that were written."""

    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    count: int = 0

    def take(self, written: Iterable[Passages]) -> None:
        """Keep the vectors of documents, while there is room."""
        for one in written:
            if self.count < SAMPLE:
                self.vectors.append(one.vectors[: SAMPLE - self.count].copy())
                self.count += len(self.vectors[-1])


@dataclass(frozen=True, kw_only=True)
class CodesRecall:
    """The share of the ten nearest neighbours that codes find, on vectors of the index itself."""

    recall: float
    """By codes alone, 0 to 1."""
    rescored: float
    """When the best 40 of the codes (100 of binary ones) are scored again by float32."""
    passages: int
    """Among how many: with more, neighbours lie closer, and codes lose more."""


def measure_codes(sample: VectorSample, record: IndexRecord) -> CodesRecall | None:
    """Return what the codes of an index lose; None where it keeps float32, or too few vectors were seen."""
    if record.storage == "float32" or sample.count < _LEAST:
        return None
    vectors = np.concatenate(sample.vectors)
    drawn = np.unique(np.linspace(0, len(vectors) - 1, num=_QUERIES, dtype=np.int64))
    exact = vectors[drawn] @ vectors.T
    if record.storage == "int8":
        codes, scale = eight_bits(vectors)
        coded, wide = vectors[drawn] @ (codes.astype(np.float32) * scale[:, None]).T, 4 * _NEIGHBOURS
        handed = coded
    else:
        bits = np.where(vectors > 0, 1.0, -1.0).astype(np.float32)
        handed, wide = bits[drawn] @ bits.T, 10 * _NEIGHBOURS  # the order of the number of signs that differ
        coded = vectors[drawn] @ bits.T
    alone, rescored = [], []
    for row, place in enumerate(drawn):
        others = np.delete(np.arange(len(vectors)), place)
        best = _best(exact[row, others], _NEIGHBOURS)
        pool = _best(handed[row, others], wide)
        alone.append(_shared(best, pool[_best(coded[row, others][pool], _NEIGHBOURS)]))
        rescored.append(_shared(best, pool[_best(exact[row, others][pool], _NEIGHBOURS)]))
    return CodesRecall(recall=float(np.mean(alone)), rescored=float(np.mean(rescored)), passages=len(vectors))


def _best(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")[:count]


def _shared(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    return len(set(one.tolist()) & set(other.tolist())) / len(one)
