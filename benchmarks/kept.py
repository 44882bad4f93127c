"""Results of a study's rows, a line each in a file of the repository; a result belongs to the definition it has.

rows/NAME.jsonl       a line for each finished row
rows/NAME/ROW.npz     the scores of its dev examples, some kilobytes, where a study keeps them
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anaume.data import atomic_file
from anaume.errors import SettingsError
from anaume.training.records import read_lines
from benchmarks import harness
from benchmarks.rates import machine

PLAN = "plan.json"


class Defined(Protocol):
    """A row: its name is its folder and decides nothing, its definition is everything that decides the result."""

    @property
    def name(self) -> str: ...

    @property
    def definition(self) -> dict[str, Any]: ...


class KeptRows:
    """The lines of one file; each has its row's definition under "row"."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = self._read()

    def __contains__(self, name: str) -> bool:
        """Whether there is a line of this name, under whatever definition."""
        return name in self._lines

    def result(self, row: Defined) -> dict[str, Any] | None:
        """Return what is kept of a row as it is defined now; None where there is nothing."""
        line = self._lines.get(row.name)
        return line if line is not None and line["row"] == row.definition else None

    def put(self, line: dict[str, Any]) -> None:
        """Keep a line."""
        self._write(self._read() | {line["row"]["name"]: line})

    def examples(self, row: Defined) -> NDArray[np.float64] | None:
        """Return the scores of a row's dev examples, None where there are none of the row as it is defined now."""
        path = self._examples_of(row.name)
        if self.result(row) is None or not path.exists():
            return None
        with np.load(path) as arrays:
            scores: NDArray[np.float64] = arrays["scores"]
        return scores

    def put_examples(self, name: str, scores: NDArray[np.float64]) -> None:
        """Keep the scores of a row's dev examples; before its line is put, which says that the row is done."""
        path = self._examples_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            np.savez_compressed(file, scores=scores)

    def forget(self, name: str) -> None:
        """Remove the line of a name, and its examples' scores, where they are."""
        self._examples_of(name).unlink(missing_ok=True)
        if name in self._lines:
            self._write({other: line for other, line in self._read().items() if other != name})

    def _examples_of(self, name: str) -> Path:
        return self.path.with_suffix("") / f"{name}.npz"

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the lines that are there now: another process may have put some, or forgotten some."""
        return {line["row"]["name"]: line for line in read_lines(self.path)} if self.path.exists() else {}

    def _write(self, lines: dict[str, dict[str, Any]]) -> None:
        self._lines = lines
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path) as file:
            for line in lines.values():
                file.write((json.dumps(line) + "\n").encode())


def read_plan(folder: Path, row: Defined) -> dict[str, Any] | None:
    """Return what a run that has begun is to be, None for one that has not. Raises SettingsError for another row's."""
    path = folder / PLAN
    if not path.exists():
        return None
    plan: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if plan["row"] != row.definition:
        raise SettingsError(f"{row.name}: begun under another definition; --fresh {row.name} forgets that run")
    return plan


def write_plan(folder: Path, row: Defined, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Write down what a run is to be, and return it: nothing changes a run that has begun."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"row": row.definition, **plan}
    with atomic_file(folder / PLAN) as file:
        file.write(json.dumps(whole).encode())
    return whole


def refuse_changed(row: Defined) -> SettingsError:
    """Return what is raised for a row that is kept under another definition."""
    return SettingsError(f"{row.name}: kept under another definition; --fresh {row.name} forgets that one")


def circumstances() -> dict[str, Any]:
    """Return when, of what code, where and with what a result was made."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": harness.commit(),
        "machine": machine(),
        "versions": harness.versions(),
    }
