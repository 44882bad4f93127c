"""The loop: it reads top to bottom, and the order of its lines is the order of events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anaume.data.stream import PretrainBatch, RowStream
from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.training.clock import Clock
from anaume.training.evaluation import Evaluator, HeldOut
from anaume.training.objective import Targets, make_targets
from anaume.training.optimizer import set_learning_rate
from anaume.training.ranks import Ranks
from anaume.training.records import LineFile
from anaume.training.schedule import learning_rate_factor, mask_rate
from anaume.training.settings import PretrainSettings
from anaume.training.state import Progress, save_checkpoint

log = get_logger(__name__)

_LOG_SECONDS = 2.0
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
    clock: Clock
    progress: Progress
    device: torch.device
    dtype: torch.dtype
    ranks: Ranks
    mask_id: int
    stop_asked: Callable[[], bool]
    """Whether somebody asked the run to stop (Ctrl-C, SIGTERM): it saves and ends."""
    report: Callable[[dict[str, Any]], None]
    """Gets every row of metrics.jsonl, for a progress display."""


def train(run: Run) -> bool:
    """Train until the clock says so; returns False when the run was asked to stop before.

    Raises DataError when nothing is finite any more or the disk is full; the last checkpoint is intact.
    """
    settings, progress, ranks = run.settings, run.progress, run.ranks
    metrics = LineFile(run.folder / "metrics.jsonl", progress.step) if ranks.first else None
    journal = LineFile(run.folder / "journal.jsonl", progress.step - 1) if ranks.first else None
    meter = _Meter(progress)
    next_evaluation = _next_evaluation(progress, settings, run.clock)
    since_checkpoint = time.monotonic()
    run.model.train()

    while (fraction := _agreed_fraction(run)) is not None and not run.stop_asked():
        if journal is not None and settings.run.minutes is not None:
            journal.write({"step": progress.step, "fraction": fraction})
        batch = _next_batch(run, fraction)
        sums, counts, norm = train_step(run, batch, fraction)
        progress.step += 1
        progress.tokens += batch.tokens * ranks.world
        meter.add(batch.tokens * ranks.world, sums, counts)

        if metrics is not None and meter.due():
            row = meter.row(progress, fraction, settings, norm)
            metrics.write(row)
            run.report(row)
        if run.evaluator is not None and fraction >= next_evaluation:
            with meter.paused():
                _evaluate(run, metrics, fraction)
            next_evaluation = _next_evaluation(progress, settings, run.clock, fraction)
        if ranks.first and time.monotonic() - since_checkpoint > settings.run.checkpoint_seconds:
            with meter.paused():
                _checkpoint(run, meter)
            since_checkpoint = time.monotonic()

    finished = _agreed_fraction(run) is None
    if metrics is not None and meter.steps:
        row = meter.row(progress, 1.0 if finished else 0.0, settings, None)
        metrics.write(row)
        run.report(row)
    if finished and run.evaluator is not None:
        _evaluate(run, metrics, 1.0)
    if ranks.first:
        _checkpoint(run, meter)
    for file in (metrics, journal):
        if file is not None:
            file.close()
    return finished


def train_step(run: Run, batch: PretrainBatch, fraction: float) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Do one optimizer step on this rank's rows of a batch.

    Returns the sums of `PretrainLoss` and the counts of `Targets.counts`, both over all ranks, and the length of the
    gradient. A step that is not finite is not applied.
    """
    settings, device = run.settings, run.device
    targets = make_targets(
        batch,
        settings.objective,
        mask_id=run.mask_id,
        vocab_size=run.model.config.vocab_size,
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
    total = torch.zeros((), dtype=torch.float64, device=device)
    sums = torch.zeros(4, dtype=torch.float64, device=device)
    micro = settings.run.micro_rows or len(targets)
    for start in range(0, len(targets), micro):
        loss, micro_sums = _micro_step(run, targets.rows(start, start + micro), divisors, start + micro < len(targets))
        total += loss
        sums += micro_sums
    norm = float(nn.utils.clip_grad_norm_(run.model.parameters(), settings.optimizer.clip or math.inf))
    # The sums were taken with divisors of one rank's share: undo that, then add everybody's.
    sums[0::2] *= run.ranks.world
    sums = run.ranks.sum(sums)
    if math.isfinite(norm) and math.isfinite(float(total)):
        run.optimizer.step()
        run.progress.skipped_in_a_row = 0
    else:
        _not_finite(run, batch)
    return sums, counts, norm


def _micro_step(run: Run, targets: Targets, divisors: torch.Tensor, more: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Forward and backward of some rows; gradients add up, and ranks exchange them with the last ones only."""
    if run.ranks.world > 1:
        assert isinstance(run.loss, nn.parallel.DistributedDataParallel)
        run.loss.require_backward_grad_sync = not more
    with torch.autocast(run.device.type, run.dtype, enabled=run.dtype != torch.float32):
        loss, sums = run.loss(targets, divisors)
    loss.backward()
    return loss.detach(), sums


def _not_finite(run: Run, batch: PretrainBatch) -> None:
    progress, position = run.progress, run.progress.position
    progress.skipped += 1
    progress.skipped_in_a_row += 1
    where = f"step {progress.step} (before epoch {position.epoch}, block {position.block}, row {position.row})"
    if run.settings.run.on_non_finite == "stop" or progress.skipped_in_a_row >= _MOST_SKIPPED:
        raise DataError(
            f"the loss or its gradient is not finite at {where}, {progress.skipped_in_a_row} times in a row: lower "
            "optimizer.learning_rate, or train in float32 (run.precision)"
        )
    log.warning("not finite at %s: the step was not applied", where)


def _next_batch(run: Run, fraction: float) -> PretrainBatch:
    """Return this rank's rows of the next batch; longer and fewer ones in the last part of a two-length run."""
    settings, progress, ranks = run.settings, run.progress, run.ranks
    if run.long_stream is not None and not progress.long and fraction >= 1.0 - settings.data.long_share:
        progress.long = True
    stream = run.long_stream if progress.long and run.long_stream is not None else run.stream
    rows = settings.run.batch_rows
    if progress.long and run.long_stream is not None:
        rows = max(ranks.world, rows * settings.data.seq_len // run.long_stream.seq_len)  # as many tokens as before
    batch = stream.next_batch(rows, rank=ranks.rank, world=ranks.world)
    progress.position = stream.position
    return batch


def _agreed_fraction(run: Run) -> float | None:
    fraction = run.clock.fraction(run.progress.step)
    if run.settings.run.minutes is None or run.ranks.world == 1:
        return fraction
    agreed = run.ranks.agree(-1.0 if fraction is None else fraction, run.device)
    return None if agreed < 0 else agreed


def _next_evaluation(progress: Progress, settings: PretrainSettings, clock: Clock, fraction: float = 0.0) -> float:
    """Return the share of the run at which the held-out loss is measured next; the end is measured apart."""
    count = settings.run.evaluations
    if count < 2:
        return math.inf
    passed = clock.fraction(progress.step)
    passed = max(fraction, 0.0 if passed is None else passed)
    following = (math.floor(passed * count + 1e-9) + 1) / count
    return following if following < 1.0 else math.inf


def _evaluate(run: Run, metrics: LineFile | None, fraction: float) -> HeldOut | None:
    assert run.evaluator is not None
    if not run.ranks.first:
        return None
    score = run.evaluator.score(run.model, run.dtype)
    row = {
        "step": run.progress.step,
        "fraction": round(fraction, 6),
        "held_out_loss": score.loss,
        "held_out_accuracy": score.accuracy,
        **({} if score.pair_accuracy is None else {"held_out_pair_accuracy": score.pair_accuracy}),
    }
    if metrics is not None:
        metrics.write(row)
    run.report(row)
    return score


def _checkpoint(run: Run, meter: _Meter) -> None:
    run.progress.seconds = meter.seconds
    folder, keep = run.folder / "checkpoints", run.settings.run.keep_checkpoints
    save_checkpoint(folder, run.progress, run.model, run.optimizer, run.device, keep)


class _Meter:
    """Adds up what a row of metrics says; evaluation and saving are not counted as training time."""

    def __init__(self, progress: Progress) -> None:
        self._before = progress.seconds
        self._begun = time.monotonic()
        self._restart()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._begun

    def add(self, tokens: int, sums: torch.Tensor, counts: torch.Tensor) -> None:
        self.steps += 1
        self._tokens += tokens
        self._sums += sums.cpu()
        self._counts += counts.cpu()

    def due(self) -> bool:
        return time.monotonic() - self._since - self._idle >= _LOG_SECONDS

    def paused(self) -> _Pause:
        return _Pause(self)

    def row(
        self, progress: Progress, fraction: float, settings: PretrainSettings, norm: float | None
    ) -> dict[str, Any]:
        token_loss, right, pair_loss, right_pairs = self._sums.tolist()
        tokens, pairs = self._counts.tolist()
        elapsed = max(time.monotonic() - self._since - self._idle, 1e-9)
        row = {
            "step": progress.step,
            "fraction": round(fraction, 6),
            "seconds": round(self.seconds, 3),
            "loss": token_loss / max(tokens, 1) + pair_loss / max(pairs, 1),
            "token_loss": token_loss / max(tokens, 1),
            "accuracy": right / max(tokens, 1),
            **({"pair_loss": pair_loss / pairs, "pair_accuracy": right_pairs / pairs} if pairs else {}),
            "learning_rate": settings.optimizer.learning_rate * learning_rate_factor(fraction, settings.schedule),
            **({} if norm is None else {"gradient": norm}),
            "tokens": progress.tokens,
            "tokens_per_second": round(self._tokens / elapsed, 1),
            "epoch": progress.position.epoch,
            "skipped": progress.skipped,
        }
        self._restart()
        return row

    def _restart(self) -> None:
        self.steps = 0
        self._since = time.monotonic()
        self._idle = 0.0
        self._tokens = 0
        self._sums = torch.zeros(4, dtype=torch.float64)
        self._counts = torch.zeros(2, dtype=torch.float64)


class _Pause:
    def __init__(self, meter: _Meter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._meter._idle += time.monotonic() - self._begun
