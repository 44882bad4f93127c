"""One process or many (torchrun): who we are, and what all must agree on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Ranks:
    """This process among all of the run."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of everybody's values."""
        if self.world > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """Return everybody's values in the order of ranks, without gradients: of one dtype, each of any shape."""
        if self.world == 1:
            return [values]
        shape = torch.tensor(values.shape, device=values.device)
        shapes = [torch.empty_like(shape) for _ in range(self.world)]
        dist.all_gather(shapes, shape)
        sizes = [int(own.prod()) for own in shapes]
        flat = values.new_zeros(max(sizes))  # all must send as much
        flat[: values.numel()] = values.flatten()
        found = [torch.empty_like(flat) for _ in range(self.world)]
        dist.all_gather(found, flat)
        return [own[:size].view(shape.tolist()) for own, size, shape in zip(found, sizes, shapes, strict=True)]

    def agree(self, value: float, wish: bool, device: torch.device) -> tuple[float, bool]:
        """Return the first rank's value, and whether anybody wishes.

        What a clock or a signal says differs from process to process; all must go the same way at the same step.
        """
        if self.world == 1:
            return value, wish
        shared = torch.tensor([value if self.first else 0.0, float(wish)], dtype=torch.float64, device=device)
        dist.all_reduce(shared)
        agreed, wishes = shared.tolist()
        return agreed, wishes > 0

    def differ(self, value: int, device: torch.device) -> bool:
        """Return whether anybody's value (below 2^53) is not the first rank's."""
        first, _ = self.agree(float(value), False, device)
        return self.agree(0.0, first != value, device)[1]

    def wait(self) -> None:
        """Wait until everybody is here."""
        if self.world > 1:
            dist.barrier()

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return the module, averaging gradients over everybody where there is more than one."""
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(module)


def launched_rank() -> int:
    """Return the number torchrun gave this process; 0 for a process on its own."""
    return int(os.environ.get("RANK", "0"))


@contextmanager
def joined(device: torch.device) -> Iterator[tuple[Ranks, torch.device]]:
    """Join the processes torchrun started, if it did, each with a GPU of its own; leave them at the end."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks(), device
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    owned = not dist.is_initialized()
    if owned:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size()), device
    finally:
        if owned:
            dist.destroy_process_group()
