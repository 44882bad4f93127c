"""Multi-label classification: any number of labels a text, each a yes or no of its own (sigmoid)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, HeadLayers, PoolingMethod
from anaume.data.labelled import TextExample
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.task import Logits
from anaume.tasks.texts import TextPrediction, TextTask, are_paired, refuse_unknown, rows_of_examples, seem_joined

METRICS = ("micro_f1", "macro_f1")


@dataclass(frozen=True, kw_only=True)
class LabelsPrediction(TextPrediction):
    """The labels of a text."""

    labels: tuple[str, ...]
    """Those at or above their threshold; () where none is."""
    probabilities: Mapping[str, float]
    """Of every label by itself; averaged over windows."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        told = {"labels": list(self.labels), "probabilities": dict(self.probabilities), "coverage": self.coverage}
        return {**told, **({} if self.window is None else {"window": list(self.window)})}


class MultiLabel(TextTask[LabelsPrediction]):
    """Any number of labels a text.

    thresholds  of each label; None = 0.5. `calibrate` sets each where its F1 on held-out examples is best
    metric      the score that decides: micro_f1 or macro_f1
    """

    name: ClassVar[str] = "multi-label"
    kind: ClassVar[HeadKind] = "multi-label"

    def __init__(
        self,
        head: HeadConfig,
        *,
        thresholds: Mapping[str, float] | None = None,
        metric: str = "micro_f1",
        stride: int | None = None,
        paired: bool | None = None,
    ) -> None:
        super().__init__(head, stride=stride, paired=paired)
        if metric not in METRICS:
            raise SettingsError(f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}")
        self.labels = head.labels
        self.metric = metric
        self.thresholds = dict.fromkeys(self.labels, 0.5) if thresholds is None else dict(thresholds)
        if set(self.thresholds) != set(self.labels):
            raise SettingsError(
                f"thresholds are for {', '.join(self.thresholds)}; the labels are {', '.join(self.labels)}"
            )
        if not all(type(value) in (int, float) and 0.0 <= value <= 1.0 for value in self.thresholds.values()):
            raise SettingsError(f"thresholds are probabilities, 0 to 1; got {self.thresholds}")
        self._cuts = np.array([self.thresholds[label] for label in self.labels])

    @classmethod
    def fit(
        cls,
        examples: Sequence[TextExample],
        *,
        pooling: PoolingMethod = "cls",
        head_layers: int = 1,
        dropout: float = 0.1,
        layers: HeadLayers = "last",
        **options: Any,
    ) -> Self:
        """Settle the labels: all that occur, sorted."""
        each = {_labels(example) for example in examples}
        labels = sorted({label for own in each for label in own})
        begin = f", from {examples[0].place} on," if examples else ""
        if not labels:
            raise DataError(f"multi-label needs labels; none of the training examples{begin} has one")
        if all(len(own) == len(labels) for own in each):
            raise DataError(
                f"multi-label needs labels that differ; the training examples{begin} all have {', '.join(labels)}"
            )
        if all(len(own) == 1 for own in each):
            warnings.warn(
                "every training example has one label, no less and no more: if that is so by nature, the task "
                "classification learns which",
                AnaumeWarning,
                stacklevel=3,
            )
        for separator in ",;":
            if joined := seem_joined(labels, separator):
                warnings.warn(
                    f"{len(joined)} of the labels look like several in one, such as {joined[0]!r}: "
                    f"separator={separator!r} (--column separator='{separator}') parts them",
                    AnaumeWarning,
                    stacklevel=3,
                )
        head = HeadConfig(
            kind=cls.kind,
            labels=tuple(labels),
            pooling=pooling,
            head_layers=head_layers,
            dropout=dropout,
            layers=layers,
        )
        return cls(head, paired=are_paired(examples), **options)

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        return {"thresholds": self.thresholds, "metric": self.metric, "stride": self.stride, "paired": self.paired}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle."""
        return cls(head, **settings)

    def check_labels(self, examples: Sequence[TextExample]) -> None:
        """Refuse labels that the model does not know, with both lists."""
        super().check_labels(examples)
        refuse_unknown(examples, [_labels(example) for example in examples], self.labels)

    def _targets(self, examples: Sequence[TextExample]) -> dict[str, npt.NDArray[np.generic]]:
        return {"labels": self._table(examples).astype(np.float32)}

    def _table(self, examples: Sequence[TextExample]) -> npt.NDArray[np.bool_]:
        """Return (examples, labels): which labels each has."""
        table = np.zeros((len(examples), len(self.labels)), dtype=np.bool_)
        number = {label: place for place, label in enumerate(self.labels)}
        for row, example in enumerate(examples):
            for label in _labels(example):
                if label not in number:
                    raise DataError(
                        f"{example.place}: the label {label!r} is none of the model's: {', '.join(self.labels)}"
                    )
                table[row, number[label]] = True
        return table

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of yes-or-no questions."""
        labels = batch.targets["labels"]
        return torch.tensor(float(labels.numel()), device=labels.device)

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Binary cross-entropy of each label; logits (rows, labels)."""
        return F.binary_cross_entropy_with_logits(logits.float(), batch.targets["labels"], reduction="sum") / count

    def decode(self, logits: Logits, features: Features, examples: Sequence[TextExample]) -> list[LabelsPrediction]:
        """Take every label at or above its threshold."""
        predictions = []
        for (rows, spans), coverage in zip(rows_of_examples(logits, features), features.coverage, strict=True):
            each = 0.5 * (1.0 + np.tanh(rows / 2.0))  # the sigmoid, without overflow
            mean = each.mean(axis=0)
            predictions.append(
                LabelsPrediction(
                    labels=tuple(label for label, yes in zip(self.labels, mean >= self._cuts, strict=True) if yes),
                    probabilities=dict(zip(self.labels, mean.tolist(), strict=True)),
                    coverage=float(coverage),
                    window=spans[int(each.max(axis=1).argmax())] if len(rows) > 1 else None,
                )
            )
        return predictions

    def calibrate(self, logits: Logits, features: Features, examples: Sequence[TextExample]) -> Self:
        """Set each label's threshold where its F1 is best; a label without examples keeps 0.5."""
        table = self._table(examples)
        said = np.array([list(one.probabilities.values()) for one in self.decode(logits, features, examples)])
        thresholds = {
            label: _best_threshold(said[:, place], table[:, place]) for place, label in enumerate(self.labels)
        }
        return type(self)(self._head, **{**self.settings(), "thresholds": thresholds})

    def score(self, predictions: Sequence[LabelsPrediction], examples: Sequence[TextExample]) -> dict[str, Any]:
        """Return f1 (= micro_f1), macro_f1, average_precision (mean over labels that occur), exact match, per label."""
        from sklearn.metrics import average_precision_score, precision_recall_fscore_support

        gold = self._table(examples)
        said = np.array([[label in one.labels for label in self.labels] for one in predictions]).reshape(gold.shape)
        probabilities = np.array([list(one.probabilities.values()) for one in predictions]).reshape(gold.shape)
        rows = self.example_scores(predictions, examples)
        each = precision_recall_fscore_support(gold, said, average=None, zero_division=0)
        occurs = gold.any(axis=0)
        names = ("precision", "recall", "f1", "support")
        return {
            "f1": _micro(rows),
            "micro_f1": _micro(rows),
            "macro_f1": _macro(rows),
            "average_precision": float(average_precision_score(gold[:, occurs], probabilities[:, occurs]))
            if occurs.any()
            else None,
            "exact_match": float((gold == said).all(axis=1).mean()) if len(gold) else 0.0,
            "labels": {
                label: {
                    name: int(value[place]) if name == "support" else float(value[place])
                    for name, value in zip(names, each, strict=True)
                }
                for place, label in enumerate(self.labels)
            },
            "examples": len(examples),
        }

    def example_scores(
        self, predictions: Sequence[LabelsPrediction], examples: Sequence[TextExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 3 x labels): right, predicted, and gold, 0 or 1 each."""
        gold = self._table(examples)
        said = np.array([[label in one.labels for label in self.labels] for one in predictions]).reshape(gold.shape)
        return np.concatenate([gold & said, said, gold], axis=1).astype(np.float64)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows."""
        return _micro(rows) if self.metric == "micro_f1" else _macro(rows)


def _f1(right: npt.NDArray[np.float64], said: npt.NDArray[np.float64], gold: npt.NDArray[np.float64]) -> Any:
    return 2.0 * right / np.maximum(said + gold, 1.0)


def _micro(rows: npt.NDArray[np.float64]) -> float:
    return float(_f1(*(part.sum() for part in np.split(rows, 3, axis=1))))


def _macro(rows: npt.NDArray[np.float64]) -> float:
    return float(_f1(*(part.sum(axis=0) for part in np.split(rows, 3, axis=1))).mean())


def _best_threshold(probabilities: npt.NDArray[np.float64], gold: npt.NDArray[np.bool_]) -> float:
    """Return the threshold of the best F1: half way between the last probability taken and the first left out."""
    if not gold.any():
        return 0.5
    order = np.argsort(-probabilities, kind="stable")
    sorted_probabilities = probabilities[order]
    right = np.cumsum(gold[order])
    scores = 2.0 * right / (np.arange(1, len(gold) + 1) + gold.sum())
    # Equal probabilities go together: only the last of them can be the last one taken.
    scores[:-1][sorted_probabilities[:-1] == sorted_probabilities[1:]] = -1.0
    last = int(scores.argmax())
    following = sorted_probabilities[last + 1] if last + 1 < len(gold) else 0.0
    return float((sorted_probabilities[last] + following) / 2.0)


def _labels(example: TextExample) -> tuple[str, ...]:
    if isinstance(example.label, tuple):
        return example.label
    one = " (one label a row: task classification)" if isinstance(example.label, str) else ""
    raise DataError(f"{example.place}: expected a list of labels; got {example.label!r:.60}{one}")
