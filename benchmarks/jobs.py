"""A study of jobs: rows of any kind that are run once, and kept; each says itself what it does.

out/benchmarks/runs/STUDY/ROW/       what a job leaves while it runs
docs/benchmarks/rows/STUDY.jsonl     a line for each finished row
"""

from __future__ import annotations

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anaume.errors import SettingsError
from benchmarks.kept import KeptRows, circumstances, refuse_changed
from benchmarks.rates import Rates
from benchmarks.study import ROWS, RUNS

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """One row. Its name is its folder, and decides nothing; all other fields decide its result."""

    name: str

    @property
    def definition(self) -> Line:
        """Everything that decides the result, as JSON has it."""
        told: Line = json.loads(json.dumps({"kind": type(self).__name__} | asdict(self)))
        return told

    @property
    def needs(self) -> tuple[Job, ...]:
        """Rows that must be done before."""
        return ()

    @property
    def pace(self) -> str | None:
        """What decides the seconds a step, in words; None where nothing of it is timed apart."""
        return None

    @abstractmethod
    def run(self, folder: Path, threads: int | None) -> Line | None:
        """Do it, or go on with it; return what is kept, "scores" among it, or None if it was asked to stop."""

    def seconds_a_step(self, steps: int, folder: Path) -> float:
        """Return the mean seconds of a step of a short run in an empty folder, the first `rates.WARM_UP` left out."""
        raise SettingsError(f"{self.name} is not timed by steps")


class JobStudy:
    """Rows, and their results as far as they are there."""

    def __init__(
        self, name: str, rows: Sequence[Job], *, rates: Rates | None = None, runs: Path = RUNS, kept: Path = ROWS
    ) -> None:
        self.rows = tuple(rows)
        if len({row.name for row in rows}) < len(rows):
            raise SettingsError(f"rows of one name in the study {name}")
        self.rates = Rates() if rates is None else rates
        self.kept = KeptRows(kept / f"{name}.jsonl")
        self.folder = runs / name

    def result(self, row: Job) -> Line | None:
        """Return what is kept of a row as it is defined now; None where there is nothing."""
        return self.kept.result(row)

    def state(self, row: Job) -> str:
        """Return "done", "changed" (kept under another definition), "begun" or "missing"."""
        if row.name in self.kept:
            return "done" if self.result(row) else "changed"
        return "begun" if (self.folder / row.name).exists() else "missing"

    def minutes(self, row: Job) -> float | None:
        """Return the minutes that the row took when it was run, whatever else the machine did; None before."""
        line = self.result(row)
        return None if line is None else line["seconds"] / 60

    def forget(self, name: str) -> None:
        """Forget a row's result and its run."""
        self.kept.forget(name)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def run(self, row: Job, *, threads: int | None = None) -> Line | None:
        """Run a row to its end, or go on with it; None if it was asked to stop (nothing is lost).

        Raises SettingsError for a row kept under another definition, or whose needs are not done.
        """
        if self.state(row) == "changed":
            raise refuse_changed(row)
        if (done := self.result(row)) is not None:
            return done
        if missing := [other.name for other in row.needs if self.result(other) is None]:
            raise SettingsError(f"{row.name} needs {missing[0]}: run that first")
        folder = self.folder / row.name
        folder.mkdir(parents=True, exist_ok=True)
        begun = time.perf_counter()
        found = row.run(folder, threads)
        if found is None:
            return None
        seconds = {"threads": threads, "seconds": round(time.perf_counter() - begun, 1)}
        line = {"row": row.definition, **seconds, **found, **circumstances()}
        self.kept.put(line)
        return line

    def measure_rates(self, rows: Sequence[Job], *, rounds: int, seconds: float, fresh: bool = False) -> None:
        """Measure, turn by turn, what a step takes of every pace that is not known."""
        runs = {row.pace: row.seconds_a_step for row in rows if row.pace is not None}
        self.rates.measure(runs, rounds=rounds, seconds=seconds, fresh=fresh)
