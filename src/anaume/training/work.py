"""What the loop trains, as it sees it: where batches come from, what a loss reports, how held-out data is scored.

Two kinds of work share one loop: rows of a corpus (`corpus_work.py`) and labelled examples (`example_work.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from anaume.model import Bert
from anaume.training.ranks import Ranks
from anaume.training.state import Progress

B = TypeVar("B")


class Targets(Protocol):
    """A batch on its device, with what is to be predicted."""

    def counts(self) -> Tensor:
        """Return (k,) float32: what the loss is divided by, one number a part of it; real tokens come last."""
        ...


T = TypeVar("T", bound=Targets)


class Work(Protocol[B, T]):
    """What is trained: `B` is a batch as it is read, `T` the same on its device."""

    loss: nn.Module
    """(targets, divisors) -> (loss, sums): a scalar, and (j,) float32 sums to report; wrapped where there are many
    processes."""
    evaluate_first: bool
    """Whether held-out data is scored before the first step too: what a start from a bundle is worth."""

    @property
    def evaluations(self) -> int:
        """How many times held-out data is scored, evenly over the run, the end included; 0 = never."""
        ...

    def next_batch(self, progress: Progress, ranks: Ranks, fraction: float) -> B:
        """Return this rank's rows of the next batch, and move `progress.position` on."""
        ...

    def targets(self, batch: B, step: int, fraction: float) -> T:
        """Move a batch to the device and settle there what is to be predicted."""
        ...

    def parts(self, targets: T) -> Iterator[T]:
        """Yield the micro-batches that are computed one after the other; at least one."""
        ...

    def metrics(self, sums: Tensor, counts: Tensor) -> dict[str, Any]:
        """Return what a row of metrics.jsonl says of these sums and counts, "loss" first; values may be None."""
        ...

    def checkpointed(self, progress: Progress) -> None:
        """Learn that a checkpoint on disk holds this progress now."""
        ...

    def evaluate(self, model: Bert, dtype: torch.dtype, progress: Progress) -> dict[str, Any]:
        """Score held-out data; the model's mode and every random generator are left as they were."""
        ...
