"""The rows of a batch as what they are: queries, positives, negatives; and what a loss sees of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.model import Bert
from anaume.tasks.features import TaskBatch
from anaume.tasks.similarity.terms import Terms


@dataclass(frozen=True)
class Units:
    """The rows of a batch, as what they are in their units."""

    unit: Tensor
    """(rows,) int64: the unit of each row."""
    place: Tensor
    """(rows,) int64: 0 = the query, then the positives, then the negatives."""
    positives: Tensor
    """(units,) int64: how many positives each has."""

    @classmethod
    def of(cls, batch: TaskBatch) -> Units:
        """Return those of a batch."""
        unit, count = batch.unit_of_row, batch.units
        sizes = torch.bincount(unit, minlength=count)
        starts = sizes.cumsum(0) - sizes
        place = torch.arange(len(unit), device=unit.device) - starts[unit]
        return cls(unit, place, batch.targets["positives"])

    @property
    def queries(self) -> Tensor:
        """(units,) the row of each query."""
        return (self.place == 0).nonzero().squeeze(1)

    @property
    def firsts(self) -> Tensor:
        """(units,) the row of each unit's first positive."""
        return (self.place == 1).nonzero().squeeze(1)

    @property
    def others(self) -> Tensor:
        """(candidates,) the rows of all positives and negatives."""
        return (self.place > 0).nonzero().squeeze(1)

    def triples(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of query, positive and negative, (triples,) each: every positive with every negative."""
        near = (self.place > 0) & (self.place <= self.positives[self.unit])
        far = self.place > self.positives[self.unit]
        p, n = near.nonzero().squeeze(1), far.nonzero().squeeze(1)
        own = self.unit[p][:, None] == self.unit[n][None, :]
        at_p, at_n = own.nonzero().unbind(dim=1)
        return self.queries[self.unit[p[at_p]]], p[at_p], n[at_n]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a loss sees of a batch."""

    vectors: Tensor
    """(rows, size) float32."""
    classes: Tensor
    """(rows, labels): a classifier's logits, where one is trained."""
    batch: TaskBatch
    count: Tensor
    """What the sum over units is divided by."""
    terms: Terms
    known: npt.NDArray[np.int64]
    """Sorted keys of the pairs that are alike (`known_pairs`)."""
    model: Bert | None = None
    """Whose vectors they are; None where they are given alone."""

    @property
    def units(self) -> Units:
        """Which row is what."""
        return Units.of(self.batch)

    @property
    def other_kind(self) -> Tensor:
        """The loss of examples of another kind."""
        return self.vectors.new_full((), torch.nan)
