"""What an objective of similarity is: which examples it takes, what it needs of them, and its loss over a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.tasks.features import Target, TaskBatch
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared


class Objective(ABC):
    """One objective: what it takes of examples, and its loss."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The score that decides, unless another is asked for."""
    compares_units: ClassVar[bool] = False
    """Whether the loss is of a batch as a whole, and no sum over units."""
    directed: ClassVar[bool] = False
    """Whether one text is a query and the others passages."""
    twice: ClassVar[bool] = False
    """Whether a text is its own positive."""
    classes: ClassVar[bool] = False
    """Whether a classifier of pairs is trained."""
    rebuilds: ClassVar[bool] = False
    """Whether a decoder is trained that rebuilds each text from its vector as it is, not normalised nor cut."""

    @abstractmethod
    def check(self, example: SimilarityExample) -> None:
        """Raise DataError for an example it can't learn from."""

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return what the loss needs of each unit beside its texts."""
        return {}

    def count(self, batch: TaskBatch) -> Tensor:
        """Return how many terms a batch has, a float32 scalar."""
        return torch.tensor(float(batch.units), device=batch.unit_of_row.device)

    def kept_places(
        self, token_ids: Sequence[npt.NDArray[Any]], rows: Sequence[int], terms: Terms, *, seed: int, step: int
    ) -> list[npt.NDArray[np.int64]] | None:
        """Return which places of each row the encoder sees at a step; None = all (`Task.kept_places`)."""
        return None

    @abstractmethod
    def loss(self, given: Compared) -> Tensor:
        """Return the loss, a scalar; NaN where the examples are not of its kind (a dev set may be of another)."""


def need_positive(name: str, example: SimilarityExample) -> None:
    """Raise DataError for an example without a second text."""
    if not example.positives:
        raise DataError(
            f"{example.place}: {name} needs a second text a row (--column query=NAME --column positive=NAME); single "
            "texts are for simcse"
        )


def need_negative(name: str, example: SimilarityExample) -> None:
    """Raise DataError for an example without a positive or a negative."""
    need_positive(name, example)
    if not example.negatives:
        raise DataError(f"{example.place}: {name} needs a negative a row (--column negative=NAME)")


def need_score(name: str, example: SimilarityExample) -> None:
    """Raise DataError for an example that is no pair with a score."""
    need_positive(name, example)
    if not isinstance(example.label, float):
        raise DataError(
            f"{example.place}: {name} needs the score of each pair; got {example.label!r} (--column score=NAME)"
        )


def need_single(name: str, example: SimilarityExample) -> None:
    """Raise DataError for an example that is no single text."""
    if example.positives:
        raise DataError(
            f"{example.place}: {name} learns from single texts, and this is a pair; give a file with one text a row"
        )
