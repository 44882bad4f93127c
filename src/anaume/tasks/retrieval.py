"""How good rankings are: nDCG, MRR, recall and MAP of what was found for each query, and finding by cosine.

The conventions are trec_eval's, which BEIR (Thakur et al. 2021) takes over: a gain is the grade itself, a document is
relevant from grade 1 on, and what was not judged has grade 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

DEPTH = 100
"""How far a ranking is read."""
RETRIEVAL_SCORES = ("ndcg@10", "mrr@10", "recall@1", "recall@10", "recall@100", "map@100")

_BLOCK = 256  # queries whose scores are in memory at once
_RESAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A mean over queries, and its 95 % interval: the percentiles over resamples of the queries (the bootstrap)."""

    mean: float
    low: float
    high: float


def ranking_scores(ranked: Sequence[Hashable], judged: Mapping[Any, int]) -> dict[str, float]:
    """Return the scores of one query's ranking, best document first, by the names of `RETRIEVAL_SCORES`.

    judged  document -> grade; at least one of them 1 or more

    nDCG: the sum of grade / log2(1 + rank) over the first ten, divided by the highest that any order could have
    (Järvelin and Kekäläinen 2002). MRR: 1 / rank of the first relevant one, 0 beyond ten. MAP: the mean over all
    relevant documents of the precision at their ranks, 0 for those beyond `DEPTH`.
    """
    grades = np.array([max(0, judged.get(document, 0)) for document in ranked[:DEPTH]], dtype=np.float64)
    ideal = np.sort([grade for grade in judged.values() if grade > 0])[::-1].astype(np.float64)
    assert len(ideal), "a query needs a relevant document"
    hits = grades > 0
    ranks = np.flatnonzero(hits) + 1.0
    precisions = np.arange(1, len(ranks) + 1) / ranks
    return {
        "ndcg@10": float(_gain(grades[:10]) / _gain(ideal[:10])),
        "mrr@10": float(1.0 / ranks[0]) if len(ranks) and ranks[0] <= 10 else 0.0,
        **{f"recall@{k}": float(hits[:k].sum() / len(ideal)) for k in (1, 10, 100)},
        "map@100": float(precisions.sum() / len(ideal)),
    }


def _gain(grades: npt.NDArray[np.float64]) -> float:
    return float((grades / np.log2(np.arange(2, len(grades) + 2))).sum())


def intervals(
    rows: Sequence[Mapping[str, float]], *, resamples: int = _RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Return mean and interval of each score over queries; at least one row."""
    names = list(rows[0])
    table = np.array([[row[name] for name in names] for row in rows])
    drawn = np.random.default_rng(seed).integers(0, len(table), (resamples, len(table)))
    means = np.stack([table[own].mean(axis=0) for own in drawn])
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return {
        name: Interval(float(table[:, place].mean()), float(low[place]), float(high[place]))
        for place, name in enumerate(names)
    }


def nearest_rows(
    queries: npt.NDArray[np.floating[Any]],
    candidates: npt.NDArray[np.floating[Any]],
    depth: int = DEPTH,
    *,
    dot: bool = False,
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]:
    """Yield, for each query, the rows of the nearest candidates, best first, and their scores.

    queries     (n, size) float32, or float64: a product of float32 rounds by its place in the matrix, so that equal
                candidates are sure to tie in float64 alone
    candidates  (m, size)
    dot         by dot product in place of cosine
    yields      (k,) and (k,), k = min(depth, m); of equal ones the earlier row is first
    """
    if not dot:
        queries, candidates = _unit(queries), _unit(candidates)
    for start in range(0, len(queries), _BLOCK):
        for own in (queries[start : start + _BLOCK] @ candidates.T).astype(np.float32, copy=False):
            if depth < len(own):
                least = np.partition(own, len(own) - depth)[len(own) - depth]
                kept = np.flatnonzero(own >= least)  # all that tie with the last, so that the order decides
            else:
                kept = np.arange(len(own))
            order = kept[np.argsort(-own[kept], kind="stable")][:depth]
            yield order, own[order]


def cosines(u: npt.NDArray[np.float32], v: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the cosine of each pair of rows, (n, size) twice -> (n,); 0 with a zero vector."""
    found: npt.NDArray[np.float64] = np.clip((_unit(u).astype(np.float64) * _unit(v)).sum(axis=1), -1.0, 1.0)
    return found


def _unit(vectors: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: npt.NDArray[np.floating[Any]] = np.divide(
        vectors, np.where(lengths == 0.0, 1.0, lengths), dtype=vectors.dtype
    )
    return unit
