"""Every task by its name, and by the names that pipelines elsewhere give it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anaume.config import HeadConfig
from anaume.data.labelled import read_labelled
from anaume.errors import SettingsError, nearest
from anaume.tasks.classification import Classification, PairClassification
from anaume.tasks.late_interaction import LateInteraction
from anaume.tasks.multi_label import MultiLabel
from anaume.tasks.multiple_choice import MultipleChoice
from anaume.tasks.ner import Ner
from anaume.tasks.question_answering import QuestionAnswering
from anaume.tasks.ranking import Ranking
from anaume.tasks.regression import Regression
from anaume.tasks.similarity import Similarity
from anaume.tasks.task import Task

AnyTask = Task[Any, Any]

TASKS: dict[str, type[AnyTask]] = {
    task.name: task
    for task in (
        Classification,
        PairClassification,
        MultiLabel,
        Regression,
        Ner,
        QuestionAnswering,
        MultipleChoice,
        Similarity,
        Ranking,
        LateInteraction,
    )
}

ALIASES = {
    "text-classification": "classification",
    "sentiment-analysis": "classification",
    "natural-language-inference": "pair-classification",
    "sentence-similarity": "regression",
    "token-classification": "ner",
    "extractive-qa": "question-answering",
}


def task_named(name: str) -> type[AnyTask]:
    """Return a task by its name or an alias. Raises SettingsError for another name, with the nearest."""
    own = ALIASES.get(name, name)
    if own not in TASKS:
        known = [*TASKS, *ALIASES, "features"]
        hint = nearest(name, known)
        raise SettingsError(
            f"there is no task {name!r}{hint}; there are: {', '.join(TASKS)}, and to fine-tune: features"
        )
    return TASKS[own]


def fit_task(kind: type[AnyTask], examples: Sequence[Any], options: Mapping[str, Any]) -> AnyTask:
    """Return a task fitted to its training examples; an option it does not have is refused by name."""
    known = {
        name
        for function in (kind.fit, kind.__init__)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name in options:
        if name not in known:
            raise SettingsError(f"task.{name} means nothing to {kind.name}; it has: {', '.join(sorted(known))}")
    return kind.fit(examples, **options)


def restored_task(name: str, head: HeadConfig, settings: Mapping[str, Any]) -> AnyTask:
    """Return the task that a bundle says its head was trained for.

    Raises SettingsError for another kind of head than the task's, and for settings that are not the task's.
    """
    kind = task_named(name)
    if kind.kind != head.kind:
        raise SettingsError(f"{name} is predicted by a {kind.kind} head; this is a {head.kind} head")
    try:
        return kind.restore(head, settings)
    except SettingsError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise SettingsError(f"{name} can't have these settings, {dict(settings)!r:.80}: {error}") from error


def read_examples(
    kind: type[AnyTask], paths: str | Path | Sequence[str | Path], *, labelled: bool, **reading: Any
) -> list[Any]:
    """Return the examples of labelled files, without the columns that no task reads."""
    return [replace(example, fields={}) for example in stream_examples(kind, paths, labelled=labelled, **reading)]


def stream_examples(
    kind: type[AnyTask], paths: str | Path | Sequence[str | Path], *, labelled: bool, **reading: Any
) -> Iterator[Any]:
    """Stream the examples of files, as the task's reader gives them (`anaume.data.labelled`)."""
    return read_labelled(kind.name, paths, labelled=labelled, **reading)


def task_of_head(head: HeadConfig, settings: Mapping[str, Any]) -> AnyTask | None:
    """Return the task of a head that does not say which it was trained for; None where a head predicts no task."""
    for task in TASKS.values():
        if task.kind == head.kind:
            return task.restore(head, settings)
    return None
