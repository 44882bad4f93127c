"""Dropout (Srivastava et al. 2014), drawn four decisions a random number on processors.

torch draws one random number an element there, which costs a training step of a small encoder more than its attention.
A decision of 16 bits is as good: a rate of 0.1 becomes 6,554 / 65,536, and what is kept is scaled by exactly that.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
"""The integers that lie over a number, and of which random ones decide about it."""


def dropout(states: Tensor, rate: float) -> Tensor:
    """Return `states` with each element zeroed with probability `rate` (0 <= rate < 1), the others scaled up.

    Draws from the device's default generator. The same (inverted) dropout everywhere; only how its random numbers are
    drawn differs: on a processor by bits, elsewhere and under torch.compile by torch.
    """
    if rate == 0.0:
        return states
    if not _by_bits(states):
        return F.dropout(states, rate)
    dropped: Tensor = _KeepScaled.apply(states, *_random_mask(states, rate))  # type: ignore[no-untyped-call]
    return dropped


class Dropout(nn.Dropout):
    """`dropout` in training, nothing otherwise."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape and dtype."""
        return dropout(input, self.p) if self.training else input


def drop_unscaled(states: Tensor, rate: float) -> tuple[Tensor, float]:
    """Return `states` with elements zeroed and nothing scaled, and the scale that is still to be applied.

    For attention weights: their product with the values is smaller than they are, and can be scaled in their place.
    """
    if rate == 0.0:
        return states, 1.0
    if not _by_bits(states):
        return F.dropout(states, rate), 1.0
    mask, scale = _random_mask(states, rate)
    kept: Tensor = _Keep.apply(states, mask)  # type: ignore[no-untyped-call]
    return kept, scale


class _Keep(torch.autograd.Function):
    """Zeroes what a mask of bits does not cover, in both directions."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor) -> Tensor:
        ctx.mask = mask
        return (states.view(mask.dtype) & mask).view(states.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Keep.apply(gradients[0], ctx.mask), None  # type: ignore[no-untyped-call]  # has a gradient itself


class _KeepScaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.mask, ctx.scale = mask, scale
        return (states.view(mask.dtype) & mask).view(states.dtype).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _KeepScaled.apply(gradients[0], ctx.mask, ctx.scale), None, None  # type: ignore[no-untyped-call]


def _by_bits(states: Tensor) -> bool:
    return states.device.type == "cpu" and states.dtype in _BITS and not torch.compiler.is_compiling()


def _random_mask(states: Tensor, rate: float) -> tuple[Tensor, float]:
    """Return integers over `states`, all bits set where an element is kept and none where not, and the scale."""
    integer = _BITS[states.dtype]
    lowest, values = torch.iinfo(integer).min, 1 << torch.iinfo(integer).bits
    dropped = min(max(round(rate * values), 1), values - 1)
    in_one = 8 // states.element_size()
    random = torch.empty(-(-states.numel() // in_one), dtype=torch.int64).random_(-(1 << 63), None)
    bits = random.view(integer)[: states.numel()].view(states.shape)
    # Kept where bits >= first: brought to two neighbouring numbers, then to -1 (all bits set) and 0.
    first = lowest + dropped
    return bits.clamp_(first - 1, first).sub_(first - 1).neg_(), values / (values - dropped)
