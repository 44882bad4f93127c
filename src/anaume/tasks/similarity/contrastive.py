"""Each query's positives against the other texts of the batch, and a text against all others (SimCSE)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.model.vector_losses import in_batch_loss
from anaume.tasks.features import Target, TaskBatch
from anaume.tasks.similarity.objective import Objective, need_positive, need_single
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared, Units
from anaume.tasks.text_keys import alike


def in_batch_pairs(batch: TaskBatch, known: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return which texts are a query's positives, and which its negatives: (units, candidates) bool each.

    known  sorted keys of the pairs that are alike (`known_pairs`): such a text is neither
    """
    units, keys = Units.of(batch), batch.targets["texts"][:, 0]
    queries, others = units.queries, units.others
    own = units.unit[others][None, :] == units.unit[queries][:, None]
    near = own & (units.place[others] <= units.positives[units.unit[others]])[None, :]
    return near, ~near & ~alike(keys[queries], keys[others], near, known)


def check_pairs(name: str, example: SimilarityExample) -> None:
    """Raise DataError for what is no query with positives: pairs with a label are not all alike."""
    need_positive(name, example)
    if example.label is not None and not example.negatives:
        raise DataError(
            f"{example.place}: the pair has the label {example.label!r}; {name} takes every pair as alike: "
            "cosent, angle and cosine learn scores, softmax learns classes; to take all pairs all the same, name "
            "their columns alone (--column query=NAME --column positive=NAME)"
        )


class InBatch(Objective):
    """Each query's positives against all other texts of the batch (`in_batch_loss`).

    A text that the training data call a positive of the query, or that is the query itself, is none of its negatives,
    wherever it stands in the batch.
    """

    name, metric = "in-batch", "mrr@10"
    compares_units = directed = True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with positives; pairs with a label are not all alike."""
        check_pairs(self.name, example)

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return which pairs have a label: a dev set may hold some that are not alike."""
        return {"labelled": np.array([one.label is not None and not one.negatives for one in examples])}

    def loss(self, given: Compared) -> Tensor:
        """Return the mean over queries."""
        if given.batch.targets["labelled"].any():
            return given.other_kind
        units = given.units
        near, far = in_batch_pairs(given.batch, given.known)
        return in_batch_loss(
            given.vectors[units.queries],
            given.vectors[units.others],
            near,
            far,
            scale=given.terms.scale,
            count=given.count,
        )


class SimCse(InBatch):
    """A text with itself, under two draws of dropout, against the batch (SimCSE, Gao et al. 2021, section 3)."""

    name, metric = "simcse", "spearman"
    directed, twice = False, True

    def check(self, example: SimilarityExample) -> None:
        """Take single texts."""
        need_single(self.name, example)
