"""Scores on held-out examples: over all of them at once, the same whatever the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.data import pad, token_budget_batches
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.frozen import FrozenStates

TOKENS_AT_ONCE = 2048


@dataclass(frozen=True)
class Scored:
    """What a model is worth on held-out examples."""

    scores: dict[str, Any]
    """As the task has them (`Task.score`)."""
    loss: float
    """The task's loss over all units."""
    logits: list[NDArray[np.float32]]
    """Of each row, as `Task.decode` takes them."""


@dataclass(frozen=True)
class HeldOutExamples:
    """Examples held out, and their rows."""

    examples: Sequence[Any]
    features: Features
    pad_id: int
    device: torch.device
    frozen: FrozenStates | None = None
    """What the encoder made of the rows, where it stays frozen; None = it is run."""

    def score(self, model: Bert, task: AnyTask, dtype: torch.dtype) -> Scored:
        """Score `model` in eval mode; its mode and every random generator are left as they were."""
        features, was_training = self.features, model.training
        starts, row_lengths = features.unit_starts, features.token_ids.lengths
        # What a unit costs: its rows times its longest row.
        longest = np.maximum.reduceat(row_lengths, starts[:-1]) if len(features) else np.empty(0, np.int64)
        logits: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * features.rows
        loss = count = 0.0
        model.eval()
        try:
            with torch.no_grad(), torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
                for units in token_budget_batches(longest * np.diff(starts), TOKENS_AT_ONCE):
                    batch, rows, out = self._forward(model, task, units.tolist())
                    divisor = task.count(batch)
                    loss += float(task.loss_in(model, out, batch, torch.ones_like(divisor)))
                    count += float(divisor)
                    values = out.float().cpu().numpy()
                    for place, row in enumerate(rows):
                        logits[row] = values[place, : row_lengths[row]] if values.ndim == 3 else values[place]
        finally:
            model.train(was_training)
        predictions = task.decode(logits, features, self.examples)
        return Scored(task.score(predictions, self.examples), loss / count if count else float("nan"), logits)

    def _forward(self, model: Bert, task: AnyTask, units: list[int]) -> tuple[TaskBatch, list[int], torch.Tensor]:
        features = self.features
        rows, numbers = features.rows_of(units)
        if self.frozen is None:
            states, mask = self._run(model, task.kind, rows)
        else:
            states, mask = self.frozen.padded(rows, self.device)
        targets = {
            name: torch_target(target, units, rows, mask.shape[1]).to(self.device)
            for name, target in features.targets.items()
        }
        batch = TaskBatch(attention_mask=mask, unit_of_row=torch.from_numpy(numbers).to(self.device), targets=targets)
        return batch, rows, model.head_logits(task.kind, states, mask)

    def _run(self, model: Bert, head: str, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what a head reads of rows, padded, and their mask."""
        features = self.features
        token_ids, attention_mask = pad([features.token_ids[row].tolist() for row in rows], self.pad_id)
        segment_ids, _ = pad([features.segment_ids[row].tolist() for row in rows], 0)
        mask = torch.from_numpy(attention_mask).to(self.device)
        output = model(
            torch.from_numpy(token_ids).to(self.device),
            None if attention_mask.all() else mask,
            torch.from_numpy(segment_ids).to(self.device),
            keep_hidden_states=model.reads_layers(head),
        )
        return model.read_by(head, output), mask
