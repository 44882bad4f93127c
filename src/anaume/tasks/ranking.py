"""Ranking: a cross-encoder, one score for a query and a passage that are read together (Nogueira and Cho 2019).

Slower than vectors and better: it orders again what a search has found. The score is a logit; only its order counts.
"""

from __future__ import annotations

import itertools
import math
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
from anaume.tasks.retrieval import RETRIEVAL_SCORES, ranking_scores
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tasks.text_keys import text_key
from anaume.tasks.vector_scores import ALIKE, correlation, pair_scores
from anaume.tokenization import Tokenizer

METRICS = ("mrr@10", "ndcg@10", "map@100", "average_precision", "spearman")
_LABELLED = ("average_precision", "spearman")


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

    range     the lowest and the highest label
    positive  the class that is the better one, where labels are names
    drawn     how many negatives a query gets that has none
    pool      the passages they are drawn from
    """

    name: ClassVar[str] = "ranking"
    kind: ClassVar[HeadKind] = "regression"

    def __init__(
        self,
        head: HeadConfig,
        *,
        range: tuple[float, float] = (0.0, 1.0),
        positive: str | None = None,
        drawn: int = 4,
        metric: str = "mrr@10",
        pool: Sequence[str] = (),
        known: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        if metric not in METRICS:
            raise SettingsError(f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}")
        if drawn < 1:
            raise SettingsError(f"task.drawn_negatives must be at least 1; got {drawn}")
        self._head, self.range, self.positive, self.drawn, self.metric = head, range, positive, drawn, metric
        self._pool, self._known = pool, known or {}

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
        names = sorted({example.label for example in examples if isinstance(example.label, str)})
        numbers = [_number(example.label) for example in examples if not isinstance(example.label, tuple | None)]
        if numbers and None not in numbers:
            positive, grades = None, [number for number in numbers if number is not None]
            ends = (min(grades), max(grades)) if score_range is None else (score_range[0], score_range[-1])
            if not ends[0] < ends[1] or min(grades) < ends[0] or max(grades) > ends[1]:
                raise DataError(f"ranking needs labels that differ, within their range; got {ends[0]:g} to {ends[1]:g}")
        else:
            ends = (0.0, 1.0)
            if names:
                positive = _positive(names, positive)
        usual = "mrr@10"
        if numbers:
            usual = "average_precision" if positive is not None or set(numbers) <= {*ends} else "spearman"
        known: dict[str, set[int]] = {}
        for example in examples:
            known.setdefault(example.text, {text_key(example.text)}).update(map(text_key, example.positives))
        return cls(
            HeadConfig(kind=cls.kind, pooling=pooling, dropout=dropout),
            range=ends,
            positive=positive,
            drawn=drawn_negatives,
            metric=metric or usual,
            pool=list(dict.fromkeys(text for example in examples for text in example.positives)),
            known={query: frozenset(keys) for query, keys in known.items()},
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
        return {"range": list(self.range), "positive": self.positive, "metric": self.metric}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle."""
        given = dict(settings)
        if "range" in given:
            low, high = given["range"]
            given["range"] = (float(low), float(high))
        return cls(head, **given)

    def check_labels(self, examples: Sequence[SimilarityExample]) -> None:
        """Refuse labels that are not of the kind learned."""
        for example in examples:
            if example.label is not None and not isinstance(example.label, tuple):
                self._target(example)

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
            own, worse = [self._target(example)] * len(example.positives) if learn else [], example.negatives
            if learn and not worse and (example.label is None or isinstance(example.label, tuple)):
                worse, lone = self._negatives(example), lone + 1
            both = (*example.positives, *worse)
            queries += [example.text] * len(both)
            passages += both
            owners += [number] * len(both)
            targets += own + [0.0] * len(worse)
        encodings = tokenizer.encode_batch(queries, passages, max_length=max_length)
        shares = np.array([min(part.share for part in encoding.coverage) for encoding in encodings])
        coverage = np.ones(len(examples))
        np.minimum.at(coverage, owners, shares)
        said = f"queries have no negatives: {self.drawn} passages of other queries stand for them; `anaume mine` finds"
        return Features.of_rows(
            [encoding.token_ids for encoding in encodings],
            [encoding.segment_ids for encoding in encodings],
            coverage=coverage.tolist(),
            examples=owners,
            targets={"labels": np.array(targets, dtype=np.float32)} if learn else {},
            pieces=sum(encoding.pieces for encoding in encodings),
            unknown=sum(encoding.unknown for encoding in encodings),
            notes={f"{said} harder ones": Note(lone, examples[0].place)} if lone else {},
        )

    def _target(self, example: SimilarityExample) -> float:
        label = example.label
        if label is None or isinstance(label, tuple):
            return 1.0
        if self.positive is not None:
            return float(label == self.positive)
        number, (low, high) = _number(label), self.range
        if number is None or not low <= number <= high:
            raise DataError(f"{example.place}: ranking has labels from {low:g} to {high:g}; came {label!r:.60}")
        return (number - low) / (high - low)

    def _negatives(self, example: SimilarityExample) -> tuple[str, ...]:
        """Draw passages of other queries: the same ones whenever the row comes."""
        known = self._known.get(example.text, frozenset()) | {text_key(text) for text in example.positives}
        known |= {text_key(example.text)}
        draw = np.random.default_rng(text_key(example.text) & ((1 << 63) - 1))
        found: dict[str, None] = {}
        for _ in range(10 * self.drawn if self._pool else 0):  # few passages may hold no other
            text = self._pool[int(draw.integers(len(self._pool)))]
            if text_key(text) not in known:
                found[text] = None
            if len(found) == self.drawn:
                break
        if not found:
            raise DataError(f"{example.place}: no negatives, and no other query's passage to stand for them")
        return tuple(found)

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
        rows = self._rows(predictions, examples)
        if self._labelled(examples):
            told: dict[str, Any] = {"spearman": _finite(correlation("spearman", rows[:, 0], rows[:, 1]))}
            if 0 < (rows[:, 0] == 1.0).sum() < len(rows) and set(rows[:, 0]) <= {0.0, 1.0}:
                told |= pair_scores(rows[:, 0] == 1.0, rows[:, 1])
        elif alone := int(np.isnan(rows).any(axis=1).sum()):
            told = {self.main: None, "reason": f"{alone:,} queries have no negatives to be told from"}
        else:
            told = dict(zip(RETRIEVAL_SCORES, rows.mean(axis=0).tolist(), strict=True))
        if told.get(self.main) is None:
            told = {self.main: None, "reason": f"examples of this kind have no {self.main}"} | told
        return {**told, "examples": len(examples)}

    def example_scores(
        self, predictions: Sequence[RankingPrediction], examples: Sequence[SimilarityExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 2): label and score; or (examples, k): each query's scores."""
        return self._rows(predictions, examples)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows; NaN where it is not defined."""
        if self.main in RETRIEVAL_SCORES:
            return float(rows[:, RETRIEVAL_SCORES.index(self.main)].mean())
        if self.main == "spearman":
            return correlation("spearman", rows[:, 0], rows[:, 1])
        labels = rows[:, 0] == 1.0
        return float(pair_scores(labels, rows[:, 1])["average_precision"]) if 0 < labels.sum() < len(rows) else math.nan

    def judged_on(self, examples: Sequence[SimilarityExample]) -> Self:
        """Return the task with a main score that such held-out examples can have, where its own is none."""
        if not examples or self._labelled(examples) == (self.metric in _LABELLED):
            return self
        if not self._labelled(examples):
            return self._with("mrr@10")
        binary = all(self._target(example) in (0.0, 1.0) for example in examples)
        return self._with("average_precision" if binary else "spearman")

    def _with(self, metric: str) -> Self:
        given = {"range": self.range, "positive": self.positive, "drawn": self.drawn}
        return type(self)(self._head, metric=metric, pool=self._pool, known=self._known, **given)  # type: ignore[arg-type]

    def _rows(
        self, predictions: Sequence[RankingPrediction], examples: Sequence[SimilarityExample]
    ) -> npt.NDArray[np.float64]:
        if self._labelled(examples):
            pairs = [(self._target(one), own.scores[0]) for one, own in zip(examples, predictions, strict=True)]
            return np.array(pairs, dtype=np.float64)
        rows = []
        for example, prediction in zip(examples, predictions, strict=True):
            near = len(example.positives)
            if len(prediction.scores) == near:  # any order would be the best
                rows.append([math.nan] * len(RETRIEVAL_SCORES))
                continue
            # Of equal scores the negative stands higher.
            order = sorted(range(len(prediction.scores)), key=lambda place: (-prediction.scores[place], place < near))
            found = ranking_scores(order, dict.fromkeys(range(near), 1))
            rows.append([found[name] for name in RETRIEVAL_SCORES])
        return np.array(rows, dtype=np.float64)

    @staticmethod
    def _labelled(examples: Sequence[SimilarityExample]) -> bool:
        return bool(examples) and isinstance(examples[0].label, str | float)

    def example(self, given: object, place: str) -> SimilarityExample:
        """Return a pair (query, passage), or (query, [passage, ...])."""
        if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str):
            passages = [given[1]] if isinstance(given[1], str) else given[1]
            if isinstance(passages, tuple | list) and passages and all(isinstance(one, str) for one in passages):
                return SimilarityExample(text=given[0], positives=tuple(passages), place=place)
        raise DataError(f"{place}: ranking reads (query, passage) or (query, [passage, ...]); got {given!r:.60}")


def _number(label: str | float | tuple[float, ...] | None) -> float | None:
    try:
        number = float(label) if isinstance(label, str | float) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _positive(names: Sequence[str], asked: str | None) -> str:
    if asked is None:
        found = [name for name in names if name.lower() in ALIKE]
        asked = found[0] if len(found) == 1 and len(names) == 2 else None
    if asked is None or asked not in names:
        raise SettingsError(
            f"which class is the better one? task.positive names it: {', '.join(names)}; numbers count as grades"
        )
    return asked


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
