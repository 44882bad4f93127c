"""The task of a cross-encoder: pairs as rows, their loss, their scores.

Slower than vectors and better: it orders again what a search has found. The score is a logit; only its order counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, PoolingMethod
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import Features, Note, TaskBatch
from anaume.tasks.ranking.grades import Grades, is_labelled
from anaume.tasks.ranking.negatives import DrawnNegatives
from anaume.tasks.ranking.scores import LABELLED, METRICS, main_score, pair_rows, ranking_rows, told_scores
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tokenization import Tokenizer


@dataclass(frozen=True, kw_only=True)
class RankingPrediction(Prediction):
    """How well passages answer a query; higher is better."""

    scores: tuple[float, ...]
    """One a passage, in the order given."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON: the score of a pair, or those of all passages."""
        told = {"score": self.scores[0]} if len(self.scores) == 1 else {"scores": list(self.scores)}
        return {**told, "coverage": self.coverage}


class Ranking(Task[SimilarityExample, RankingPrediction]):
    """Pairs with a label (1 and 0, two classes, or grades), or queries with positives and negatives.

    The loss is the binary cross-entropy of each pair, grades brought to 0 .. 1. Queries that have positives alone get
    passages of other queries as negatives, drawn once.

    grades  what labels mean
    drawn   what stands for the negatives of a query that has none
    """

    name: ClassVar[str] = "ranking"
    kind: ClassVar[HeadKind] = "regression"

    def __init__(
        self,
        head: HeadConfig,
        *,
        grades: Grades | None = None,
        drawn: DrawnNegatives | None = None,
        metric: str = "mrr@10",
    ) -> None:
        if metric not in METRICS:
            raise SettingsError(f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}")
        self._head, self.metric = head, metric
        self.grades, self.drawn = grades or Grades(), drawn or DrawnNegatives()

    @classmethod
    def fit(
        cls,
        examples: Sequence[SimilarityExample],
        *,
        pooling: PoolingMethod = "cls",
        dropout: float = 0.1,
        score_range: Sequence[float] | None = None,
        positive: str | None = None,
        drawn_negatives: int = 4,
        metric: str | None = None,
        **options: Any,
    ) -> Self:
        """Settle what labels mean."""
        for example in examples:
            if not example.positives:
                raise DataError(f"{example.place}: ranking needs a query and a passage (--column positive=NAME)")
            if isinstance(example.label, str | float) and (len(example.positives) > 1 or example.negatives):
                raise DataError(f"{example.place}: a label is of one query and one passage; came several passages")
        grades, usual = Grades.of(examples, score_range=score_range, positive=positive)
        return cls(
            HeadConfig(kind=cls.kind, pooling=pooling, dropout=dropout),
            grades=grades,
            drawn=DrawnNegatives.of(examples, drawn_negatives),
            metric=metric or usual,
            **options,
        )

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    @property
    def head(self) -> HeadConfig:
        """The head to train."""
        return self._head

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        ends = [self.grades.lowest, self.grades.highest]
        return {"range": ends, "positive": self.grades.positive, "metric": self.metric}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle."""
        given = dict(settings)
        low, high = given.pop("range", (0.0, 1.0))
        grades = Grades(lowest=float(low), highest=float(high), positive=given.pop("positive", None))
        return cls(head, grades=grades, **given)

    def check_labels(self, examples: Sequence[SimilarityExample]) -> None:
        """Refuse labels that are not of the kind learned."""
        for example in examples:
            if example.label is not None and not isinstance(example.label, tuple):
                self.grades.target(example)

    def features(
        self, examples: Sequence[SimilarityExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a row a query and passage, positives before negatives."""
        queries: list[str] = []
        passages: list[str] = []
        owners: list[int] = []
        targets: list[float] = []
        lone = 0
        for number, example in enumerate(examples):
            if not isinstance(example, SimilarityExample):
                raise DataError(f"{example.place}: ranking reads a query and passages; came {example!r:.60}")
            own, worse = [self.grades.target(example)] * len(example.positives) if learn else [], example.negatives
            if learn and not worse and (example.label is None or isinstance(example.label, tuple)):
                worse, lone = self.drawn.draw(example), lone + 1
            both = (*example.positives, *worse)
            queries += [example.text] * len(both)
            passages += both
            owners += [number] * len(both)
            targets += own + [0.0] * len(worse)
        encodings = tokenizer.encode_batch(queries, passages, max_length=max_length)
        shares = np.array([min(part.share for part in encoding.coverage) for encoding in encodings])
        coverage = np.ones(len(examples))
        np.minimum.at(coverage, owners, shares)
        said = f"queries have no negatives: {self.drawn.count} passages of other queries stand for them"
        return Features.of_rows(
            [encoding.token_ids for encoding in encodings],
            [encoding.segment_ids for encoding in encodings],
            coverage=coverage.tolist(),
            examples=owners,
            targets={"labels": np.array(targets, dtype=np.float32)} if learn else {},
            pieces=sum(encoding.pieces for encoding in encodings),
            unknown=sum(encoding.unknown for encoding in encodings),
            notes={f"{said}; `anaume mine` finds harder ones": Note(lone, examples[0].place)} if lone else {},
        )

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of pairs."""
        labels = batch.targets["labels"]
        return labels.new_tensor(float(len(labels)))

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Binary cross-entropy; logits (rows, 1)."""
        labels = batch.targets["labels"]
        return F.binary_cross_entropy_with_logits(logits.squeeze(-1).float(), labels, reduction="sum") / count

    def decode(
        self, logits: Logits, features: Features, examples: Sequence[SimilarityExample]
    ) -> list[RankingPrediction]:
        """Return the scores of each query's passages."""
        starts = np.searchsorted(features.examples, np.arange(len(examples) + 1)).tolist()
        return [
            RankingPrediction(
                scores=tuple(float(logits[row][0]) for row in range(start, stop)), coverage=float(coverage)
            )
            for (start, stop), coverage in zip(itertools.pairwise(starts), features.coverage, strict=True)
        ]

    def score(self, predictions: Sequence[RankingPrediction], examples: Sequence[SimilarityExample]) -> dict[str, Any]:
        """Return the scores of labelled pairs, or of rankings; `main` is None where these examples don't have it."""
        rows = self.example_scores(predictions, examples)
        return {**told_scores(rows, self.main, labelled=is_labelled(examples)), "examples": len(examples)}

    def example_scores(
        self, predictions: Sequence[RankingPrediction], examples: Sequence[SimilarityExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 2): label and score; or (examples, k): each query's scores."""
        if is_labelled(examples):
            return pair_rows([self.grades.target(one) for one in examples], [own.scores[0] for own in predictions])
        return ranking_rows([len(one.positives) for one in examples], [own.scores for own in predictions])

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows; NaN where it is not defined."""
        return main_score(rows, self.main)

    def judged_on(self, examples: Sequence[SimilarityExample]) -> Self:
        """Return the task with a main score that such held-out examples can have, where its own is none."""
        if not examples or is_labelled(examples) == (self.metric in LABELLED):
            return self
        metric = "mrr@10"
        if is_labelled(examples):
            binary = all(self.grades.target(example) in (0.0, 1.0) for example in examples)
            metric = "average_precision" if binary else "spearman"
        return type(self)(self._head, grades=self.grades, drawn=self.drawn, metric=metric)

    def example(self, given: object, place: str) -> SimilarityExample:
        """Return a pair (query, passage), or (query, [passage, ...])."""
        return query_and_passages(self.name, given, place)


def query_and_passages(task: str, given: object, place: str) -> SimilarityExample:
    """Return (query, passage), or (query, [passage, ...]), as an example. Raises DataError for something else."""
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
        passages = [given[1]] if isinstance(given[1], str) else given[1]
        if isinstance(passages, tuple | list) and passages and all(isinstance(one, str) for one in passages):
            return SimilarityExample(text=given[0], positives=tuple(passages), place=place)
    raise DataError(f"{place}: {task} reads (query, passage) or (query, [passage, ...]); got {given!r:.60}")
