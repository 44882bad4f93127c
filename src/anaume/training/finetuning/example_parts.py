"""Some labelled examples on their device, packed into longer rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anaume.data.packing import pack
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.frozen import FrozenPart


@dataclass(frozen=True)
class ExamplePart:
    """Some units on their device, packed: their rows lie side by side in longer ones that are computed."""

    token_ids: Tensor
    """(packed rows, width), as are the next three."""
    segment_ids: Tensor
    position_ids: Tensor
    sequence_ids: Tensor
    places: Tensor
    """(rows, seq_len) int64 into the flattened packed rows; one place a row where the head reads only [CLS]."""
    batch: TaskBatch

    def read(self, model: Bert, head: str) -> Tensor:
        """Return what a head reads of the rows, (rows, seq_len, hidden_size); see `Bert.read_by`."""
        output = model(
            self.token_ids,
            None,
            self.segment_ids,
            self.position_ids,
            sequence_ids=self.sequence_ids,
            keep_hidden_states=model.reads_layers(head),
        )
        states = model.read_by(head, output).flatten(-3, -2)
        own = states.index_select(-2, self.places.flatten())
        return own.view(*own.shape[:-2], *self.places.shape, own.shape[-1])


Part = ExamplePart | FrozenPart


def example_part(
    features: Features,
    units: Sequence[int],
    task: AnyTask,
    pad_id: int,
    device: torch.device,
    *,
    seed: int = 0,
    step: int = 0,
) -> tuple[ExamplePart, int]:
    """Return units packed on a device, and their real tokens; `seed` and `step` settle what a task leaves of them."""
    rows, unit_of_row = features.rows_of(units)
    token_ids, segment_ids = ([part[row] for row in rows] for part in (features.token_ids, features.segment_ids))
    kept = task.kept_places(token_ids, rows, seed=seed, step=step)
    if kept is not None:
        token_ids = [own[places] for own, places in zip(token_ids, kept, strict=True)]
        segment_ids = [own[places] for own, places in zip(segment_ids, kept, strict=True)]
    packed = pack(token_ids, segment_ids, pad_id)
    # A head that reads the pooler reads [CLS] alone.
    places = packed.places[:, :1] if task.head.needs_pooler else packed.places

    def there(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device, non_blocking=True)

    seq_len = packed.attention_mask.shape[1]
    batch = TaskBatch(
        attention_mask=there(packed.attention_mask),
        unit_of_row=there(unit_of_row),
        targets={
            name: torch_target(target, units, rows, seq_len).to(device) for name, target in features.targets.items()
        },
    )
    part = ExamplePart(
        there(packed.token_ids),
        there(packed.segment_ids),
        there(packed.position_ids),
        there(packed.sequence_ids),
        there(places),
        batch,
    )
    return part, packed.tokens
