"""AdamW as the papers use it: bias correction on, no decay on biases and layer norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from anaume.training.sections import OptimizerSettings


def build_optimizer(
    model: nn.Module, settings: OptimizerSettings, *, scale: Callable[[str], float] = lambda name: 1.0
) -> torch.optim.AdamW:
    """Return the optimizer over the trained parameters of `model`; matrices and tables are decayed, vectors are not.

    scale  a parameter's name -> what its learning rate is multiplied by; parameters alike in both share a group
    """
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((scale(name), parameter.dim() >= 2), []).append(parameter)
    ordered = sorted(groups.items(), key=lambda item: (-item[0][0], not item[0][1]))
    return torch.optim.AdamW(
        [
            {"params": own, "weight_decay": settings.weight_decay if decayed else 0.0, "scale": factor}
            for (factor, decayed), own in ordered
        ],
        lr=settings.peak,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the learning rate of every group, times its scale."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group.get("scale", 1.0)
