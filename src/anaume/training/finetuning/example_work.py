"""Fine-tuning as the loop sees it: labelled examples, a head, the task's loss, scores on held-out examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from anaume.data.corpus.stream import Position
from anaume.model import Bert
from anaume.tasks.features import Features
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.batch_loss import CachedPart, cached_parts
from anaume.training.finetuning.best import BestWeights
from anaume.training.finetuning.example_parts import Part, example_part
from anaume.training.finetuning.frozen import FrozenStates, frozen_part
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.finetuning.tuned_model import as_dtype
from anaume.training.ranks import Ranks
from anaume.training.records import json_number
from anaume.training.state import CHECKPOINTS, Progress, checkpoints, step_of


@dataclass(frozen=True)
class ExampleTargets:
    """The units of a step on this rank, in parts that fit the memory."""

    parts: Sequence[Part]
    units: Sequence[int]
    """All of them, in the order of the parts."""
    divisor: Tensor
    """What the loss of these units is divided by (`Task.count`)."""
    tokens: int

    def counts(self) -> Tensor:
        """Return (2,) float32: the divisor, and the real tokens."""
        return torch.stack([self.divisor, torch.tensor(float(self.tokens), device=self.divisor.device)])


class ExampleLoss(nn.Module):
    """Model and task's loss as one module, so that data-parallel training can wrap it."""

    def __init__(self, model: Bert, task: AnyTask) -> None:
        super().__init__()
        self.model = model
        self._task = task

    def forward(self, part: Part | CachedPart, divisors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a part, and (1,) float32: the sum it came from.

        Of a cached part it is a number whose gradient is that of the batch's loss by this part's rows.
        """
        if isinstance(part, CachedPart):
            part.drawn.restore()
            stand_in = (self.logits(part.part).float() * part.gradient).sum()
            return stand_in, (part.loss * divisors[0])[None]
        loss = self._task.loss_in(self.model, self.logits(part), part.batch, divisors[0])
        return loss, (loss.detach().float() * divisors[0])[None]

    def logits(self, part: Part) -> Tensor:
        """Return what the head says of the rows of a part."""
        states = part.read(self.model, self._task.kind)
        mask = part.batch.attention_mask[:, : states.shape[-2]]
        return self.model.head_logits(self._task.kind, states, mask)


class ExampleStream:
    """Units in an order drawn anew each epoch from (seed, epoch); its position is two numbers."""

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._seed = count, seed
        self._drawn: tuple[int, NDArray[np.int64]] | None = None

    def next_batch(self, position: Position, rows: int, ranks: Ranks) -> tuple[list[int], Position]:
        """Return this rank's units of the next batch, every world-th of it, and the position after it.

        A batch that begins before the end of an epoch goes on in the next one: no example is left out, none is twice
        in an epoch, and every batch is full.
        """
        taken: list[int] = []
        while len(taken) < rows:
            order = self._order(position.epoch)
            own = order[position.row : position.row + rows - len(taken)]
            taken += own.tolist()
            row = position.row + len(own)
            position = Position(position.epoch + 1) if row == self._count else replace(position, row=row)
        return taken[ranks.rank :: ranks.world], position

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if self._drawn is None or self._drawn[0] != epoch:
            self._drawn = (epoch, np.random.default_rng([self._seed, epoch]).permutation(self._count))
        return self._drawn[1]


@dataclass
class ExampleWork:
    """Labelled examples; see `Work`."""

    settings: FinetuneSettings
    task: AnyTask
    features: Features
    loss: nn.Module
    """`ExampleLoss(model, task)`, wrapped where there are many processes."""
    dev: HeldOutExamples | None
    folder: Path
    device: torch.device
    pad_id: int
    frozen: FrozenStates | None = None
    """What the encoder made of the rows, where it stays frozen; None = it is run at each step."""
    evaluate_first: bool = False
    ranks: Ranks = field(default_factory=Ranks)
    """The processes that share a batch."""
    stream: ExampleStream = field(init=False)

    def __post_init__(self) -> None:
        self.stream = ExampleStream(len(self.features), self.settings.run.seed)
        self._best = BestWeights(self.folder)

    @property
    def evaluations(self) -> int:
        """As the settings say, where there are held-out examples."""
        return 0 if self.dev is None else self.settings.run.evaluations or 0

    def next_batch(self, progress: Progress, ranks: Ranks, fraction: float) -> list[int]:
        """Return the numbers of this rank's units."""
        assert self.settings.run.batch_rows is not None
        units, progress.position = self.stream.next_batch(progress.position, self.settings.run.batch_rows, ranks)
        return units

    def targets(self, batch: list[int], step: int, fraction: float) -> ExampleTargets:
        """Pack the rows of the units, in parts."""
        parts: list[Part] = []
        tokens, divisors = 0, []
        if self.frozen is not None:  # these rows are padded, not packed: like lengths side by side
            batch = sorted(batch, key=lambda unit: len(self.features.token_ids[unit]))
        for units in self._cut(batch):
            part, real = self._part(units, step)
            parts.append(part)
            divisors.append(self.task.count(part.batch))
            tokens += real
        return ExampleTargets(parts, batch, torch.stack(divisors).sum(), tokens)

    def parts(self, targets: ExampleTargets) -> Iterator[Part | CachedPart]:
        """Yield the parts; cached ones, where a loss compares all units of a batch that lies in several of them."""
        if self.task.compares_units and (len(targets.parts) > 1 or self.ranks.world > 1):
            module = self.loss.module if isinstance(self.loss, nn.parallel.DistributedDataParallel) else self.loss
            assert isinstance(module, ExampleLoss)
            yield from cached_parts(
                targets.parts,
                targets.units,
                read=module.logits,
                task=self.task,
                features=self.features,
                dtype=as_dtype(self.settings.run.precision),
                ranks=self.ranks,
            )
        else:
            yield from targets.parts

    def metrics(self, sums: Tensor, counts: Tensor) -> dict[str, Any]:
        """Return the loss."""
        return {"loss": float(sums[0] / counts[0]) if counts[0] else None}

    def evaluate(self, model: Bert, dtype: torch.dtype, progress: Progress) -> dict[str, Any]:
        """Score the dev examples; weights better than all before are kept, the lower loss deciding between equals."""
        assert self.dev is not None
        scored = self.dev.score(model, self.task, dtype)
        main, loss = scored.scores[self.task.main], scored.loss
        if better := main is not None and _is_better(main, loss, progress):
            self._best.save(model, progress.step)
            progress.best_score, progress.best_loss = main, json_number(loss)
            progress.best_step, progress.since_best = progress.step, 0
        else:
            progress.since_best += 1
        ordered = {self.task.main: main} | scored.scores  # the score that decides stands first
        told = {f"dev_{name}": value for name, value in ordered.items() if isinstance(value, float)}
        return {"dev_loss": json_number(scored.loss), **told, "best": better}

    def checkpointed(self, progress: Progress) -> None:
        """Best weights that none of the kept checkpoints speaks of are removed."""
        self._best.remove_unspoken(map(step_of, checkpoints(self.folder / CHECKPOINTS)))

    def _part(self, units: Sequence[int], step: int) -> tuple[Part, int]:
        if self.frozen is not None:
            return frozen_part(self.frozen, self.features, units, self.device)
        seed = self.settings.run.seed
        return example_part(self.features, units, self.task, self.pad_id, self.device, seed=seed, step=step)

    def _cut(self, units: Sequence[int]) -> Iterator[list[int]]:
        """Yield units together as long as their tokens fit the memory."""
        starts, lengths = self.features.unit_starts, self.features.token_ids.starts
        part: list[int] = []
        tokens = 0
        for unit in units:
            own = int(lengths[starts[unit + 1]] - lengths[starts[unit]])
            if part and tokens + own > self.settings.run.micro_tokens:
                yield part
                part, tokens = [], 0
            part.append(unit)
            tokens += own
        yield part


def _is_better(score: float, loss: float, progress: Progress) -> bool:
    """Whether weights are better than the best so far. On few dev rows many score alike, and the first know least."""
    if progress.best_score is None or score != progress.best_score:
        return progress.best_score is None or score > progress.best_score
    return progress.best_loss is None or loss < progress.best_loss
