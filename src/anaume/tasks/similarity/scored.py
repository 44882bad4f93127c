"""Pairs with a score: their order in the batch (CoSENT, AnglE), or the score itself as a cosine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.model.vector_losses import angle_similarity, cosent_loss, cosine_loss
from anaume.tasks.features import Target
from anaume.tasks.similarity.objective import Objective, need_score
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared


class CoSent(Objective):
    """The order of all pairs of the batch by their scores (`cosent_loss`), by cosine."""

    name, metric = "cosent", "spearman"
    compares_units = True

    def check(self, example: SimilarityExample) -> None:
        """Take pairs with a score."""
        need_score(self.name, example)

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return the scores."""
        return _values(examples)

    def similarities(self, u: Tensor, v: Tensor) -> Tensor:
        """(n, size) twice -> (n,)"""
        return F.cosine_similarity(u, v)

    def loss(self, given: Compared) -> Tensor:
        """Return the one number of the batch, times units / count."""
        units, values = given.units, given.batch.targets["values"]
        if values.isnan().any():
            return given.other_kind
        similarities = self.similarities(given.vectors[units.queries], given.vectors[units.firsts])
        return cosent_loss(similarities, values, scale=given.terms.scale) * (given.batch.units / given.count)


class Angle(CoSent):
    """As CoSENT, by the angle of complex vectors (`angle_similarity`)."""

    name = "angle"

    def similarities(self, u: Tensor, v: Tensor) -> Tensor:
        """(n, size) twice -> (n,)"""
        return angle_similarity(u, v)


class Cosine(Objective):
    """The cosine itself is to be the score, brought to 0 .. 1 (`cosine_loss`)."""

    name, metric = "cosine", "spearman"

    def check(self, example: SimilarityExample) -> None:
        """Take pairs with a score."""
        need_score(self.name, example)

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return the scores."""
        return _values(examples)

    def loss(self, given: Compared) -> Tensor:
        """Return the mean squared error."""
        units = given.units
        targets = (given.batch.targets["values"] - given.terms.lowest) / (given.terms.highest - given.terms.lowest)
        if targets.isnan().any():
            return given.other_kind
        return cosine_loss(given.vectors[units.queries], given.vectors[units.firsts], targets, count=given.count)


def _values(examples: Sequence[SimilarityExample]) -> dict[str, Target]:
    values = [one.label if isinstance(one.label, float) and one.positives else np.nan for one in examples]
    return {"values": np.array(values, dtype=np.float32)}
