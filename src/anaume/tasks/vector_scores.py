"""What vectors of texts are worth: the order of scored pairs, finding positives, classes of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.data.labelled import SimilarityExample
from anaume.tasks.retrieval import RETRIEVAL_SCORES, Interval, cosines, nearest_rows, ranking_scores

SCORES, CLASSES, PASSAGES = "scores", "classes", "passages"
METRICS: dict[str, str] = {
    "spearman": SCORES,
    "pearson": SCORES,
    "accuracy": CLASSES,
    **dict.fromkeys(RETRIEVAL_SCORES, PASSAGES),
}
"""Score -> the kind of examples that have it."""
ALIKE = ("1", "true", "yes", "entailment", "duplicate", "paraphrase", "same", "equivalent", "relevant")
"""Names of classes that say so, in small letters."""
USUAL = {SCORES: "spearman", CLASSES: "accuracy", PASSAGES: "mrr@10"}


@dataclass(frozen=True)
class VectorScores:
    """Scores of examples of one kind, and what they came from."""

    scores: dict[str, Any]
    pairs: npt.NDArray[np.float64] | None = None
    """(examples, 2): label and cosine, or (examples, 1): whether a class is right."""
    queries: Sequence[dict[str, float]] = ()
    """The scores of each query."""

    def rows(self, metric: str) -> npt.NDArray[np.float64]:
        """Return what `of_rows` needs, one row an example."""
        if self.queries:
            return np.array([[query[metric]] for query in self.queries])
        return np.empty((0, 2)) if self.pairs is None else self.pairs

    @staticmethod
    def of_rows(metric: str, rows: npt.NDArray[np.float64]) -> float:
        """Return a score of these rows; NaN where it is not defined."""
        if METRICS[metric] == SCORES:
            return correlation(metric, rows[:, 0], rows[:, 1])
        return float(rows[:, 0].mean()) if len(rows) else math.nan


def kind_of(examples: Sequence[SimilarityExample]) -> str | None:
    """Return which kind of scores examples have, by the first; None = single texts have none."""
    if not examples or not examples[0].positives:
        return None
    label = examples[0].label
    if isinstance(label, float):
        return SCORES
    return CLASSES if isinstance(label, str) else PASSAGES


def vector_scores(
    vectors: Sequence[npt.NDArray[np.float32]],
    classes: Sequence[str | None],
    examples: Sequence[SimilarityExample],
    *,
    dot: bool = False,
) -> VectorScores:
    """Return the scores of examples by the vectors of their texts, (texts, size) each, and what a classifier said.

    dot  passages are ranked by dot product in place of cosine
    """
    kind = kind_of(examples)
    if kind == SCORES:
        labels = np.array([example.label for example in examples], dtype=np.float64)
        found = cosines(np.stack([own[0] for own in vectors]), np.stack([own[1] for own in vectors]))
        return VectorScores(sts_scores(labels, found), pairs=np.stack([labels, found], axis=1))
    if kind == CLASSES:
        right = np.array([said == example.label for said, example in zip(classes, examples, strict=True)], dtype=float)
        scores = {"accuracy": float(right.mean())} if classes[0] is not None else {}
        return VectorScores(scores, pairs=right[:, None])
    if kind == PASSAGES:
        queries = _found(vectors, examples, dot)
        return VectorScores(
            {name: float(np.mean([query[name] for query in queries])) for name in RETRIEVAL_SCORES}, queries=queries
        )
    return VectorScores({})


def sts_scores(labels: npt.NDArray[np.float64], found: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return spearman and pearson of labels and cosines, (n,) each; None, with the reason, where one is constant."""
    told: dict[str, Any] = {}
    for metric in ("spearman", "pearson"):
        value = correlation(metric, labels, found)
        told[metric] = value if math.isfinite(value) else None
    if told["spearman"] is None:
        sides = [side for side, values in (("scores", labels), ("cosines", found)) if len(set(values.tolist())) < 2]
        told["reason"] = f"no correlation is defined: the {' and the '.join(sides)} are all the same"
    return told


