"""What scores of passages are worth: the order of labelled pairs, or finding each query's positives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.tasks.retrieval import RETRIEVAL_SCORES, ranking_scores
from anaume.tasks.vector_scores import correlation, pair_scores

LABELLED = ("average_precision", "spearman")
METRICS = ("mrr@10", "ndcg@10", "map@100", *LABELLED)


def pair_rows(targets: Sequence[float], scores: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return (pairs, 2): label and score."""
    return np.array(list(zip(targets, scores, strict=True)), dtype=np.float64).reshape(-1, 2)


def ranking_rows(positives: Sequence[int], scores: Sequence[Sequence[float]]) -> npt.NDArray[np.float64]:
    """Return (queries, len(RETRIEVAL_SCORES)); NaN for a query without negatives, of which any order is the best.

    positives  how many of each query's passages, the first ones, are right
    scores     those of each query's passages
    """
    rows = []
    for near, own in zip(positives, scores, strict=True):
        if len(own) == near:
            rows.append([math.nan] * len(RETRIEVAL_SCORES))
            continue
        # Of equal scores the negative stands higher.
        order = sorted(range(len(own)), key=lambda place: (-own[place], place < near))
        found = ranking_scores(order, dict.fromkeys(range(near), 1))
        rows.append([found[name] for name in RETRIEVAL_SCORES])
    return np.array(rows, dtype=np.float64)


def told_scores(rows: npt.NDArray[np.float64], main: str, *, labelled: bool) -> dict[str, Any]:
    """Return the scores of labelled pairs, or of rankings; `main` is None, with the reason, where it is none of them.

    rows  as `pair_rows` or `ranking_rows` give them
    """
    if labelled:
        spearman = correlation("spearman", rows[:, 0], rows[:, 1])
        told: dict[str, Any] = {"spearman": spearman if math.isfinite(spearman) else None}
        if 0 < (rows[:, 0] == 1.0).sum() < len(rows) and set(rows[:, 0]) <= {0.0, 1.0}:
            told |= pair_scores(rows[:, 0] == 1.0, rows[:, 1])
    elif alone := int(np.isnan(rows).any(axis=1).sum()):
        told = {main: None, "reason": f"{alone:,} queries have no negatives to be told from"}
    else:
        told = dict(zip(RETRIEVAL_SCORES, rows.mean(axis=0).tolist(), strict=True))
    if told.get(main) is None:
        told = {main: None, "reason": f"examples of this kind have no {main}"} | told
    return told


def main_score(rows: npt.NDArray[np.float64], main: str) -> float:
    """Return one score of these rows; NaN where it is not defined."""
    if main in RETRIEVAL_SCORES:
        return float(rows[:, RETRIEVAL_SCORES.index(main)].mean())
    if main == "spearman":
        return correlation("spearman", rows[:, 0], rows[:, 1])
    labels = rows[:, 0] == 1.0
    return float(pair_scores(labels, rows[:, 1])["average_precision"]) if 0 < labels.sum() < len(rows) else math.nan
