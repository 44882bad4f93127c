"""What a run shows while it goes: each row of its metrics beside what it should be held against."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.data import open_corpus
from anaume.data.corpus.entropy import unigram_entropy
from anaume.logs import get_logger
from anaume.training.settings import PretrainSettings

log = get_logger(__name__)

LINE_SECONDS = 10.0
_AT_THE_FLOOR = 0.98  # a loss of less than 2 % below the floor has not left it
_LAST_PART = 0.75

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Landmarks:
    """Losses of models that know nothing: what a loss is to be read beside."""

    uniform: float
    """ln V: every token equally likely, where an untrained model begins."""
    floor: float
    """The unigram entropy: every token as likely as it is frequent, whatever stands around it."""

    @classmethod
    def of_corpus(cls, corpus: str | Path) -> Landmarks:
        """Return those of a corpus's training part."""
        counts = open_corpus(corpus).split("train").token_counts()
        return cls(uniform=math.log(len(counts)), floor=unigram_entropy(counts))

    def line(self) -> str:
        """Say them."""
        return (
            f"an untrained model's loss is ln V = {self.uniform:.2f}; {self.floor:.2f} is the floor of one that knows "
            "how frequent tokens are and does not look at their neighbours"
        )


def describe(row: dict[str, Any], landmarks: Landmarks, settings: PretrainSettings) -> str:
    """Return a row of the metrics on one line."""
    where = f"step {row['step']:,}" + ("" if settings.run.steps is None else f" of {settings.run.steps:,}")
    if "held_out_loss" in row:
        parts = [where, f"held-out loss {_loss(row['held_out_loss'])} (floor {landmarks.floor:.2f})"]
        parts.append(f"top-1 {row['held_out_accuracy']:.1%}")
        if "held_out_pair_accuracy" in row:
            parts.append(f"pairs {row['held_out_pair_accuracy']:.1%}")
        return ", ".join(parts)
    parts = [f"{where} ({row['fraction']:.0%})", f"loss {_loss(row['token_loss'])} (floor {landmarks.floor:.2f})"]
    if row["accuracy"] is not None:
        parts.append(f"top-1 {row['accuracy']:.1%}")
    if "pair_accuracy" in row:
        parts.append(f"pairs {row['pair_accuracy']:.1%}")
    parts.append(f"{row['tokens_per_second']:,.0f} tokens/s")
    if row["skipped"]:
        parts.append(f"{row['skipped']:,} steps skipped")
    left = seconds_left(row, settings)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def seconds_left(row: dict[str, Any], settings: PretrainSettings) -> float | None:
    """Return how long the run will go on, by a row of its metrics; None while nothing can be said."""
    if settings.run.minutes is not None:
        return max(0.0, 60.0 * settings.run.minutes - float(row["seconds"]))
    if settings.run.steps is None or row["step"] < 2:
        return None
    return float(row["seconds"]) / int(row["step"]) * (settings.run.steps - int(row["step"]))


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(7.4), duration(75), duration(7300)
    ('7 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def stuck(rows: Sequence[dict[str, Any]], landmarks: Landmarks, settings: PretrainSettings) -> str | None:
    """Say that the loss of a finished run has not left the floor, and what that likely comes from; None: it has."""
    told = [row for row in rows if row.get("token_loss") is not None]
    last = [row["token_loss"] for row in told if row["fraction"] >= _LAST_PART or row is told[-1]]
    if not last or sum(last) / len(last) < _AT_THE_FLOOR * landmarks.floor:
        return None
    run, optimizer, schedule = settings.run, settings.optimizer, settings.schedule
    steps = max(row["step"] for row in rows)
    warmup = f"schedule.warmup = {schedule.warmup:g}" + (", none" if schedule.warmup == 0 else "")
    return (
        f"the loss stayed at the floor: {sum(last) / len(last):.2f} over the last quarter, beside "
        f"{landmarks.floor:.2f} for knowing only how frequent tokens are. Likely causes, the commonest first: too few "
        f"steps ({steps:,}; a plateau of several hundred is usual, and longer for larger models); a learning rate too "
        f"high or too low (optimizer.learning_rate = {optimizer.learning_rate:g}; {warmup}); small batches "
        f"({run.batch_rows} rows of {settings.data.seq_len}); text that repeats itself or is not text (anaume check)"
    )


@contextmanager
def shown(
    settings: PretrainSettings, landmarks: Landmarks, *, quiet: bool = False, bar: bool | None = None
) -> Iterator[Report]:
    """Give what shows each row: a bar on a terminal, else a log line every ten seconds; `quiet` shows nothing.

    bar  None = when stderr is a terminal
    """
    if quiet:
        yield lambda row: None
    elif sys.stderr.isatty() if bar is None else bar:
        with _bar(settings, landmarks) as report:
            yield report
    else:
        yield _Lines(settings, landmarks)


class _Lines:
    """Logs rows, the landmarks before the first."""

    def __init__(self, settings: PretrainSettings, landmarks: Landmarks) -> None:
        self._settings, self._landmarks = settings, landmarks
        self._shown_at: float | None = None

    def __call__(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        if self._shown_at is None:
            log.info("%s", self._landmarks.line())
        if self._shown_at is None or now - self._shown_at >= LINE_SECONDS or "held_out_loss" in row:
            log.info("%s", describe(row, self._landmarks, self._settings))
            self._shown_at = now


@contextmanager
def _bar(settings: PretrainSettings, landmarks: Landmarks) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=12), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("begins", total=1.0)
        console.print(landmarks.line(), markup=False, highlight=False, soft_wrap=True)

        def report(row: dict[str, Any]) -> None:
            line = describe(row, landmarks, settings)
            if "held_out_loss" in row:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                progress.update(task, completed=row["fraction"], description=line)

        yield report


def _loss(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"
