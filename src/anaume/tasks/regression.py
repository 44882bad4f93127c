"""Regression: one number a text or pair (STS). Learned scaled to mean 0 and spread 1; users never see the scale."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from anaume.config import HeadConfig, HeadKind, HeadLayers, PoolingMethod
from anaume.data.labelled import TextExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.task import Logits
from anaume.tasks.texts import TextPrediction, TextTask, are_paired, rows_of_examples

METRICS = ("spearman", "pearson")


@dataclass(frozen=True, kw_only=True)
class NumberPrediction(TextPrediction):
    """The number of a text."""

    value: float
    """In the units of the labels."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        told = {"value": self.value, "coverage": self.coverage}
        return {**told, **({} if self.window is None else {"window": list(self.window)})}


class Regression(TextTask[NumberPrediction]):
    """One number a text or pair.

    mean, spread  of the training labels; the head learns (label - mean) / spread. `finished` writes them into the head
                  itself, so that a bundle says numbers in the labels' units wherever it is opened
    metric        the score that decides: spearman or pearson
    """

    name: ClassVar[str] = "regression"
    kind: ClassVar[HeadKind] = "regression"

    def __init__(
        self,
        head: HeadConfig,
        *,
        mean: float = 0.0,
        spread: float = 1.0,
        metric: str = "spearman",
        stride: int | None = None,
        paired: bool | None = None,
    ) -> None:
        super().__init__(head, stride=stride, paired=paired)
        if metric not in METRICS:
            raise SettingsError(f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}")
        if not all(type(value) in (int, float) and math.isfinite(value) for value in (mean, spread)) or spread <= 0:
            raise SettingsError(f"mean and spread must be numbers, the spread above 0; got {mean!r} and {spread!r}")
        self.mean, self.spread = mean, spread
        self.metric = metric

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
        """Settle the scale."""
        values = np.array([_value(example) for example in examples])
        if len(values) == 0 or values.min() == values.max():
            came = f", from {examples[0].place} on, have {values[0]:g} every time" if examples else " are none"
            raise DataError(f"regression needs labels that differ; the training examples{came}")
        head = HeadConfig(kind=cls.kind, pooling=pooling, head_layers=head_layers, dropout=dropout, layers=layers)
        return cls(head, mean=float(values.mean()), spread=float(values.std()), paired=are_paired(examples), **options)

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        return {
            "mean": self.mean,
            "spread": self.spread,
            "metric": self.metric,
            "stride": self.stride,
            "paired": self.paired,
        }

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle."""
        return cls(head, **settings)

    def resumed(self, head: nn.Module) -> None:
        """Take the labels' units out of a head that `finished` made: it goes on learning scaled numbers."""
        dense = _last_layer(head)
        with torch.no_grad():
            dense.weight.div_(self.spread)
            dense.bias.sub_(self.mean).div_(self.spread)

    def finished(self, head: nn.Module) -> Self:
        """Write the scale into the last linear layer; return the task without one."""
        dense = _last_layer(head)
        with torch.no_grad():
            dense.weight.mul_(self.spread)
            dense.bias.mul_(self.spread).add_(self.mean)
        return type(self)(self._head, metric=self.metric, stride=self.stride, paired=self.paired)

    def _targets(self, examples: Sequence[TextExample]) -> dict[str, npt.NDArray[np.generic]]:
        values = np.array([_value(example) for example in examples], dtype=np.float64)
        return {"values": ((values - self.mean) / self.spread).astype(np.float32)}

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of units."""
        values = batch.targets["values"]
        return torch.tensor(float(len(values)), device=values.device)

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Squared error; logits (rows, 1)."""
        # squeeze(-1), never a broadcast of (rows, 1) against (rows,)
        return (logits.squeeze(-1).float() - batch.targets["values"]).square().sum() / count

    def decode(self, logits: Logits, features: Features, examples: Sequence[TextExample]) -> list[NumberPrediction]:
        """Return numbers in the labels' units; of windows, their mean (the window told is the one nearest to it)."""
        predictions = []
        for (rows, spans), coverage in zip(rows_of_examples(logits, features), features.coverage, strict=True):
            values = rows[:, 0] * self.spread + self.mean
            mean = float(values.mean())
            window = spans[int(np.abs(values - mean).argmin())] if len(rows) > 1 else None
            predictions.append(NumberPrediction(value=mean, coverage=float(coverage), window=window))
        return predictions

    def score(self, predictions: Sequence[NumberPrediction], examples: Sequence[TextExample]) -> dict[str, Any]:
        """Return spearman, pearson (None, with the reason, where one side is constant) and mse in squared units."""
        rows = self.example_scores(predictions, examples)
        told: dict[str, Any] = {metric: _number(_correlation(metric, rows)) for metric in METRICS}
        if any(told[metric] is None for metric in METRICS):
            sides = [name for name, values in zip(("labels", "predictions"), rows.T, strict=True) if _constant(values)]
            told["reason"] = f"no correlation is defined: the {' and the '.join(sides)} are all the same"
        told["mse"] = float(np.square(rows[:, 0] - rows[:, 1]).mean()) if len(rows) else None
        return {**told, "examples": len(examples)}

    def example_scores(
        self, predictions: Sequence[NumberPrediction], examples: Sequence[TextExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 2): label and prediction."""
        pairs = [(_value(example), prediction.value) for example, prediction in zip(examples, predictions, strict=True)]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows; NaN where it is not defined."""
        return _correlation(self.metric, rows)


def _last_layer(head: nn.Module) -> nn.Linear:
    dense = head.get_submodule("dense")
    assert isinstance(dense, nn.Linear)
    return dense


def _correlation(metric: str, rows: npt.NDArray[np.float64]) -> float:
    from scipy.stats import pearsonr, spearmanr

    if len(rows) < 2 or _constant(rows[:, 0]) or _constant(rows[:, 1]):
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nearly constant input, which is as it is
        return float((spearmanr if metric == "spearman" else pearsonr)(rows[:, 0], rows[:, 1])[0])


def _constant(values: npt.NDArray[np.float64]) -> bool:
    return len(values) == 0 or bool((values == values[0]).all())


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _value(example: TextExample) -> float:
    label = example.label
    if isinstance(label, bool) or not isinstance(label, int | float) or not math.isfinite(label):
        raise DataError(f"{example.place}: regression needs a finite number as label; got {label!r:.60}")
    return float(label)
