"""Which reader reads the files of a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from anaume.data.labelled.choices import read_choices
from anaume.data.labelled.examples import Example
from anaume.data.labelled.questions import read_questions
from anaume.data.labelled.similar import read_similar
from anaume.data.labelled.sources import Reading
from anaume.data.labelled.tagged import read_tagged
from anaume.data.labelled.texts import read_texts
from anaume.data.records import listed
from anaume.errors import SettingsError, nearest

_READERS: dict[str, tuple[Callable[..., Iterator[Example]], dict[str, Any]]] = {
    "classification": (read_texts, {}),
    "pair-classification": (read_texts, {"paired": True}),
    "multi-label": (read_texts, {"kind": "names"}),
    "regression": (read_texts, {"kind": "number"}),
    "ner": (read_tagged, {}),
    "question-answering": (read_questions, {}),
    "multiple-choice": (read_choices, {}),
    "similarity": (read_similar, {}),
    "ranking": (read_similar, {}),
    "late-interaction": (read_similar, {}),
}
LABELLED_TASKS = tuple(_READERS)
_NO_ROLES = {"paths", "labelled", "keep_blank", "paired", "kind"} | set(Reading.__dataclass_fields__)
_NO_COLUMNS = ("separator", "names")  # which say how a column is read
ROLES = tuple(
    dict.fromkeys(
        role
        for reader, _ in _READERS.values()
        for role in inspect.signature(reader).parameters
        if role not in _NO_ROLES
    )
)
"""All that a command line may say of the columns of any task."""


def read_labelled(
    task: str, paths: str | Path | Sequence[str | Path], *, labelled: bool = True, **reading: Any
) -> Iterator[Example]:
    """Stream the examples of a task, by its name, out of files.

    reading: columns and format, as the task's reader takes them; None counts as not given.

    Raises:
        SettingsError: at once, for a task that no reader is for, a column that means nothing to it, or no file.
        DataError: as the reader does.
    """
    if task not in _READERS:
        hint = nearest(task, _READERS)
        raise SettingsError(f"nothing reads labelled files of {task!r}{hint}; there are: {', '.join(_READERS)}")
    if not isinstance(paths, str | Path) and not paths:
        raise SettingsError("expected at least one labelled file; none came")
    reader, own = _READERS[task]
    given = {name: value for name, value in reading.items() if value is not None}
    known = inspect.signature(reader).parameters
    for name in given:
        if name not in known:
            roles = [role for role in known if role not in _NO_ROLES and role not in _NO_COLUMNS]
            raise SettingsError(f"{task} has no column {name!r}{nearest(name, roles)}; it has: {listed(roles)}")
    return reader(paths, labelled=labelled, **{**own, **given})
