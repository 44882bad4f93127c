"""A query, a positive and a negative: the positive nearer by a margin, one for all or a teacher's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.model.vector_losses import margin_mse_loss, triplet_loss
from anaume.tasks.features import Target, TaskBatch
from anaume.tasks.similarity.objective import Objective, need_negative
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared, Units


class Triplet(Objective):
    """The positive nearer than the negative by a margin (`triplet_loss`)."""

    name, metric, directed = "triplet", "mrr@10", True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with positives and negatives."""
        need_negative(self.name, example)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of triples."""
        return torch.tensor(float(len(Units.of(batch).triples()[0])), device=batch.unit_of_row.device)

    def loss(self, given: Compared) -> Tensor:
        """Return the mean over triples."""
        q, p, n = given.units.triples()
        if not len(q):
            return given.other_kind
        return triplet_loss(
            given.vectors[q], given.vectors[p], given.vectors[n], margin=given.terms.margin, count=given.count
        )


class MarginMse(Objective):
    """How much better the positive is than the negative, as a teacher has it (`margin_mse_loss`)."""

    name, metric, directed = "margin-mse", "mrr@10", True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with one positive, negatives, and a teacher's margin for each."""
        need_negative(self.name, example)
        if len(example.positives) != 1 or not isinstance(example.label, tuple):
            raise DataError(
                f"{example.place}: {self.name} needs one positive, and for each negative how much better a teacher "
                "scores the positive (a column score, or --column score=NAME)"
            )

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return the margins, (units, most), NaN beyond those there are."""
        margins = np.full((len(examples), max(1, terms.margins)), np.nan, dtype=np.float32)
        for row, example in zip(margins, examples, strict=True):
            own = example.label if isinstance(example.label, tuple) else ()
            row[: len(own)] = own[: len(row)]
        return {"margins": margins}

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of margins."""
        return (~batch.targets["margins"].isnan()).sum().float()

    def loss(self, given: Compared) -> Tensor:
        """Return the mean over margins."""
        units, margins = given.units, given.batch.targets["margins"]
        q, p, n = units.triples()
        kept = margins[~margins.isnan()]
        if len(kept) != len(q) or not len(kept):
            return given.other_kind
        return margin_mse_loss(given.vectors[q], given.vectors[p], given.vectors[n], kept, count=given.count)
