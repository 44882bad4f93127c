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

from anaume.data.corpus.stream import PretrainBatch, RowStream
from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.training.clock import Clock, Stopwatch
from anaume.training.evaluation import Evaluator
from anaume.training.objective import Targets, make_targets
from anaume.training.optimizer import set_learning_rate
from anaume.training.ranks import Ranks
from anaume.training.records import Records
from anaume.training.schedule import learning_rate_factor, mask_rate
from anaume.training.settings import PretrainSettings
from anaume.training.state import Progress, save_checkpoint

log = get_logger(__name__)

CHECKPOINTS = "checkpoints"

_MOST_SKIPPED = 20  # steps in a row that are not finite: then the run is lost, whatever the setting


@dataclass
class Run:
    """Everything the loop works with."""

    settings: PretrainSettings
    folder: Path
    model: Bert
    loss: nn.Module
    """`PretrainLoss(model)`, wrapped where there are many processes."""
    optimizer: torch.optim.Optimizer
    stream: RowStream
    long_stream: RowStream | None
    evaluator: Evaluator | None
    evaluate_first: bool
    """Whether the held-out loss is measured before the first step too: what a start from a bundle is worth."""
    clock: Clock
    stopwatch: Stopwatch
    progress: Progress
    records: Records
    device: torch.device
    dtype: torch.dtype
    ranks: Ranks
    mask_id: int
    vocab_size: int
    """Of the tokenizer: the random tokens of a mask are drawn from it."""
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
    if run.evaluate_first and progress.metrics_size == 0:
        _evaluate(run, 0.0)
    meter = Meter()
    fraction, norm, saved_at = 0.0, math.nan, time.monotonic()

    while (asked := _agreed_fraction(run)) is not None:
        fraction = asked
        records.journal(progress.step, fraction)
        batch = next_batch(run, fraction)
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
            progress.evaluated = math.floor(fraction * settings.run.evaluations + 1e-9)
        if ranks.first and time.monotonic() - saved_at > settings.run.checkpoint_seconds:
            with meter.paused():
                _checkpoint(run)
            saved_at = time.monotonic()

    if meter.steps:
        records.metrics(meter.row(run, fraction, norm))
    if progress.finished and run.evaluator is not None:
        _evaluate(run, 1.0)
    if ranks.first:
        _checkpoint(run)


@dataclass(frozen=True)
class StepDone:
    """What a step tells of itself, over all ranks."""

    sums: torch.Tensor
    """(4,): as `PretrainLoss` returns them."""
    counts: torch.Tensor
    """(3,): as `Targets.counts` returns them."""
    norm: float
    """Length of the gradient, before it was clipped."""
    applied: bool
    """False: something was not finite, and the weights are as they were."""

    @property
    def tokens(self) -> int:
        """Real tokens of the batch."""
        return int(self.counts[2])


def train_step(run: Run, batch: PretrainBatch, fraction: float) -> StepDone:
    """Do one optimizer step on this rank's rows of a batch; one that is not finite is not applied.

    Raises DataError for one that is not finite under run.on_non_finite = "stop", or too many of them in a row.
    """
    settings, device = run.settings, run.device
    targets = make_targets(
        batch,
        settings.objective,
        mask_id=run.mask_id,
        vocab_size=run.vocab_size,
        seed=settings.run.seed,
        step=run.progress.step,
        rate=mask_rate(fraction, settings.objective),
        device=device,
    )
    counts = run.ranks.sum(targets.counts())
    # Gradients are averaged over ranks; dividing by count / world makes that the gradient of the whole batch.
    divisors = counts / run.ranks.world
    set_learning_rate(
        run.optimizer, settings.optimizer.learning_rate * learning_rate_factor(fraction, settings.schedule)
    )
    run.optimizer.zero_grad(set_to_none=True)
    torch.manual_seed(_dropout_seed(settings.run.seed, run.progress.step, run.ranks.rank))
    sums = torch.zeros(4, device=device)
    micro = _micro_rows(settings, targets)
    for start in range(0, len(targets), micro):
        last = start + micro >= len(targets)
        sums += _micro_step(run, targets.rows(start, start + micro), divisors, last)
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
        assert isinstance(run.loss, nn.parallel.DistributedDataParallel)
        run.loss.require_backward_grad_sync = last
    with torch.autocast(run.device.type, run.dtype, enabled=run.dtype != torch.float32):
        loss, sums = run.loss(targets, divisors)
    loss.backward()
    reported: torch.Tensor = sums.detach()
    return reported


