"""Linear layers whose weights are packed for oneDNN beforehand, where torch would call a slower library.

torch's float32 linear layer calls MKL, which does not use the whole of AMD's processors; its bfloat16 one calls oneDNN,
but packs the weights anew at every call. torch's own compiler packs frozen weights by the same two operators, which are
private: they are tried once a process, and where they are missing or wrong, everything stays as it was.

Which processors take it is a rule and not measured: a choice that changed from run to run would change the last bits of
vectors. On Intel's, MKL is as fast (docs/log.md).
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from anaume.engines.hardware import has_bfloat16, processor_vendor
from anaume.logs import get_logger

log = get_logger(__name__)

_SMALLEST = 1 << 16
"""Weights of a layer from which it pays: below, a call costs more than the arithmetic."""
_ROWS = 1024  # tokens that the packing is told to expect; others are right, too


class PackedLinear(nn.Module):
    """A linear layer as it is now, for inference: (..., inputs) -> (..., outputs). Later changes don't reach it."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _ROWS)
        self._bias = None if layer.bias is None else layer.bias.detach()

    def forward(self, states: Tensor) -> Tensor:
        """Return states W^T + b, in their own dtype."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(states, self._weight, self._bias, "none", [], "")
        return result


def pack(model: nn.Module) -> None:
    """Put packed layers in the place of a model's large linear ones. The model's own tensors stay what they are."""
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if _large(part):
                assert isinstance(part, nn.Linear)
                setattr(parent, name, PackedLinear(part))


@cache
def packing_pays(dtype: torch.dtype) -> bool:
    """Return whether this processor gains by it in this precision, and torch has the operators and they are right."""
    cpu = torch.device("cpu")
    fit = processor_vendor() == "AuthenticAMD" if dtype == torch.float32 else has_bfloat16(cpu)
    return fit and _works(dtype)


def _works(dtype: torch.dtype) -> bool:
    try:
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            layer, states = nn.Linear(64, 48).to(dtype), torch.randn(2, 5, 64).to(dtype)
            return torch.allclose(
                PackedLinear(layer)(states), layer(states), atol=1e-5 if dtype == torch.float32 else 2e-2
            )
    except (RuntimeError, AttributeError, TypeError) as error:
        log.debug("linear layers are not packed: %s", str(error).splitlines()[0])
        return False


def _large(part: nn.Module) -> bool:
    return type(part) is nn.Linear and part.weight.numel() >= _SMALLEST
