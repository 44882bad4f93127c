"""What a task is: how its examples become rows, what is lost on them, and how logits become answers and scores.

A task is made from training examples (`fit`) or from what a bundle keeps (`restore`), and never changes: `calibrate`
returns another. Tasks know no bundle and no files; `data.labelled` reads the examples, `training` trains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from anaume.config import HeadConfig, HeadKind
from anaume.data.labelled import Example
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch
from anaume.tokenization import Tokenizer

Logits = Sequence[npt.NDArray[np.float32]]
"""What the head says of each row, in order: (labels,) of a text head, () of a multiple-choice head, (tokens, labels)
of a token head, (tokens, 2) of a span head; only real tokens."""


@dataclass(frozen=True, kw_only=True)
class Prediction(ABC):
    """What every prediction can say of itself; each task adds its own fields."""

    coverage: float
    """The share of the text that the model saw, 0 to 1."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """Return it ready for JSON, the answer first."""


E = TypeVar("E", bound=Example)
P = TypeVar("P", bound=Prediction)


class Task(ABC, Generic[E, P]):
    """One task. Scores are fractions of 1 unless said otherwise, and a better `main` score is a higher one."""

    name: ClassVar[str]
    """As users type it."""
    kind: ClassVar[HeadKind]
    """The head that it trains; the head's name in the model is the same word."""

    starts_scored: ClassVar[bool] = False
    """Whether a score before the first step says something: there is no new head, and the start may be the best."""

    @property
    def compares_units(self) -> bool:
        """Whether its loss is of a batch as a whole, and no sum over units that micro-batches could add up."""
        return False

    @property
    @abstractmethod
    def main(self) -> str:
        """The score that decides which weights are best; a plain class attribute where it is always the same."""

    @classmethod
    @abstractmethod
    def fit(cls, examples: Sequence[E], **options: Any) -> Self:
        """Settle what the task learns, from its training examples: label names, weights, scales.

        options  of the task's own, each with a default

        Raises DataError naming the row of an example that does not fit, SettingsError for a wrong option.
        """

    @property
    @abstractmethod
    def head(self) -> HeadConfig:
        """The head to train."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what a bundle must keep beside the head (thresholds, scales, ...), ready for JSON."""

    @classmethod
    @abstractmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task a bundle was trained for; `settings` is {} for a head out of a foreign checkpoint."""

    def judged_on(self, examples: Sequence[E]) -> Self:
        """Return the task with a main score that held-out examples of their kind can have, where its own is none."""
        return self

    def check_labels(self, examples: Sequence[E]) -> None:
        """Refuse examples whose labels are not the model's, with both lists. Raises DataError."""

    @abstractmethod
    def features(self, examples: Sequence[E], tokenizer: Tokenizer, max_length: int, *, learn: bool) -> Features:
        """Return the rows of examples, with targets where they are to be learned.

        Raises DataError naming the row of an example that does not fit the task, a label it does not know included.
        """

    @abstractmethod
    def count(self, batch: TaskBatch) -> Tensor:
        """Return what the summed loss of these units adds to the divisor: a float32 scalar.

        Summed over micro-batches and processes, it is what `loss` is divided by.
        """

    @abstractmethod
    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the loss of these units, a scalar: its sum over `count`.

        logits  of the head as a batch: (rows, labels), (rows,), (rows, seq_len, labels) or (rows, seq_len, 2)
        """

    def loss_in(self, model: Bert, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """As `loss`, of a task that trains more of a model than what makes the logits; else the same."""
        return self.loss(logits, batch, count)

    def kept_places(
        self, token_ids: Sequence[npt.NDArray[Any]], rows: Sequence[int], *, seed: int, step: int
    ) -> list[npt.NDArray[np.int64]] | None:
        """Return which places of each row are shown at a step of training; None = all of them, always.

        token_ids   the rows, special tokens included
        rows        their numbers, which with seed and step decide what is drawn
        """
        return None

    @abstractmethod
    def decode(self, logits: Logits, features: Features, examples: Sequence[E]) -> list[P]:
        """Return one prediction an example, in order."""

    @abstractmethod
    def score(self, predictions: Sequence[P], examples: Sequence[E]) -> dict[str, Any]:
        """Return the task's scores by name, over all examples at once; `main` is among them.

        One that is not defined (a correlation with constants) is None.
        """

    @abstractmethod
    def example_scores(self, predictions: Sequence[P], examples: Sequence[E]) -> npt.NDArray[np.float64]:
        """Return (examples, k) counts or values from which `score_of` makes the main score of any resample of them."""

    @abstractmethod
    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows of `example_scores`."""

    @abstractmethod
    def example(self, given: object, place: str) -> E:
        """Return what a user handed over as an example without labels. Raises DataError, beginning with `place`."""

    def resumed(self, head: nn.Module) -> None:
        """Change a trained head in place, before it goes on learning on this task's examples: undoes `finished`."""

    def finished(self, head: nn.Module) -> Self:
        """Return the task as it is once training is over; it may change the head in place for that."""
        return self

    def calibrate(self, logits: Logits, features: Features, examples: Sequence[E]) -> Self:
        """Return the task with its thresholds set on held-out examples; the task itself where it has none."""
        return self
