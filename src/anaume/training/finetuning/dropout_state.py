"""What dropout draws from, kept so that the same rows can be read twice under the same dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class DropoutState:
    """The state of a device's default generator."""

    device: torch.device
    state: Tensor

    @classmethod
    def now(cls, device: torch.device) -> DropoutState:
        """Return the state as it is."""
        return cls(device, _generators(device).get_rng_state(*_number(device)))

    def restore(self) -> None:
        """Bring the generator back to it."""
        _generators(self.device).set_rng_state(self.state, *_number(self.device))


def _generators(device: torch.device) -> Any:
    return torch if device.type == "cpu" else torch.get_device_module(device)


def _number(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []
