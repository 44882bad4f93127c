"""Score a model on labelled files, and compare two on the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.bundle.predicting import Seen
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.predict import CHUNK
from anaume.jobs.progress import progress_bar
from anaume.tasks.comparing import Comparison, compare
from anaume.tasks.registry import AnyTask, read_examples


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a model is worth on labelled files."""

    task: str
    metric: str
    """The main score."""
    scores: dict[str, Any]
    """As the task has them, fractions of 1."""
    examples: int
    cut: int | None
    """Texts the model did not see whole; None where no model was run (`evaluate_answers`)."""
    unknown_share: float | None
    """The share of the pieces that the vocabulary does not hold, 0 to 1; None where no model was run."""
    comparison: Comparison | None
    """Less the other model's score, where one was given."""
    other_scores: dict[str, Any] | None


def evaluate_file(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    *,
    against: Bundle | None = None,
    progress: bool = False,
    **reading: Any,
) -> Evaluation:
    """Score a bundle on labelled files, over all examples at once.

    against  another bundle of the same task, to compare with by the paired bootstrap
    reading  columns and format, as the task's reader of `anaume.data.labelled` takes them

    Raises SettingsError for wrong arguments, DataError for a file or a row; labels that the model does not know are
    refused with both lists.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    task = bundle.task
    if against is not None:
        _require_comparable(task, against.task)
    examples = read_examples(type(task), given, labelled=True, **reading)
    if not examples:
        raise DataError(f"{', '.join(map(str, given))}: no examples to score on")
    task = task.judged_on(examples)
    with progress_bar("evaluating", len(examples) * (1 if against is None else 2), show=progress) as advance:
        predictions, seen = _predicted(bundle, examples, advance)
        comparison = other_scores = None
        if against is not None:
            others, _ = _predicted(against, examples, advance)
            other_scores = against.task.score(others, examples)
            # Both by the one task: the other model may have its labels in another order.
            rows = [task.example_scores(each, examples) for each in (predictions, others)]
            comparison = compare(task, *rows)
    messages = seen.messages(bundle.task_length)
    if messages:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=2)
    return Evaluation(
        task=task.name,
        metric=task.main,
        scores=task.score(predictions, examples),
        examples=len(examples),
        cut=seen.cut,
        unknown_share=seen.unknown_share,
        comparison=comparison,
        other_scores=other_scores,
    )


def _require_comparable(task: AnyTask, other: AnyTask) -> None:
    if (other.name, other.main) != (task.name, task.main):
        raise SettingsError(
            f"two models are compared on one task and score: {task.name} by {task.main}, and {other.name} by "
            f"{other.main}"
        )
    labels, others = task.head.labels, other.head.labels
    if set(labels) != set(others):
        raise SettingsError(
            f"two models are compared on the same labels: one knows {', '.join(labels)}, the other {', '.join(others)}"
        )


def _predicted(bundle: Bundle, examples: Sequence[Any], advance: Any) -> tuple[list[Any], Seen]:
    """Return the predictions of all examples, and what the model saw of them."""
    bundle.task.check_labels(examples)
    predictions: list[Any] = []
    seen = Seen()
    stream = iter(examples)
    while chunk := list(islice(stream, CHUNK)):
        predicted = bundle.predict_report(chunk, warn=False)
        predictions += predicted.predictions
        seen.add(predicted)
        advance(len(chunk))
    return predictions, seen
