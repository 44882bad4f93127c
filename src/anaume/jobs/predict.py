"""Predict whole files: read, predict and write chunk by chunk, every column kept."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from anaume.bundle import Bundle
from anaume.bundle.predicting import Seen
from anaume.data import atomic_file
from anaume.data.labelled import Example, QuestionExample
from anaume.data.vectors import json_line
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.progress import progress_bar
from anaume.jobs.sources import scan_sources
from anaume.tasks.answers import AnswerPrediction
from anaume.tasks.question_answering import QuestionAnswering
from anaume.tasks.registry import stream_examples
from anaume.tasks.task import Prediction

_DIGITS = 6  # significant ones of what is written: float32 knows no more
CHUNK = 2048
"""Examples read, predicted and written at once."""
PREDICTION = "prediction"


@dataclass(frozen=True, kw_only=True)
class PredictSummary:
    """What a run of `predict_file` did."""

    out: str
    """The file written; "-" for stdout."""
    task: str
    examples: int
    seconds: float
    coverage: float
    """The mean share of a text that the model saw, 0 to 1."""
    cut: int
    """Texts it did not see whole."""
    unknown_share: float
    """The share of the pieces that the vocabulary does not hold, 0 to 1."""
    messages: tuple[str, ...]
    """What was warned about, in words."""


def predict_file(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    out: str | Path | None,
    *,
    overwrite: bool = False,
    progress: bool = False,
    **reading: Any,
) -> PredictSummary:
    """Predict every row of files, in order, in bounded memory, as JSON lines: its columns, and "prediction" (6 digits).

    out      a .jsonl file, which appears whole when all is done; None = stdout; for answers to questions also .json,
             what the official evaluation of SQuAD reads: one object, id -> answer
    reading  columns and format, as the task's reader of `anaume.data.labelled` takes them; labels are not read

    Warns at most once. Raises SettingsError for wrong arguments, DataError for a file, a row or an output.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SettingsError("expected at least one file to predict; none came")
    task = bundle.task
    if out is not None:
        if Path(out).suffix != ".jsonl" and not (Path(out).suffix == ".json" and isinstance(task, QuestionAnswering)):
            raise SettingsError(
                f"{out}: predictions are written as JSON lines: name a .jsonl file (answers to questions may go to a "
                ".json file, as SQuAD's evaluation reads them)"
            )
        if os.path.lexists(out) and not overwrite:
            raise DataError(f"{out} exists; overwrite=True (--overwrite) replaces it")
        if any(os.path.exists(path) and os.path.lexists(out) and os.path.samefile(path, out) for path in given):
            raise SettingsError(f"{out} is the output and one of the inputs; name another output")
    started = time.perf_counter()
    stream = stream_examples(type(task), given, labelled=False, **reading)
    seen = Seen()
    write: Callable[[Any, Any], bytes] = _record if out is None or Path(out).suffix == ".jsonl" else _OfficialAnswers()
    with _lines(out) as file, progress_bar("predicting", scan_sources(given).lines, show=progress) as advance:
        while chunk := list(islice(stream, CHUNK)):
            predicted = bundle.predict_report(chunk, warn=False)
            for example, prediction in zip(chunk, predicted.predictions, strict=True):
                file.write(write(example, prediction))
            seen.add(predicted)
            advance(len(chunk))
        if isinstance(write, _OfficialAnswers):
            file.write(write.end())
    messages = seen.messages(bundle.task_length)
    if messages:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=2)
    return PredictSummary(
        out="-" if out is None else str(out),
        task=task.name,
        examples=seen.texts,
        seconds=time.perf_counter() - started,
        coverage=seen.coverage / seen.texts if seen.texts else 1.0,
        cut=seen.cut,
        unknown_share=seen.unknown_share,
        messages=messages,
    )


def _record(example: Example, prediction: Prediction) -> bytes:
    """Return a line: the columns of the row, and what is predicted."""
    if PREDICTION in example.fields:
        raise DataError(f"{example.place}: the input has a column {PREDICTION!r}, which the output needs; rename it")
    try:
        return json_line({**example.fields, PREDICTION: _rounded(prediction.record())})
    except TypeError as error:
        raise DataError(f"{example.place}: a column can't be written as JSON: {error}") from error


def _rounded(value: Any) -> Any:
    """Return a value of JSON, its floats with as many digits as they can answer for."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


class _OfficialAnswers:
    """Gathers answers by id, and gives them as one object at the end."""

    def __init__(self) -> None:
        self._answers: dict[str, str] = {}

    def __call__(self, example: QuestionExample, prediction: AnswerPrediction) -> bytes:
        """Keep an answer; nothing is written yet."""
        if example.id in self._answers:
            raise DataError(
                f"{example.place}: the id {example.id!r} is another question's too; give each its own, or write .jsonl"
            )
        self._answers[example.id] = prediction.answer
        return b""

    def end(self) -> bytes:
        """Return the object."""
        return json_line({**self._answers})


@contextmanager
def _lines(out: str | Path | None) -> Iterator[BinaryIO]:
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with atomic_file(Path(out)) as file:
        yield file
