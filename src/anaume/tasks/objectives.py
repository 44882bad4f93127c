"""What a similarity training asks of vectors: which examples an objective takes, and its loss over a batch of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError, nearest
from anaume.model.losses import classification_loss
from anaume.model.vector_losses import (
    angle_similarity,
    cosent_loss,
    cosine_loss,
    in_batch_loss,
    margin_mse_loss,
    triplet_loss,
)
from anaume.tasks.features import Target, TaskBatch
from anaume.tasks.text_keys import alike


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The numbers of objectives."""

    scale: float = 20.0
    """What cosines are multiplied by; 1 / temperature."""
    margin: float = 1.0
    """How much nearer than the negative the positive of a triplet should be."""
    lowest: float = 0.0
    highest: float = 1.0
    """The range of scores, which becomes cosines 0 to 1."""
    margins: int = 0
    """The most negatives that a teacher scored in one example."""

    @classmethod
    def of(
        cls,
        examples: Sequence[SimilarityExample],
        *,
        scale: float,
        margin: float,
        score_range: Sequence[float] | None,
    ) -> Self:
        """Return the terms that examples and settings give. Raises SettingsError for a wrong one."""
        for name, value in (("scale", scale), ("margin", margin)):
            if not value > 0.0:
                raise SettingsError(f"task.{name} must be above 0; got {value}")
        numbers = [example.label for example in examples if isinstance(example.label, float)]
        ends = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
        if score_range is not None:
            if len(score_range) != 2 or not score_range[0] < score_range[1]:
                raise SettingsError(f"task.score_range must be the lowest and the highest score; got {score_range}")
            if numbers and (ends[0] < score_range[0] or ends[1] > score_range[1]):
                raise SettingsError(
                    f"task.score_range is {score_range[0]:g} to {score_range[1]:g}; the scores go from {ends[0]:g} to "
                    f"{ends[1]:g}"
                )
            ends = (score_range[0], score_range[1])
        margins = max((len(example.label) for example in examples if isinstance(example.label, tuple)), default=0)
        return cls(scale=scale, margin=margin, lowest=ends[0], highest=ends[1], margins=margins)

    def to_dict(self) -> dict[str, Any]:
        """Return them ready for JSON."""
        return asdict(self)


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

    @property
    def units(self) -> Units:
        """Which row is what."""
        return Units.of(self.batch)

    @property
    def other_kind(self) -> Tensor:
        """The loss of examples of another kind."""
        return self.vectors.new_full((), torch.nan)


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

    @abstractmethod
    def check(self, example: SimilarityExample) -> None:
        """Raise DataError for an example it can't learn from."""

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return what the loss needs of each unit beside its texts."""
        return {}

    def count(self, batch: TaskBatch) -> Tensor:
        """Return how many terms a batch has, a float32 scalar."""
        return torch.tensor(float(batch.units), device=batch.unit_of_row.device)

    @abstractmethod
    def loss(self, given: Compared) -> Tensor:
        """Return the loss, a scalar; NaN where the examples are not of its kind (a dev set may be of another)."""


class InBatch(Objective):
    """Each query's positives against all other texts of the batch (`in_batch_loss`).

    A text that the training data call a positive of the query, or that is the query itself, is none of its negatives,
    wherever it stands in the batch.
    """

    name, metric = "in-batch", "mrr@10"
    compares_units = directed = True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with positives; pairs with a label are not all alike."""
        _need_positive(self.name, example)
        if example.label is not None and not example.negatives:
            raise DataError(
                f"{example.place}: the pair has the label {example.label!r}; {self.name} takes every pair as alike: "
                "cosent, angle and cosine learn scores, softmax learns classes; to take all pairs all the same, name "
                "their columns alone (--column query=NAME --column positive=NAME)"
            )

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return which pairs have a label: a dev set may hold some that are not alike."""
        return {"labelled": np.array([one.label is not None and not one.negatives for one in examples])}

    def loss(self, given: Compared) -> Tensor:
        """Return the mean over queries."""
        if given.batch.targets["labelled"].any():
            return given.other_kind
        units, keys = given.units, given.batch.targets["texts"][:, 0]
        queries, others = units.queries, units.others
        own = units.unit[others][None, :] == units.unit[queries][:, None]
        near = own & (units.place[others] <= units.positives[units.unit[others]])[None, :]
        far = ~near & ~alike(keys[queries], keys[others], near, given.known)
        return in_batch_loss(
            given.vectors[queries], given.vectors[others], near, far, scale=given.terms.scale, count=given.count
        )


class SimCse(InBatch):
    """A text with itself, under two draws of dropout, against the batch (SimCSE, Gao et al. 2021, section 3)."""

    name, metric = "simcse", "spearman"
    directed, twice = False, True

    def check(self, example: SimilarityExample) -> None:
        """Take single texts."""
        if example.positives:
            raise DataError(
                f"{example.place}: {self.name} learns from single texts, and this is a pair; --column query=NAME reads "
                "one of its columns alone"
            )


class CoSent(Objective):
    """The order of all pairs of the batch by their scores (`cosent_loss`), by cosine."""

    name, metric = "cosent", "spearman"
    compares_units = True

    def check(self, example: SimilarityExample) -> None:
        """Take pairs with a score."""
        _need_score(self.name, example)

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
        _need_score(self.name, example)

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


class Triplet(Objective):
    """The positive nearer than the negative by a margin (`triplet_loss`)."""

    name, metric, directed = "triplet", "mrr@10", True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with positives and negatives."""
        _need_negative(self.name, example)

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