def correlation(metric: str, one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Return spearman or pearson of two rows of numbers; NaN where one is constant.

    Plain formulas, as intervals ask for thousands of them: scipy's functions find p-values, too.
    """
    from scipy.stats import rankdata

    if len(one) < 2 or (one == one[0]).all() or (other == other[0]).all():
        return math.nan
    if metric == "spearman":  # Pearson's of the ranks, equal numbers sharing theirs
        one, other = rankdata(one), rankdata(other)
    a, b = one - one.mean(), other - other.mean()
    return float((a @ b) / math.sqrt(float(a @ a) * float(b @ b)))


def resampled(score: Callable[[npt.NDArray[np.int64]], float], count: int, resamples: int = 1000) -> Interval:
    """Return a score of all rows, and its 95 % interval over resamples of them (the bootstrap).

    score  gives it for the rows of some numbers, (count,); NaN where it is not defined
    """
    draw = np.random.default_rng(0)
    found = np.array([score(draw.integers(0, count, count)) for _ in range(resamples)])
    found = found[np.isfinite(found)]
    low, high = np.percentile(found, [2.5, 97.5]) if len(found) else (np.nan, np.nan)
    return Interval(score(np.arange(count)), float(low), float(high))


def judged_passages(examples: Sequence[SimilarityExample]) -> tuple[list[tuple[int, int]], list[dict[int, int]]]:
    """Return all positives and negatives of the examples, equal texts taken once, and which of them each query wants.

    returns  where each of these passages first stands, (example, place among its passages); and for each example the
             numbers of those that any example calls a positive of its query, each with the grade 1
    """
    known: dict[str, set[str]] = {}
    number: dict[str, int] = {}
    where: list[tuple[int, int]] = []
    for row, example in enumerate(examples):
        known.setdefault(example.text, set()).update(example.positives)
        for place, text in enumerate((*example.positives, *example.negatives)):
            if text not in number:
                number[text] = len(where)
                where.append((row, place))
    return where, [{number[text]: 1 for text in known[example.text]} for example in examples]


def _found(
    vectors: Sequence[npt.NDArray[np.float32]], examples: Sequence[SimilarityExample], dot: bool
) -> list[dict[str, float]]:
    """Return the scores of each query among all positives and negatives of the examples, equal texts taken once."""
    where, judged = judged_passages(examples)
    rows = [vectors[example][1 + place] for example, place in where]
    queries = np.stack([own[0] for own in vectors])
    return [
        ranking_scores(order.tolist(), own)
        for (order, _), own in zip(nearest_rows(queries, np.stack(rows), dot=dot), judged, strict=True)
    ]


def pair_scores(labels: npt.NDArray[np.bool_], found: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return what cosines tell of two classes of pairs.

    labels   (n,) bool, True = alike; both must occur
    found    (n,) cosines
    returns  average_precision; the best accuracy and the best F1 that a threshold has, each with its threshold: a pair
             of that cosine or more counts as alike
    """
    from sklearn.metrics import average_precision_score

    order = np.argsort(-found, kind="stable")
    ranked, values = labels[order], found[order]
    hits = np.cumsum(ranked)
    last = np.append(values[1:] < values[:-1], True)  # a threshold parts no equal cosines
    taken = np.arange(1, len(values) + 1)
    wrong_left = (~labels).sum() - (taken - hits)
    accuracy = np.where(last, (hits + wrong_left) / len(labels), -1.0)
    f1 = np.where(last, 2 * hits / (taken + labels.sum()), -1.0)
    best, best_f1 = int(accuracy.argmax()), int(f1.argmax())
    none = float((~labels).mean())
    apart = none > accuracy[best]  # better than any threshold: above them all
    return {
        "average_precision": float(average_precision_score(labels, found)),
        "accuracy": none if apart else float(accuracy[best]),
        "accuracy_threshold": float(np.nextafter(values[0], 2.0) if apart else values[best]),
        "f1": float(f1[best_f1]),
        "f1_threshold": float(values[best_f1]),
    }
