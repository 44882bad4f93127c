"""Whether a caller's tensors are still what they were: engines hold converted copies of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Watch:
    """Remembers what a model's tensors were; `changed` tells whether they still are, in a tenth of a millisecond.

    (It is asked at every batch, also where a batch is one text: walking through the modules anew would take longer.)
    """

    def __init__(self, model: nn.Module) -> None:
        self._parts = [(owner, name, part) for owner in model.modules() for name, part in owner.named_children()]
        self._tensors = [
            (owner, name, tensor)
            for owner in model.modules()
            for name, tensor in owner.named_parameters(recurse=False, remove_duplicate=False)
        ]
        self._state = self._versions()
        with torch.inference_mode(False), torch.no_grad():
            self._looks = _plain([look(tensor) for _, _, tensor in self._tensors])
            self._seen = _joined(self._looks)

    def changed(self) -> bool:
        """Return whether a part or a tensor was replaced, or a tensor written to, since."""
        if any(getattr(owner, name, None) is not part for owner, name, part in self._parts):
            return True
        if any(getattr(owner, name, None) is not tensor for owner, name, tensor in self._tensors):
            return True
        return self._versions() != self._state or not bool((_joined(self._looks) == self._seen).all())

    def _versions(self) -> list[tuple[int, int]]:
        return [(tensor.data_ptr(), version(tensor)) for _, _, tensor in self._tensors]


def _plain(looks: list[Tensor]) -> list[Any]:
    """As NumPy, which joins many small views five times as fast; what it can't hold stays torch's."""
    if all(view.device.type == "cpu" and view.dtype in (torch.float32, torch.float64) for view in looks):
        return [view.numpy() for view in looks]
    one_device = len({view.device for view in looks}) == 1
    return looks if one_device else [view.cpu() for view in looks]


def _joined(looks: Sequence[Any]) -> Any:
    if not looks:
        return np.empty(0, np.float32)
    return np.concatenate(looks) if isinstance(looks[0], np.ndarray) else torch.cat(list(looks))


def version(tensor: Tensor) -> int:
    """Return torch's count of changes in place; 0 where it does not count."""
    return 0 if tensor.is_inference() else tensor._version


def look(tensor: Tensor) -> Tensor:
    """A view of up to eight places: fused optimizers and `.data` change values without counting the version up."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, len(flat) // 8)][:8]