class Softmax(Objective):
    """The class of a pair, out of (u, v, |u - v|) (Sentence-BERT, section 3: what NLI is learned by)."""

    name, metric, classes = "softmax", "accuracy", True

    def check(self, example: SimilarityExample) -> None:
        """Take pairs with a class."""
        _need_positive(self.name, example)
        if not isinstance(example.label, str):
            raise DataError(
                f"{example.place}: {self.name} needs the class of each pair (--column label=NAME); got "
                f"{example.label!r:.40}"
            )

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return the classes' numbers. Raises DataError for one that training had not."""
        for example in examples:
            if isinstance(example.label, str) and example.label not in labels:
                raise DataError(
                    f"{example.place}: the label {example.label!r} is none of the training rows': {', '.join(labels)}"
                )
        numbers = [labels.index(one.label) if isinstance(one.label, str) else -100 for one in examples]
        return {"classes": np.array(numbers, dtype=np.int64)}

    def loss(self, given: Compared) -> Tensor:
        """Return the mean cross-entropy."""
        if (given.batch.targets["classes"] < 0).any():
            return given.other_kind
        return classification_loss(given.classes[::2], given.batch.targets["classes"], count=given.count)


class MarginMse(Objective):
    """How much better the positive is than the negative, as a teacher has it (`margin_mse_loss`)."""

    name, metric, directed = "margin-mse", "mrr@10", True

    def check(self, example: SimilarityExample) -> None:
        """Take queries with one positive, negatives, and a teacher's margin for each."""
        _need_negative(self.name, example)
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


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (InBatch(), CoSent(), Angle(), Cosine(), Triplet(), Softmax(), MarginMse(), SimCse())
}


def objective_named(name: str) -> Objective:
    """Return an objective. Raises SettingsError for another name, with the nearest."""
    if name not in OBJECTIVES:
        hint = nearest(str(name), OBJECTIVES)
        raise SettingsError(f"there is no objective {name!r}{hint}; there are: {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def objective_of(examples: Sequence[SimilarityExample]) -> str:
    """Return the usual objective of such examples, by the first."""
    if not examples or not examples[0].positives:
        return SimCse.name
    label = examples[0].label
    if isinstance(label, tuple):
        return MarginMse.name
    if isinstance(label, str):
        return Softmax.name
    return InBatch.name if label is None else CoSent.name


def _values(examples: Sequence[SimilarityExample]) -> dict[str, Target]:
    values = [one.label if isinstance(one.label, float) and one.positives else np.nan for one in examples]
    return {"values": np.array(values, dtype=np.float32)}


def _need_positive(name: str, example: SimilarityExample) -> None:
    if not example.positives:
        raise DataError(
            f"{example.place}: {name} needs a second text a row (--column query=NAME --column positive=NAME); single "
            "texts are for simcse"
        )


def _need_negative(name: str, example: SimilarityExample) -> None:
    _need_positive(name, example)
    if not example.negatives:
        raise DataError(f"{example.place}: {name} needs a negative a row (--column negative=NAME)")


def _need_score(name: str, example: SimilarityExample) -> None:
    _need_positive(name, example)
    if not isinstance(example.label, float):
        raise DataError(
            f"{example.place}: {name} needs the score of each pair; got {example.label!r} (--column score=NAME)"
        )
