"""What vectors are judged by, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.tasks.retrieval import Interval

VECTOR_TASKS: dict[str, str] = {
    "sts": "spearman",
    "pairs": "average_precision",
    "retrieval": "ndcg@10",
    "reranking": "map@100",
}
"""What vectors are judged by without a head, and the main score of each."""


@dataclass(frozen=True, kw_only=True)
class VectorEvaluation:
    """What vectors are worth on a task."""

    task: str
    metric: str
    """The main score."""
    scores: dict[str, Any]
    """By name; one that is not defined is None."""
    intervals: dict[str, Interval]
    """95 % intervals over resamples of the pairs or queries."""
    examples: int
    """Pairs, or queries."""
    documents: int | None = None
    """What retrieval searches."""
    left_out: int = 0
    """Queries that no document is relevant to."""
    cut: int = 0
    """Texts the model did not see whole."""
    unknown_share: float = 0.0
    """The share of the pieces that the vocabulary does not hold, 0 to 1."""


def require_both(example: SimilarityExample) -> None:
    """Raise DataError for an example that gives reranking nothing to tell apart."""
    if not example.positives or not example.negatives:
        raise DataError(f"{example.place}: reranking needs a query, its positives and its negatives")