def _micro_rows(settings: PretrainSettings, targets: Targets) -> int:
    """Return how many rows are computed at once: fewer of longer rows, so that memory stays the same."""
    if settings.run.micro_rows is None:
        return max(1, len(targets))
    return max(1, settings.run.micro_rows * settings.data.seq_len // targets.token_ids.shape[1])


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


def next_batch(run: Run, fraction: float) -> PretrainBatch:
    """Return this rank's rows of the next batch; longer and fewer ones in the last part of a two-length run."""
    settings, progress, ranks = run.settings, run.progress, run.ranks
    stream, rows = run.stream, settings.run.batch_rows
    assert rows is not None
    if run.long_stream is not None and (progress.long or fraction >= 1.0 - settings.data.long_share):
        progress.long = True
        stream = run.long_stream
        rows = max(ranks.world, rows * settings.data.seq_len // stream.seq_len)  # as many tokens as before
    batch = stream.next_batch(rows, rank=ranks.rank, world=ranks.world)
    progress.position = stream.position
    return batch


def _agreed_fraction(run: Run) -> float | None:
    """Return the share of the run that has passed, or None when it is over (then it is finished) or is to stop."""
    fraction = None if run.progress.finished else run.clock.fraction(run.progress.step)
    told, stop = run.ranks.agree(-1.0 if fraction is None else fraction, run.stop_asked(), run.device)
    run.progress.finished = told < 0
    return None if run.progress.finished or stop else told


def _evaluation_is_due(run: Run, fraction: float) -> bool:
    """Whether the next evaluation's share of the run has passed; the one at the end is made apart."""
    following, count = run.progress.evaluated + 1, run.settings.run.evaluations
    return run.evaluator is not None and following < count and fraction >= following / count


def _evaluate(run: Run, fraction: float) -> None:
    if run.evaluator is None or not run.ranks.first:
        return
    score = run.evaluator.score(run.model, run.dtype)
    run.records.metrics(
        {
            "step": run.progress.step,
            "fraction": round(fraction, 6),
            "held_out_loss": _number(score.loss),
            "held_out_accuracy": score.accuracy,
            **({} if score.pair_accuracy is None else {"held_out_pair_accuracy": score.pair_accuracy}),
        }
    )


def _checkpoint(run: Run) -> None:
    progress = run.progress
    progress.metrics_size, progress.journal_size = run.records.sync()
    progress.seconds = run.stopwatch.seconds
    save_checkpoint(run.folder / CHECKPOINTS, progress, run.model, run.optimizer, run.settings.run.keep_checkpoints)


def _number(value: float) -> float | None:
    """Return a value as JSON can hold it."""
    return value if math.isfinite(value) else None


class Meter:
    """Adds up what a row of metrics says; evaluation and saving are not counted as training time."""

    def __init__(self) -> None:
        self._restart()

    def add(self, done: StepDone) -> None:
        """Count a step; the loss of one that was not applied is no number to average."""
        self.steps += 1
        self._tokens += done.tokens
        if done.applied:
            self._sums += done.sums.cpu().double()
            self._counts += done.counts.cpu().double()

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
        token_loss, right, pair_loss, right_pairs = self._sums.tolist()
        tokens, pairs, _ = self._counts.tolist()
        row = {
            "step": progress.step,
            "fraction": round(fraction, 6),
            "seconds": round(run.stopwatch.seconds, 3),
            "loss": token_loss / tokens + pair_loss / max(pairs, 1) if tokens else None,
            "token_loss": token_loss / tokens if tokens else None,
            "accuracy": right / tokens if tokens else None,
            **({"pair_loss": pair_loss / pairs, "pair_accuracy": right_pairs / pairs} if pairs else {}),
            "learning_rate": settings.optimizer.learning_rate * learning_rate_factor(fraction, settings.schedule),
            "gradient": _number(norm),
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
        self._sums = torch.zeros(4, dtype=torch.float64)
        self._counts = torch.zeros(3, dtype=torch.float64)
