"""Fine-tuning runs of ours and of the Trainer: what a row is, what it is worth in time, where its result is kept.

Scores and times are measured apart. A row's scores don't depend on what else the machine does: rows can be run niced,
on one thread, beside other work. Its time is steps x (seconds a step) + evaluations x (seconds an evaluation), both
measured on a quiet machine, all kinds turn by turn (`rates.py`); so is the budget of rows that have the Trainer's time.

    out/benchmarks/runs/finetune/ROW/      plan.json and the run, while it runs
    docs/benchmarks/rows/finetune          its results (`kept.py`)
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.engines import PRECISIONS
from anaume.errors import SettingsError
from benchmarks.finetune_data import FURTHER, SETS, drawn
from benchmarks.finetune_sides import BATCH, EPOCHS, Line, Row, seconds_a_step, seconds_an_evaluation, steps_of, train
from benchmarks.kept import PLAN, KeptRows, circumstances, read_plan, refuse_changed, write_plan
from benchmarks.rates import Rates
from benchmarks.study import ROWS, RUNS


class FinetuneStudy:
    """Rows, and their results as far as they are there."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        name: str = "finetune",
        rates: Rates | None = None,
        runs: Path = RUNS,
        kept: Path = ROWS,
    ) -> None:
        self.rows = tuple(rows)
        self.rates = Rates() if rates is None else rates
        self.kept = KeptRows(kept / f"{name}.jsonl")
        self._runs = runs / name

    def result(self, row: Row) -> Line | None:
        """Return what is kept of a row as it is defined now; None where there is nothing."""
        return self.kept.result(row)

    def state(self, row: Row) -> str:
        """Return "done", "changed" (kept under another definition), "begun", "missing", or "no rate"."""
        if row.name in self.kept:
            return "done" if self.result(row) else "changed"
        if (self._runs / row.name / PLAN).exists():
            return "begun"
        return "missing" if row.budget == "epochs" or self.seconds(row) is not None else "no rate"

    def minutes(self, row: Row) -> float | None:
        """Return the minutes a row takes on a quiet machine; None where that was not measured."""
        seconds = self.seconds(row)
        return None if seconds is None else seconds / 60

    def seconds(self, row: Row) -> float | None:
        """Return the seconds of a row's training and evaluations on a quiet machine; None where rates are missing."""
        step, evaluations = self.rates.seconds(row.pace), self._evaluations(row)
        if step is None or evaluations is None:
            return None
        if row.budget == "trainer":
            return self.seconds(row.trainer)
        line = self._line(row)
        return (steps_of(row) if line is None else line["steps"]) * step + evaluations

    def forget(self, name: str) -> None:
        """Forget a row's result and its run."""
        self.kept.forget(name)
        shutil.rmtree(self._runs / name, ignore_errors=True)

    def run(self, row: Row, *, threads: int | None = None) -> Line | None:
        """Train a row to its end, or go on with it, and score it; None if it was asked to stop (nothing is lost).

        threads  to begin a run with; None = torch's. Its steps, and what they are worth, stay the same

        Raises SettingsError for a row without a rate that it needs, or kept or begun under another definition.
        """
        if self.state(row) == "changed":
            raise refuse_changed(row)
        if (done := self.result(row)) is not None:
            return done
        folder = self._runs / row.name
        plan = read_plan(folder, row) or write_plan(
            folder, row, {"steps": self.planned(row), "threads": threads or torch.get_num_threads()}
        )
        steps = plan["steps"] if row.budget == "trainer" else None
        trained = train(row, folder / "run", row.finetune_settings(steps=steps, threads=plan["threads"]))
        if trained is None:
            return None
        self.kept.put_examples(row.name, trained.pop("examples"))
        own = drawn(row.data)
        line = {
            "row": row.definition,
            "threads": plan["threads"],
            **trained,
            "train": len(own.train),
            "dev": len(own.dev),
            "sha256": own.sha256,
            "overlap": {"dev in train": own.overlap, "starting model": SETS[row.data].seen},
            **circumstances(),
        }
        self.kept.put(line)
        shutil.rmtree(folder)  # weights of every row would fill the disk
        return line

    def examples(self, row: Row) -> NDArray[np.float64] | None:
        """Return the scores of the dev examples, as `Task.example_scores` has them."""
        return self.kept.examples(row)

    def planned(self, row: Row) -> int:
        """Return the steps of a row. Raises SettingsError where no rate tells what its time is worth."""
        if row.budget == "epochs":
            return steps_of(row)
        whole, step, evaluations = self.seconds(row), self.rates.seconds(row.pace), self._evaluations(row)
        if whole is None or step is None or evaluations is None:
            raise SettingsError(f"{row.name}: nothing tells the Trainer's time and ours; measure with --rates first")
        return max(1, math.floor((whole - evaluations) / step))

    def measure_rates(self, rows: Sequence[Row], *, rounds: int, seconds: float, fresh: bool = False) -> None:
        """Measure, turn by turn, what a step and an evaluation take both sides, where not known."""
        timed = [one for row in rows for side in (row, row.trainer) for one in timed_with(side)]
        runs: dict[str, Callable[[int, Path], float]] = {row.pace: partial(seconds_a_step, row) for row in timed}
        runs |= {row.evaluation_pace: partial(seconds_an_evaluation, row) for row in (*timed, *map(_saved, rows))}
        self.rates.measure(runs, rounds=rounds, seconds=seconds, fresh=fresh)

    def _line(self, row: Row) -> Line | None:
        """Return what is kept of a row in either precision: its steps and examples are those of both."""
        return next((line for one in PRECISIONS if (line := self.result(replace(row, precision=one)))), None)

    def _evaluations(self, row: Row) -> float | None:
        """Return the seconds of a row's evaluations: so many in the run, and ours scores once more what it saves."""
        scored = [row] * EPOCHS + ([_saved(row)] if row.side == "ours" else [])
        rates = [self.rates.seconds(each.evaluation_pace) for each in scored]
        known = [rate for rate in rates if rate is not None]
        if len(known) < len(rates):
            return None
        line = self._line(row)
        return (len(drawn(row.data).dev) if line is None else line["dev"]) / BATCH * sum(known)


def timed_with(row: Row) -> list[Row]:
    """Return the rows that are timed beside a row: itself; of the core data sets in every precision."""
    return [row] if row.data in FURTHER else [replace(row, precision=one) for one in PRECISIONS]


def _saved(row: Row) -> Row:
    """Return the row whose pace the evaluation of what was saved has, which is in float32."""
    return replace(row, precision="float32")
