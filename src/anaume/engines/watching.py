"""Whether a caller's tensors are still what they were: engines hold converted copies of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Watch:
    """Remembers what some tensors were; `changed` tells whether they still are."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._state = _state(tensors)
        with torch.inference_mode(False), torch.no_grad():
            self._looks = [look(tensor) for tensor in tensors]
            self._seen = torch.cat(self._looks)

    def changed(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether one was replaced or written to since."""
        return _state(tensors) != self._state or not torch.equal(torch.cat(self._looks), self._seen)


def version(tensor: Tensor) -> int:
    """Return torch's count of changes in place; 0 where it does not count."""
    return 0 if tensor.is_inference() else tensor._version


def look(tensor: Tensor) -> Tensor:
    """A view of up to eight places: fused optimizers and `.data` change values without counting the version up."""
    flat = tensor.detach().reshape(-1)
    return flat[:: max(1, len(flat) // 8)][:8]


def _state(tensors: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
    return tuple((tensor.data_ptr(), version(tensor)) for tensor in tensors)
