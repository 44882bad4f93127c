"""Passages in the order in which they answer a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from anaume.bundle.predicting import Predicted
from anaume.errors import DataError, SettingsError
from anaume.tasks.late_interaction import LateInteraction, MaxSims
from anaume.tasks.ranking import RankingPrediction
from anaume.tasks.registry import AnyTask
from anaume.tasks.regression import NumberPrediction


@dataclass(frozen=True)
class Ranked:
    """One passage of a ranking."""

    index: int
    """Its place among the passages given, from 0."""
    score: float
    """A logit of a model trained for ranking, a MaxSim of late interaction, a number in its labels' units of another;
    higher is better."""
    coverage: float
    """The share of query and passage that the model saw, 0 to 1."""


class HasTask(Protocol):
    """A bundle, as far as it matters here."""

    @property
    def task(self) -> AnyTask:
        """What its head was trained for. Raises SettingsError when it has none."""
        ...


def check_ranker(model: HasTask) -> None:
    """Raise SettingsError for a model without a head that gives a score of a pair."""
    needed = (
        "ranking needs a model with one score for a query and a passage (anaume finetune ranking, or late-interaction)"
    )
    try:
        task = model.task
    except SettingsError:
        raise SettingsError(f"{needed}; this one has no head that was trained for a task") from None
    if task.kind not in ("regression", LateInteraction.kind):
        raise SettingsError(f"{needed}; this one was trained for {task.name}")


def checked_passages(query: str, passages: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs to score. Raises DataError for what is no text, SettingsError for passages that are no list."""
    if isinstance(passages, str | bytes) or not isinstance(passages, Sequence):
        raise SettingsError(f"passages must be a list of texts; got one {type(passages).__name__}: put it into a list")
    for what, text in (("the query", query), *((f"passage {place}", text) for place, text in enumerate(passages))):
        if not isinstance(text, str):
            raise DataError(f"{what} must be a text; got {type(text).__name__} {text!r:.60}")
    return [(query, passage) for passage in passages]


def ranked(predicted: Predicted) -> list[Ranked]:
    """Return passages by falling score, equal ones in the order given."""
    found = [Ranked(place, score_of(one), one.coverage) for place, one in enumerate(predicted.predictions)]
    return sorted(found, key=lambda one: -one.score)


def score_of(prediction: RankingPrediction | MaxSims | NumberPrediction) -> float:
    """Return the score of one pair."""
    return prediction.value if isinstance(prediction, NumberPrediction) else prediction.scores[0]
