"""One process or many (torchrun): who we are, and sums over everybody."""

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

    def agree(self, value: float, device: torch.device) -> float:
        """Return the first rank's value: what is read from a clock must be the same everywhere."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=device)
        dist.broadcast(shared, src=0)
        return float(shared.item())

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return the module, averaging gradients over everybody where there is more than one."""
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(module)


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """Join the processes torchrun started, if it did; leave them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    owned = not dist.is_initialized()
    if owned:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        if owned:
            dist.destroy_process_group()
