"""What a head reads of the encoder: one layer, several side by side, or their weighted sum (BERT, section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anaume.config import EncoderConfig, HeadLayers
from anaume.errors import SettingsError

LAST_FEW = 4
"""How many layers "last-four" and "weighted-last-four" take."""


def layer_numbers(config: EncoderConfig, layers: HeadLayers) -> tuple[int, ...]:
    """Return the layers a head reads, 0 = the encoder's input. "weighted-all" is of the layers, the input apart.

    Raises SettingsError for four layers of an encoder that has fewer.
    """
    count = config.num_hidden_layers
    if layers.endswith("last-four") and count < LAST_FEW:
        raise SettingsError(f"layers={layers!r} needs {LAST_FEW} layers; the encoder has {count}")
    chosen: dict[HeadLayers, Sequence[int]] = {
        "last": (count,),
        "second-to-last": (count - 1,),
        "embeddings": (0,),
        "last-four": range(count - LAST_FEW + 1, count + 1),
        "weighted-last-four": range(count - LAST_FEW + 1, count + 1),
        "weighted-all": range(1, count + 1),
    }
    return tuple(chosen[layers])


class LayerMix(nn.Module):
    """Makes one state a token (or text) of the layers a head reads; `width` is its size."""

    def __init__(self, config: EncoderConfig, layers: HeadLayers) -> None:
        super().__init__()
        numbers = layer_numbers(config, layers)
        self.layers = layers
        self.width = config.hidden_size * (len(numbers) if layers == "last-four" else 1)
        weighted = layers.startswith("weighted")
        self.weights = nn.Parameter(torch.zeros(len(numbers))) if weighted else None
        """(layers,): the logarithms of what each counts, up to a constant; equal at first."""

    def forward(self, states: Tensor) -> Tensor:
        """Return (..., width).

        states  (..., hidden_size) of the last layer; (layers, ..., hidden_size) where others are read
        """
        if self.layers == "last":
            return states
        if self.weights is not None:
            mixed: Tensor = torch.tensordot(self.weights.softmax(dim=0), states, dims=1)
            return mixed
        return torch.cat(states.unbind(), dim=-1)
