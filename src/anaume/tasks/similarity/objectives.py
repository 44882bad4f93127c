"""Every objective of similarity by its name."""

from __future__ import annotations

from collections.abc import Sequence

from anaume.data.labelled import SimilarityExample
from anaume.errors import SettingsError, nearest
from anaume.tasks.similarity.contrastive import InBatch, SimCse
from anaume.tasks.similarity.denoising import Tsdae
from anaume.tasks.similarity.objective import Objective
from anaume.tasks.similarity.pair_classes import Softmax
from anaume.tasks.similarity.scored import Angle, CoSent, Cosine
from anaume.tasks.similarity.triples import MarginMse, Triplet

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (InBatch(), CoSent(), Angle(), Cosine(), Triplet(), Softmax(), MarginMse(), SimCse(), Tsdae())
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
