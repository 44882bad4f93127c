"""Classification: one class a text (sentiment, topic) or a pair (paraphrase, entailment); BERT, section 4.1.

[CLS] -> pooler -> dropout -> linear, as published; or mean, max of the real tokens, or a deeper head.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, HeadLayers, PoolingMethod
from anaume.data.labelled import TextExample
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest
from anaume.model import classification_loss
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.task import Logits
from anaume.tasks.texts import (
    TextPrediction,
    TextTask,
    are_paired,
    label_order,
    refuse_unknown,
    rows_of_examples,
    seem_joined,
)

METRICS = ("accuracy", "f1", "macro_f1", "matthews")


@dataclass(frozen=True, kw_only=True)
class ClassPrediction(TextPrediction):
    """The class of a text."""

    label: str
    probabilities: Mapping[str, float]
    """Of every class; they sum to 1. Averaged over windows."""

    @property
    def probability(self) -> float:
        """Of the class that was chosen."""
        return self.probabilities[self.label]

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        told: dict[str, Any] = {"label": self.label, "probabilities": dict(self.probabilities)}
        return {**told, "coverage": self.coverage, **({} if self.window is None else {"window": list(self.window)})}


class Classification(TextTask[ClassPrediction]):
    """One of several classes; `labels` in the order of the head's outputs.

    class_weights    None; "balanced": each class counts alike (n / (classes x its rows)), for skewed labels; or weights
                     by label
    label_smoothing  how much of the target is spread over all classes: 0.1 helps where labels are noisy
    metric           the score that decides: accuracy, f1, macro_f1 (skewed labels) or matthews (CoLA)
    positive         the label that f1 is of, where there are two; None = the second
    """

    name: ClassVar[str] = "classification"
    kind: ClassVar[HeadKind] = "classification"

    def __init__(
        self,
        head: HeadConfig,
        *,
        class_weights: Mapping[str, float] | None = None,
        label_smoothing: float = 0.0,
        metric: str = "accuracy",
        positive: str | None = None,
        stride: int | None = None,
        paired: bool | None = None,
    ) -> None:
        super().__init__(head, stride=stride, paired=paired)
        if metric not in METRICS:
            raise SettingsError(
                f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}{nearest(metric, METRICS)}"
            )
        if not 0.0 <= label_smoothing < 1.0:
            raise SettingsError(f"task.label_smoothing must be at least 0 and below 1; got {label_smoothing!r}")
        if positive is not None and (positive not in head.labels or len(head.labels) != 2):
            raise SettingsError(
                f"task.positive, one of two labels, is {positive!r}; the labels are {', '.join(head.labels)}"
            )
        self.labels = head.labels
        self.metric = metric
        self.positive = positive
        self.label_smoothing = label_smoothing
        self.class_weights = None if class_weights is None else dict(class_weights)
        self._number = {label: number for number, label in enumerate(self.labels)}
        self._weights = None
        if self.class_weights is not None:
            self._weights = torch.tensor([self.class_weights[label] for label in self.labels], dtype=torch.float32)

    @classmethod
    def fit(
        cls,
        examples: Sequence[TextExample],
        *,
        pooling: PoolingMethod = "cls",
        head_layers: int = 1,
        dropout: float = 0.1,
        layers: HeadLayers = "last",
        class_weights: str | Mapping[str, float] | None = None,
        **options: Any,
    ) -> Self:
        """Settle the classes: every label of the examples, sorted (numbers by value)."""
        counts = Counter(_label(example) for example in examples)
        labels = sorted(counts, key=label_order)
        if len(labels) < 2:
            came = f", from {examples[0].place} on, have only {labels[0]!r}" if labels else " are none"
            raise DataError(f"{cls.name} needs at least two labels; the training examples{came}")
        _warn_of_joined(labels)
        head = HeadConfig(
            kind=cls.kind,
            labels=tuple(labels),
            pooling=pooling,
            head_layers=head_layers,
            dropout=dropout,
            layers=layers,
        )
        return cls(head, class_weights=_weights(class_weights, counts, labels), paired=are_paired(examples), **options)

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        return {"metric": self.metric, "positive": self.positive, "stride": self.stride, "paired": self.paired}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle; weights and smoothing only matter for training."""
        return cls(head, **settings)

    def _targets(self, examples: Sequence[TextExample]) -> dict[str, npt.NDArray[np.generic]]:
        return {"labels": np.array([self._known(example) for example in examples], dtype=np.int64)}

    def _known(self, example: TextExample) -> int:
        label = _label(example)
        if label not in self._number:
            raise DataError(
                f"{example.place}: the label {label!r} is none of the model's{nearest(label, self.labels)}: "
                f"{', '.join(self.labels)}"
            )
        return self._number[label]

    def check_labels(self, examples: Sequence[TextExample]) -> None:
        """Refuse labels that the model does not know, with both lists."""
        super().check_labels(examples)
        refuse_unknown(examples, [(_label(example),) for example in examples], self.labels)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of units, or the sum of their weights."""
        labels = batch.targets["labels"]
        if self._weights is None:
            return torch.tensor(float(len(labels)), device=labels.device)
        return self._weights.to(labels.device)[labels].sum()

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Cross-entropy; logits (rows, classes)."""
        weights = None if self._weights is None else self._weights.to(logits.device)
        return classification_loss(logits, batch.targets["labels"], weights, self.label_smoothing, count=count)

    def decode(self, logits: Logits, features: Features, examples: Sequence[TextExample]) -> list[ClassPrediction]:
        """Choose the likeliest class; of windows, by the mean of what they say."""
        predictions = []
        for (rows, spans), coverage in zip(rows_of_examples(logits, features), features.coverage, strict=True):
            exponents = np.exp(rows - rows.max(axis=1, keepdims=True))
            each = exponents / exponents.sum(axis=1, keepdims=True)
            mean = each.mean(axis=0)
            best = int(mean.argmax())
            predictions.append(
                ClassPrediction(
                    label=self.labels[best],
                    probabilities=dict(zip(self.labels, mean.tolist(), strict=True)),
                    coverage=float(coverage),
                    window=spans[int(each[:, best].argmax())] if len(rows) > 1 else None,
                )
            )
        return predictions

    def score(self, predictions: Sequence[ClassPrediction], examples: Sequence[TextExample]) -> dict[str, Any]:
        """Return accuracy, f1, macro_f1, matthews, and per label precision, recall, f1, support; and the confusion.

        Of two labels, "positive" is the one that f1 is of.
        """
        from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

        rows = self.example_scores(predictions, examples)
        numbers = range(len(self.labels))
        each = precision_recall_fscore_support(rows[:, 0], rows[:, 1], labels=list(numbers), zero_division=0)
        names = ("precision", "recall", "f1", "support")
        return {
            **{metric: _score(metric, rows, self._positive) for metric in METRICS},
            **({} if self._positive is None else {"positive": self.labels[self._positive]}),
            "labels": {
                label: {
                    name: int(value[number]) if name == "support" else float(value[number])
                    for name, value in zip(names, each, strict=True)
                }
                for number, label in enumerate(self.labels)
            },
            "confusion": confusion_matrix(rows[:, 0], rows[:, 1], labels=list(numbers)).tolist(),
            "examples": len(examples),
        }

    def example_scores(
        self, predictions: Sequence[ClassPrediction], examples: Sequence[TextExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 2): the numbers of the right and of the predicted class."""
        pairs = [
            (self._known(example), self._number[prediction.label])
            for example, prediction in zip(examples, predictions, strict=True)
        ]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows."""
        return _score(self.metric, rows, self._positive)

    @property
    def _positive(self) -> int | None:
        """The class f1 is of; None = the mean over more than two."""
        if len(self.labels) != 2:
            return None
        return 1 if self.positive is None else self._number[self.positive]


class PairClassification(Classification):
    """One class a pair of texts, segments A and B: paraphrase, entailment, does the sentence answer the question."""

    name: ClassVar[str] = "pair-classification"
    pairs: ClassVar[bool | None] = True


def _score(metric: str, rows: npt.NDArray[np.float64], positive: int | None) -> float:
    """Return a score of (right, predicted) classes, out of their confusion matrix.

    The numbers are scikit-learn's (0 where nothing was said or right), whose functions are not called: the bootstrap
    asks thousands of times, and they warn of resamples with one class.
    """
    if not len(rows):
        return 0.0
    gold, said = rows.astype(np.int64).T
    classes = int(rows.max()) + 1
    table = np.bincount(gold * classes + said, minlength=classes * classes).reshape(classes, classes).astype(np.float64)
    right, golds, saids, count = table.diagonal(), table.sum(axis=1), table.sum(axis=0), float(len(rows))
    if metric == "accuracy":
        return float(right.sum() / count)
    if metric == "matthews":
        spread = (count * count - saids @ saids) * (count * count - golds @ golds)
        return float((right.sum() * count - golds @ saids) / math.sqrt(spread)) if spread else 0.0
    each = 2.0 * right / np.maximum(golds + saids, 1.0)
    if metric == "f1" and positive is not None:
        return float(each[positive]) if positive < classes else 0.0
    return float(each[golds + saids > 0].mean())


def _label(example: TextExample) -> str:
    if example.label is None:
        raise DataError(f"{example.place}: no label, and one is to be learned or scored")
    if isinstance(example.label, str):
        return example.label
    raise DataError(
        f"{example.place}: expected one label; got {example.label!r:.60} (several labels: task multi-label)"
    )


def _warn_of_joined(labels: Sequence[str]) -> None:
    """Say where a label looks like several in one, of which another label has one too."""
    if joined := seem_joined(labels, "|"):
        warnings.warn(
            f"{len(joined)} of the labels look like several in one, such as {joined[0]!r}: the task multi-label reads "
            "them so",
            AnaumeWarning,
            stacklevel=4,
        )


def _weights(
    given: str | Mapping[str, float] | None, counts: Mapping[str, int], labels: Sequence[str]
) -> dict[str, float] | None:
    if given is None or given == "none":
        return None
    if given == "balanced":
        return {label: sum(counts.values()) / (len(labels) * counts[label]) for label in labels}
    if isinstance(given, str):
        raise SettingsError(f'task.class_weights is "balanced", or a weight for each label; got {given!r}')
    if set(given) != set(labels):
        raise SettingsError(f"task.class_weights names {', '.join(sorted(given))}; the labels are {', '.join(labels)}")
    if not all(isinstance(value, int | float) and 0.0 < value < float("inf") for value in given.values()):
        raise SettingsError(f"task.class_weights must be positive numbers; got {dict(given)}")
    return {label: float(given[label]) for label in labels}
