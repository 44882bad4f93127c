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

from anaume.data.corpus import Corpus, open_corpus
from anaume.data.corpus.entropy import unigram_entropy
from anaume.logs import get_logger
from anaume.training.pretraining.ceiling import Beginning, Ceiling
from anaume.training.pretraining.settings import PretrainSettings

log = get_logger(__name__)

LINE_SECONDS = 10.0
_AT_THE_FLOOR = 0.98  # a loss of less than 2 % below the floor has not left it
_LAST_PART = 0.75


@dataclass(frozen=True)
class Landmarks:
    """Losses of models that know nothing: what a loss is to be read beside."""

    uniform: float
    """ln V: every token equally likely, where weights drawn as published begin."""
    floor: float
    """The unigram entropy: every token as likely as it is frequent, whatever stands around it. Informed weights begin
    there."""

    @classmethod
    def of_corpus(cls, corpus: Corpus | str | Path) -> Landmarks:
        """Return those of a corpus's training part."""
        opened = corpus if isinstance(corpus, Corpus) else open_corpus(corpus)
        counts = opened.split("train").token_counts()
        return cls(uniform=math.log(len(counts)), floor=unigram_entropy(counts))

    def line(self) -> str:
        """Say them."""
        return (
            f"a model that knows nothing has a loss of ln V = {self.uniform:.2f}; {self.floor:.2f} is the floor of one "
            "that knows how frequent tokens are and does not look at their neighbours"
        )


def describe(
    row: dict[str, Any], landmarks: Landmarks, settings: PretrainSettings, ceiling: Ceiling | None = None
) -> str:
    """Return a row of the metrics on one line; `ceiling` None leaves the share of the matrix rate out."""
    where = f"step {row['step']:,}" + ("" if settings.run.steps is None else f" of {settings.run.steps:,}")
    if "held_out_loss" in row:
        parts = [where, f"held-out loss {loss_words(row['held_out_loss'])} (floor {landmarks.floor:.2f})"]
        parts.append(f"top-1 {row['held_out_accuracy']:.1%}")
        if "held_out_pair_accuracy" in row:
            parts.append(f"pairs {row['held_out_pair_accuracy']:.1%}")
        return ", ".join(parts)
    parts = [f"{where} ({row['fraction']:.0%})", f"loss {loss_words(row['token_loss'])} (floor {landmarks.floor:.2f})"]
    if row["accuracy"] is not None:
        parts.append(f"top-1 {row['accuracy']:.1%}")
    if "pair_accuracy" in row:
        parts.append(f"pairs {row['pair_accuracy']:.1%}")
    share = "" if ceiling is None else f" ({ceiling.share(row):.0%} of the matrix rate)"
    parts.append(f"{row['tokens_per_second']:,.0f} tokens/s{share}")
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
    """Say that a finished run has lost its weights, or that its loss has not left the floor, and what that likely
    comes from; None: neither."""
    if any(row["held_out_loss"] is None for row in [row for row in rows if "held_out_loss" in row][-1:]):
        return (
            "the held-out loss is not finite, so the weights are of no use: train again in another folder, with a "
            f"lower optimizer.learning_rate ({settings.optimizer.peak:g} here), or in float32 (run.precision)"
        )
    told = [row for row in rows if row.get("token_loss") is not None]
    last = [row["token_loss"] for row in told if row["fraction"] >= _LAST_PART or row is told[-1]]
    if not last or sum(last) / len(last) < _AT_THE_FLOOR * landmarks.floor:
        return None
    run, optimizer, schedule = settings.run, settings.optimizer, settings.schedule
    steps = max(row["step"] for row in rows)
    published = settings.model.start == "published"
    plateau = "; a plateau of several hundred is usual, and longer for larger models" if published else ""
    warmup = f"schedule.warmup = {schedule.warmup:g}" + (", none" if schedule.warmup == 0 else "")
    return (
        f"the loss stayed at the floor: {sum(last) / len(last):.2f} over the last quarter, beside "
        f"{landmarks.floor:.2f} for knowing only how frequent tokens are. Likely causes, the commonest first: too few "
        f"steps ({steps:,}{plateau}); a learning rate too high or too low "
        f"(optimizer.learning_rate = {optimizer.peak:g}; {warmup}); small batches "
        f"({run.batch_rows} rows of {settings.data.seq_len}); text that repeats itself or is not text (anaume check)"
    )


Show = Callable[[str, dict[str, Any] | None], None]
"""Gets a line to show, and the row it tells; None: it tells of none."""


class Display:
    """Tells of a run: first what it is (`begins`), then each row of its metrics, with which the display is called."""

    def __init__(self, landmarks: Landmarks, show: Show) -> None:
        self._landmarks, self._show = landmarks, show
        self._settings: PretrainSettings | None = None
        self._ceiling: Ceiling | None = None

    def begins(self, beginning: Beginning) -> None:
        """Tell what losses and speed are to be read beside; the matrix rate is measured for it."""
        self._settings = beginning.settings
        self._ceiling = Ceiling.measured(beginning)
        self._show(self._landmarks.line(), None)
        if self._ceiling is not None:
            self._show(self._ceiling.line(), None)

    def __call__(self, row: dict[str, Any]) -> None:
        """Tell a row of the metrics."""
        assert self._settings is not None, "a run begins before it has metrics"
        self._show(describe(row, self._landmarks, self._settings, self._ceiling), row)


@contextmanager
def shown(landmarks: Landmarks, *, quiet: bool = False, bar: bool | None = None) -> Iterator[Display | None]:
    """Give what tells of a run: a bar on a terminal, else a log line every ten seconds; None where it is `quiet`.

    bar  None = when stderr is a terminal
    """
    if quiet:
        yield None
    elif sys.stderr.isatty() if bar is None else bar:
        with _bar() as show:
            yield Display(landmarks, show)
    else:
        yield Display(landmarks, _Lines())


class _Lines:
    """Logs lines; those of training rows only every ten seconds."""

    def __init__(self) -> None:
        self._shown_at = -math.inf

    def __call__(self, line: str, row: dict[str, Any] | None) -> None:
        now = time.monotonic()
        if row is None or "held_out_loss" in row or now - self._shown_at >= LINE_SECONDS:
            log.info("%s", line)
            self._shown_at = self._shown_at if row is None else now


@contextmanager
def _bar() -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(bar_width=12), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        task = progress.add_task("begins", total=1.0)

        def show(line: str, row: dict[str, Any] | None) -> None:
            if row is None or "held_out_loss" in row:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
            else:
                progress.update(task, completed=row["fraction"], description=line)

        yield show


def loss_words(value: float | None) -> str:
    """Say a loss of the metrics, which is None where it was not finite."""
    return "not finite" if value is None else f"{value:.3f}"
