"""Seconds a step of every kind of run, measured turn by turn on a quiet machine, and kept with the results.

A rate belongs to a pace: the kind of run, the tokenizer, and those settings that decide how long a step takes. It is
the median over rounds of the mean over a short run's steps, as many as take some seconds, the first few left out.
Evaluation, saving and start-up are in no rate.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from anaume.checks.machine import describe_machine
from anaume.data import atomic_file
from anaume.training import PretrainSettings
from anaume.training.pretraining.start import BATCH_ROWS
from anaume.training.records import read_lines
from benchmarks import harness
from benchmarks.harness import Peer

RATES = harness.ROOT / "docs" / "benchmarks" / "rows" / "rates.jsonl"
WARM_UP = 4
"""Steps of a short run that are not counted: torch picks kernels and touches memory."""
FEWEST, MOST = 4, 2_000
"""Steps of a short run that are."""

_NO_TIME = {
    "optimizer": None,
    "schedule": None,
    "model": {"start"},
    "objective": {"mask_share", "random_share"},
    "run": {
        *("steps", "minutes", "seed", "checkpoint_seconds", "log_seconds", "keep_checkpoints", "evaluations"),
        *("evaluation_rows", "on_non_finite", "tensorboard"),
    },
}
"""Settings that don't change the seconds a step; None = the whole section."""


def pace(kind: str, tokenizer: str, settings: PretrainSettings) -> str:
    """Return the pace of a run, in words."""
    default = PretrainSettings().with_values([f"run.batch_rows={BATCH_ROWS}"]).model_dump()
    own = []
    for section, values in settings.model_dump().items():
        passed_by = _NO_TIME.get(section, set())
        if passed_by is None:
            continue
        for key, value in values.items():
            if key not in passed_by and value != default[section][key]:
                own.append(f"{section}.{key}={value}")
    return " ".join([kind, tokenizer, *own])


class Rates:
    """The rates that are kept."""

    def __init__(self, path: Path = RATES) -> None:
        self.path = path
        self._lines = {line["pace"]: line for line in read_lines(path)} if path.exists() else {}

    def seconds(self, pace: str) -> float | None:
        """Return the seconds a step, None where they were not measured."""
        line = self._lines.get(pace)
        return None if line is None else float(line["seconds"])

    def lines(self, paces: Iterable[str]) -> list[dict[str, Any]]:
        """Return what is kept of these paces."""
        return [self._lines[pace] for pace in dict.fromkeys(paces) if pace in self._lines]

    def measure(
        self, runs: Mapping[str, Callable[[int, Path], float]], *, rounds: int, seconds: float, fresh: bool = False
    ) -> None:
        """Measure the paces that have no rate yet (all of them, if `fresh`), and keep them.

        runs     pace -> a function that trains so many steps in an empty folder and returns the mean seconds of a step,
                 the first `WARM_UP` left out
        seconds  about how long the steps of one round take
        """
        wanted = {pace: run for pace, run in runs.items() if fresh or pace not in self._lines}
        if not wanted:
            return
        about = {"commit": harness.commit(), "versions": harness.versions(), "seconds": seconds, "rounds": rounds}
        results = harness.Results("rates", about, fresh=fresh)
        peers = [Peer(pace, _short(run, seconds)) for pace, run in wanted.items()]
        for pace, timing in harness.measure(peers, results, repeats=rounds, warmup=0).items():
            self._lines[pace] = {
                "pace": pace,
                "seconds": statistics.median(timing.seconds),
                "spread": round(timing.spread, 3),
                "rounds": rounds,
                "date": time.strftime("%Y-%m-%d"),
                "commit": about["commit"],
                "machine": machine(),
            }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.path) as file:
            for line in self._lines.values():
                file.write((json.dumps(line) + "\n").encode())


def _short(run: Callable[[int, Path], float], seconds: float) -> Callable[[], Callable[[], float]]:
    def train(steps: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return run(WARM_UP + steps, Path(folder) / "run")

    def prepare() -> Callable[[], float]:
        steps = round(seconds / train(FEWEST))
        return lambda: train(min(max(steps, FEWEST), MOST))

    return prepare


@cache
def machine() -> str:
    """Return the machine in one line, measured once."""
    return describe_machine().line()


def machines(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the machines of kept lines, each once: matrix rates differ from sitting to sitting, the last are told."""
    return list({line["machine"].partition("; matrices")[0]: line["machine"] for line in lines}.values())
