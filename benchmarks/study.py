"""Pretraining runs of equal minutes: what a row is, how it is trained and scored, and where its result is kept.

Minutes are turned into steps: a budget is worth minutes x 60 / (seconds a step), and the seconds a step were measured
on a quiet machine, all kinds turn by turn (`rates.py`). So a run that is disturbed, niced or stopped ends where it
would have ended undisturbed, and its learning rate goes over the very same steps.

    out/benchmarks/runs/STUDY/ROW/       plan.json, the steps; run/, what `pretrain` or the Trainer keeps
    docs/benchmarks/rows/STUDY.jsonl     a line for each finished row
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from anaume.bundle import Bundle
from anaume.data.corpus import open_corpus
from anaume.errors import SettingsError
from anaume.training import PretrainSettings, pretrain
from anaume.training.records import METRICS, read_lines
from benchmarks import corpora, harness, hf_trainer
from benchmarks.kept import PLAN, KeptRows, circumstances, read_plan, refuse_changed, write_plan
from benchmarks.rates import WARM_UP, Rates, pace

RUNS = harness.KEPT / "runs"
ROWS = harness.ROOT / "docs" / "benchmarks" / "rows"

COMMON = ("data.seq_len=128", "run.batch_rows=32", "run.threads=2", "run.keep_checkpoints=1")
_LAST = 0.95  # the training loss told is the mean over the run from here on


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of a study. Its name is its folder, and decides nothing.

    settings  what differs from `COMMON` and the defaults of `PretrainSettings`, as "section.key=value"; a Trainer takes
              those that `hf_trainer.train` knows
    """

    name: str
    minutes: float
    settings: tuple[str, ...] = ()
    layers: int = 4
    width: int = 256
    corpus: str = "reviews"
    tokenizer: str = corpora.BERT
    kind: Literal["ours", "trainer"] = "ours"
    seed: int = 0

    def pretrain_settings(self, steps: int = 1) -> PretrainSettings:
        """Return the whole settings of a run of so many steps. Raises SettingsError."""
        shape = ("model.size=custom", f"model.num_hidden_layers={self.layers}", f"model.hidden_size={self.width}")
        own = (f"run.steps={steps}", f"run.seed={self.seed}")
        return PretrainSettings().with_values([*shape, *COMMON, *self.settings, *own])

    @property
    def pace(self) -> str:
        """What decides the seconds a step, in words: rows of one pace share a rate."""
        return pace(self.kind, self.tokenizer, self.pretrain_settings())

    @property
    def definition(self) -> dict[str, Any]:
        """Everything that decides the result, as JSON has it."""
        told: dict[str, Any] = json.loads(json.dumps(asdict(self) | {"settings": [*COMMON, *self.settings]}))
        return told


Score = Callable[[Row, Bundle, Path], dict[str, Any]]
"""(row, trained bundle, prepared corpus) -> numbers by name."""


