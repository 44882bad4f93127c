"""The loop: it reads top to bottom, and the order of its lines is the order of events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.training.clock import Clock, Stopwatch
from anaume.training.optimizer import set_learning_rate
from anaume.training.ranks import Ranks
from anaume.training.records import Records, json_number
from anaume.training.schedule import learning_rate_factor
from anaume.training.sections import LoopSettings
from anaume.training.state import CHECKPOINTS, Progress, save_checkpoint
from anaume.training.work import Targets, Work

log = get_logger(__name__)

_MOST_SKIPPED = 20  # steps in a row that are not finite: then the run is lost, whatever the setting


@dataclass
class Run:
    """Everything the loop works with."""

    settings: LoopSettings
    folder: Path
    model: Bert
    work: Work[Any, Any]
    """What is trained."""
    optimizer: torch.optim.Optimizer
    clock: Clock
    stopwatch: Stopwatch
    progress: Progress
    records: Records
    device: torch.device
    dtype: torch.dtype
    ranks: Ranks
    stop_asked: Callable[[], bool]
    """Whether somebody asked the run to stop (Ctrl-C, SIGTERM): it saves and ends."""


def train(run: Run) -> None:
    """Train until the clock says so (`run.progress.finished`), or somebody asks to stop.

    Raises DataError when nothing is finite any more or the disk is full; the last checkpoint is intact.
    """
    settings, progress, ranks, records = run.settings, run.progress, run.ranks, run.records
    if progress.finished:
        return
    run.model.train()
    if run.work.evaluate_first and progress.metrics_size == 0:
        _evaluate(run, 0.0)
    meter = Meter()
    fraction, norm, saved_at = 0.0, math.nan, time.monotonic()

    while (asked := _agreed_fraction(run)) is not None:
        fraction = asked
        records.journal(progress.step, fraction)
        batch = run.work.next_batch(progress, ranks, fraction)
        done = train_step(run, batch, fraction)
        progress.step += 1
        progress.tokens += done.tokens
        norm = done.norm
        meter.add(done)

        if meter.due(settings.run.log_seconds) or progress.step == 1:
            records.metrics(meter.row(run, fraction, norm))
        if _evaluation_is_due(run, fraction):
            with meter.paused():
                _evaluate(run, fraction)
            progress.evaluated = math.floor(fraction * run.work.evaluations + 1e-9)
        if ranks.first and time.monotonic() - saved_at > settings.run.checkpoint_seconds:
            with meter.paused():
                _checkpoint(run)
            saved_at = time.monotonic()

    if progress.finished and progress.step == 0 and ranks.first:
        log.warning("the time was over before the first step: the weights are those it began with")
    if meter.steps:
        records.metrics(meter.row(run, fraction, norm))
    if progress.finished and progress.evaluated_at != progress.step:  # patience ends a run right after one
        _evaluate(run, 1.0)
    if ranks.first:
        _checkpoint(run)


@dataclass(frozen=True)
class StepDone:
    """What a step tells of itself, over all ranks."""

    sums: torch.Tensor
    """(j,): as `Work.loss` returns them."""
    counts: torch.Tensor
    """(k,): as `Targets.counts` returns them."""
    norm: float
    """Length of the gradient, before it was clipped."""
    applied: bool
    """False: something was not finite, and the weights are as they were."""

    @property
    def tokens(self) -> int:
        """Real tokens of the batch."""
        return int(self.counts[-1])


def train_step(run: Run, batch: Any, fraction: float) -> StepDone:
    """Do one optimizer step on this rank's rows of a batch; one that is not finite is not applied.

    Raises DataError for one that is not finite under run.on_non_finite = "stop", or too many of them in a row.
    """
    settings = run.settings
    targets = run.work.targets(batch, run.progress.step, fraction)
    counts = run.ranks.sum(targets.counts())
    # Gradients are averaged over ranks; dividing by count / world makes that the gradient of the whole batch.
    divisors = counts / run.ranks.world
    set_learning_rate(run.optimizer, settings.optimizer.peak * learning_rate_factor(fraction, settings.schedule))
    run.optimizer.zero_grad(set_to_none=True)
    torch.manual_seed(_dropout_seed(settings.run.seed, run.progress.step, run.ranks.rank))
    parts = list(run.work.parts(targets))
    sums = torch.stack([_micro_step(run, part, divisors, part is parts[-1]) for part in parts]).sum(dim=0)
    norm = float(nn.utils.clip_grad_norm_(run.model.parameters(), settings.optimizer.clip or math.inf))
    sums = run.ranks.sum(sums)
    # Both are sums over all ranks, so that all decide alike.
    applied = math.isfinite(norm) and bool(sums.isfinite().all())
    if applied:
        run.optimizer.step()
        run.progress.skipped_in_a_row = 0
    else:
        _not_finite(run)
    return StepDone(sums, counts, norm, applied)


def _micro_step(run: Run, targets: Targets, divisors: torch.Tensor, last: bool) -> torch.Tensor:
    """Forward and backward of some rows; gradients add up, and ranks exchange them with the last ones only."""
    if run.ranks.world > 1:
        assert isinstance(run.work.loss, nn.parallel.DistributedDataParallel)
        run.work.loss.require_backward_grad_sync = last
    with torch.autocast(run.device.type, run.dtype, enabled=run.dtype != torch.float32):
        loss, sums = run.work.loss(targets, divisors)
    loss.backward()
    reported: torch.Tensor = sums.detach()
    return reported


def _dropout_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of a step's dropout: whatever else drew from the generator before, a step is the same again."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])


def _not_finite(run: Run) -> None:
    progress, position = run.progress, run.progress.position
    progress.skipped += 1
    progress.skipped_in_a_row += 1
    where = f"step {progress.step} (the rows before epoch {position.epoch}, block {position.block}, row {position.row})"
    advice = "lower optimizer.learning_rate, or train in float32 (run.precision), in a folder of its own"
    if run.settings.run.on_non_finite == "stop":
        raise DataError(f"the loss or its gradient is not finite at {where}: {advice}")
    if progress.skipped_in_a_row >= _MOST_SKIPPED:
        raise DataError(
            f"the loss or its gradient is not finite at {where}, {progress.skipped_in_a_row} times in a row: {advice}"
        )
    if run.ranks.first:
        log.warning("the loss or its gradient is not finite at %s: the step was not applied", where)


def _agreed_fraction(run: Run) -> float | None:
    """Return the share of the run that has passed, or None when it is over (then it is finished) or is to stop."""
    fraction = None if run.progress.finished else run.clock.fraction(run.progress.step)
    told, stop = run.ranks.agree(-1.0 if fraction is None else fraction, run.stop_asked(), run.device)
    run.progress.finished = told < 0
    return None if run.progress.finished or stop else told


def _evaluation_is_due(run: Run, fraction: float) -> bool:
    """Whether the next evaluation's share of the run has passed; the one at the end is made apart."""
    following, count = run.progress.evaluated + 1, run.work.evaluations
    return following < count and fraction >= following / count


