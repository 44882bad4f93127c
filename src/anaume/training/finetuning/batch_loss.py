"""Losses of a batch as a whole, whose rows lie in several parts, and in several processes.

A query's negatives are all other texts of the batch, wherever they are computed: the batch, not the machine, says what
is learned. Memory is that of one part, and of the whole batch's vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.dropout_state import DropoutState
from anaume.training.finetuning.example_parts import Part
from anaume.training.ranks import Ranks


@dataclass(frozen=True)
class CachedPart:
    """A part whose loss was computed before, with that of the whole batch; see `cached_parts`."""

    part: Part
    gradient: Tensor
    """(rows, width) float32: of the batch's loss, by what the head says of the rows."""
    loss: Tensor
    """A scalar, to be reported: the batch's loss with its first part, 0 with the others."""
    drawn: DropoutState
    """What dropout began from when its rows were read first."""


def cached_parts(
    parts: Sequence[Part],
    units: Sequence[int],
    *,
    read: Callable[[Part], Tensor],
    task: AnyTask,
    features: Features,
    dtype: torch.dtype,
    ranks: Ranks,
) -> Iterator[CachedPart]:
    """Yield the parts of a batch whose loss is that of all its rows together, in the memory of one part.

    GradCache (Gao et al. 2021, "Scaling deep contrastive learning batch size under memory limited setup"): the rows of
    all parts are read without gradients, the loss and its gradient by what the head says of them are computed once, and
    each part is then read again, with the same dropout, to carry its share of that gradient into the weights. Several
    processes exchange what their heads say, and each carries on the share of its own rows.

    units  of this process, in the order of the parts
    read   a part -> what the head says of its rows, (rows, ...)
    """
    device = parts[0].batch.unit_of_row.device
    drawn, found = [], []
    with torch.no_grad(), torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        for part in parts:
            drawn.append(DropoutState.now(device))
            found.append(read(part).float())
    leaves = [logits.requires_grad_() for logits in found]
    own = _joined(leaves)
    everybody = ranks.gather(own.detach())
    everybody[ranks.rank] = own
    all_units = torch.cat(ranks.gather(torch.tensor(units, device=device))).tolist()
    whole = whole_batch(features, all_units, device)
    # Gradients are averaged over ranks: that of the sum over all rows is what each rank's own must add up to.
    loss = task.loss(_joined(everybody), whole, task.count(whole) / ranks.world)
    gradients = torch.autograd.grad(loss, leaves)
    for number, (part, gradient, state) in enumerate(zip(parts, gradients, drawn, strict=True)):
        told = loss.detach() / ranks.world if number == 0 else torch.zeros_like(loss)
        yield CachedPart(part, gradient, told, state)


def whole_batch(features: Features, units: Sequence[int], device: torch.device) -> TaskBatch:
    """Return what a loss over all rows of units needs of them, whatever parts their tokens are in."""
    rows, unit_of_row = features.rows_of(units)
    lengths = torch.from_numpy(features.token_ids.lengths[rows]).to(device)
    longest = int(lengths.max())
    return TaskBatch(
        attention_mask=torch.arange(longest, device=device)[None, :] < lengths[:, None],
        unit_of_row=torch.from_numpy(unit_of_row).to(device),
        targets={
            name: torch_target(target, units, rows, longest).to(device) for name, target in features.targets.items()
        },
    )


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Return the rows of several parts one after the other; of one vector a token, filled up to the longest row."""
    if parts[0].dim() == 2:
        return torch.cat(list(parts))
    longest = max(part.shape[1] for part in parts)
    return torch.cat([F.pad(part, (0, 0, 0, longest - part.shape[1])) for part in parts])