class Study:
    """Rows, and their results as far as they are there."""

    def __init__(
        self,
        name: str,
        rows: Sequence[Row],
        score: Score,
        *,
        rates: Rates | None = None,
        runs: Path = RUNS,
        kept: Path = ROWS,
    ) -> None:
        self.name = name
        self.rows = tuple(rows)
        twice = {row.name for row in rows if [other.name for other in rows].count(row.name) > 1}
        if twice:
            raise SettingsError(f"rows of one name: {', '.join(sorted(twice))}")
        self._score = score
        self.rates = Rates() if rates is None else rates
        self._runs = runs / name
        self.kept = KeptRows(kept / f"{name}.jsonl")

    @property
    def path(self) -> Path:
        """Where the results are kept."""
        return self.kept.path

    def result(self, row: Row) -> dict[str, Any] | None:
        """Return what is kept of a row as it is defined now; None where there is nothing."""
        return self.kept.result(row)

    def minutes(self, row: Row) -> float | None:
        """Return the minutes a row is worth."""
        return row.minutes

    def state(self, row: Row) -> str:
        """Return "done", "changed" (kept under another definition), "begun", "missing", or "no rate"."""
        if row.name in self.kept:
            return "done" if self.result(row) else "changed"
        if (self._runs / row.name / PLAN).exists():
            return "begun"
        return "missing" if self.rates.seconds(row.pace) is not None else "no rate"

    def forget(self, name: str) -> None:
        """Forget a row's result and its run."""
        self.kept.forget(name)
        shutil.rmtree(self._runs / name, ignore_errors=True)

    def run(self, row: Row, *, threads: int | None = None) -> dict[str, Any] | None:
        """Train a row to its end, or go on with it, and score it; None if it was asked to stop (nothing is lost).

        threads  to begin a run with, in place of the row's; its steps stay those that the row's threads are worth.
                 Two runs of one thread each share two cores better than two of two

        Raises SettingsError for a row without a rate, or kept or begun under another definition.
        """
        if self.state(row) == "changed":
            raise refuse_changed(row)
        if (done := self.result(row)) is not None:
            return done
        folder = self._runs / row.name
        plan = self._plan(row, folder, threads)
        steps = plan["steps"]
        corpus = corpora.prepared(row.corpus, row.tokenizer)
        trained = train(row, steps, corpus, folder / "run", threads=plan["threads"])
        if trained is None:
            return None
        scores = self._score(row, Bundle.load(trained["bundle"], device="cpu"), corpus)
        settings = row.pretrain_settings(steps)
        assert settings.run.batch_rows is not None
        tokens = steps * settings.run.batch_rows * (settings.data.seq_len - 2)
        line = {
            "row": row.definition,
            "steps": steps,
            "seconds_a_step": plan["seconds_a_step"],
            "threads": plan["threads"],
            "seconds": round(trained["seconds"], 1),
            "epochs": round(tokens / open_corpus(corpus).split("train").tokens, 3),
            "training_loss": trained["loss"],
            "curve": trained["curve"],
            "scores": scores,
            "overlap": corpora.overlap(row.corpus),
            **circumstances(),
        }
        self.kept.put(line)
        shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)  # the bundle stays
        return line

    def measure_rates(self, rows: Sequence[Row], *, rounds: int, seconds: float, fresh: bool = False) -> None:
        """Measure what the minutes of rows are worth, as far as it is not known."""
        runs = {row.pace: partial(seconds_a_step, row) for row in rows}
        self.rates.measure(runs, rounds=rounds, seconds=seconds, fresh=fresh)

    def bundle(self, row: Row) -> Path:
        """Return where the trained bundle of a finished row lies, on the machine that trained it."""
        return self._runs / row.name / "run" / "bundle"

    def _plan(self, row: Row, folder: Path, threads: int | None) -> dict[str, Any]:
        """Return steps, seconds a step and threads, written down once: nothing changes a run that has begun."""
        if (begun := read_plan(folder, row)) is not None:
            return begun
        seconds = self.rates.seconds(row.pace)
        if seconds is None:
            raise SettingsError(f"{row.name}: nothing tells what its minutes are worth; measure with --rates first")
        plan = {
            "steps": max(1, round(60 * row.minutes / seconds)),
            "seconds_a_step": seconds,
            "threads": row.pretrain_settings().run.threads if threads is None else threads,
        }
        return write_plan(folder, row, plan)


def train(row: Row, steps: int, corpus: Path, folder: Path, *, threads: int) -> dict[str, Any] | None:
    """Train, or go on training; return bundle, seconds, last training loss and curve, None if it was asked to stop."""
    settings = row.pretrain_settings(steps).with_values([f"run.threads={threads}"])
    if row.kind == "trainer":
        trained = hf_trainer.train(corpus, folder, settings)
        return None if trained is None else {**trained, "curve": []}
    result = pretrain(corpus, folder, settings, device="cpu")
    if not result.finished:
        return None
    lines = read_lines(folder / METRICS)
    rows = [line for line in lines if line.get("loss") is not None]
    last = [line["token_loss"] for line in rows if line["fraction"] >= _LAST] or [rows[-1]["token_loss"]]
    return {"bundle": result.bundle, "seconds": result.seconds, "loss": sum(last) / len(last), "curve": curve(lines)}


def curve(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a point for each time the held-out loss was measured: fraction of the run, and held-out loss and accuracy.

    training_loss is the mean since the point before; None where no row of `metrics` lies between.
    """
    points: list[dict[str, Any]] = []
    since: list[float] = []
    for line in metrics:
        if line.get("token_loss") is not None:
            since.append(line["token_loss"])
        if "held_out_loss" in line:
            own = {name: line[name] for name in ("fraction", "held_out_loss", "held_out_accuracy")}
            points.append({**own, "training_loss": sum(since) / len(since) if since else None})
            since = []
    return points


def seconds_a_step(row: Row, steps: int, folder: Path) -> float:
    """Train a row for a few steps and return the mean seconds of a step, the first `WARM_UP` left out."""
    settings = row.pretrain_settings(steps)
    corpus = corpora.prepared(row.corpus, row.tokenizer)
    if row.kind == "trainer":
        ends: list[float] = []
        done = hf_trainer.train(corpus, folder, settings, each_step=lambda step: ends.append(time.perf_counter()))
        taken = ends[-1] - ends[WARM_UP - 1]
    else:
        quiet = settings.with_values(["run.log_seconds=0", "run.evaluations=0", "run.checkpoint_seconds=1e9"])
        rows: list[dict[str, Any]] = []
        done = pretrain(corpus, folder, quiet, device="cpu", report=rows.append).finished or None
        taken = rows[-1]["seconds"] - rows[WARM_UP - 1]["seconds"]
    if done is None:
        raise KeyboardInterrupt  # it was asked for, and what trains made an orderly end of it
    return taken / (steps - WARM_UP)