def _evaluate(run: Run, fraction: float) -> None:
    run.progress.evaluated_at = run.progress.step
    if run.work.evaluations and run.ranks.first:
        scores = run.work.evaluate(run.model, run.dtype, run.progress)
        run.records.metrics({"step": run.progress.step, "fraction": round(fraction, 6), **scores})


def _checkpoint(run: Run) -> None:
    progress = run.progress
    progress.metrics_size, progress.journal_size = run.records.sync()
    progress.seconds = run.stopwatch.seconds
    save_checkpoint(run.folder / CHECKPOINTS, progress, run.model, run.optimizer, run.settings.run.keep_checkpoints)
    run.work.checkpointed(progress)


class Meter:
    """Adds up what a row of metrics says; evaluation and saving are not counted as training time."""

    _sums: torch.Tensor
    _counts: torch.Tensor

    def __init__(self) -> None:
        self._restart()

    def add(self, done: StepDone) -> None:
        """Count a step; the loss of one that was not applied is no number to average."""
        self.steps += 1
        self._tokens += done.tokens
        share = 1.0 if done.applied else 0.0
        sums = share * torch.nan_to_num(done.sums.cpu().double())
        counts = share * done.counts.cpu().double()
        self._sums, self._counts = self._sums + sums, self._counts + counts

    def due(self, seconds: float) -> bool:
        """Whether that much time of training has passed since the row before."""
        return self._elapsed() >= seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the block's time out."""
        begun = time.monotonic()
        yield
        self._idle += time.monotonic() - begun

    def row(self, run: Run, fraction: float, norm: float) -> dict[str, Any]:
        """Return the row of the steps since the row before, and begin the next."""
        settings, progress = run.settings, run.progress
        row = {
            "step": progress.step,
            "fraction": round(fraction, 6),
            "seconds": round(run.stopwatch.seconds, 3),
            **run.work.metrics(self._sums, self._counts),
            "learning_rate": settings.optimizer.peak * learning_rate_factor(fraction, settings.schedule),
            "gradient": json_number(norm),
            "tokens": progress.tokens,
            "tokens_per_second": round(self._tokens / max(self._elapsed(), 1e-9), 1),
            "epoch": progress.position.epoch,
            "skipped": progress.skipped,
        }
        self._restart()
        return row

    def _elapsed(self) -> float:
        return time.monotonic() - self._since - self._idle

    def _restart(self) -> None:
        self.steps = 0
        self._since = time.monotonic()
        self._idle = 0.0
        self._tokens = 0
        self._sums = torch.zeros(1, dtype=torch.float64)
        self._counts = torch.zeros(1, dtype=torch.float64)
