"""A bidirectional LSTM (Hochreiter and Schmidhuber 1997; Graves and Schmidhuber 2005) over the tokens of a row."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anaume.model.dropout import Dropout


class BiLSTM(nn.Module):
    """Layers of two LSTMs, one reading each row from its first real token on, one from its last.

    width, size  of what it reads, and of each direction; dropout falls between the layers
    """

    def __init__(self, width: int, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [width, *[2 * size] * (layers - 1)]
        self.ahead = nn.ModuleList(nn.LSTM(own, size, batch_first=True) for own in widths)
        self.back = nn.ModuleList(nn.LSTM(own, size, batch_first=True) for own in widths)
        self.dropout = Dropout(dropout)

    def forward(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """(batch, seq_len, width) -> (batch, seq_len, 2 x size); nothing of a row depends on its padding.

        Both directions come to a row's padding last: nothing is packed, and what they make of it is never read.
        """
        mask = states.new_ones(states.shape[:2], dtype=torch.bool) if attention_mask is None else attention_mask
        real_first = (~mask).int().argsort(dim=1, stable=True)
        places = torch.arange(mask.shape[1], device=mask.device).expand_as(real_first)
        lengths = mask.sum(dim=1, keepdim=True)
        reverse = torch.where(places < lengths, lengths - 1 - places, places)  # its own inverse

        states = _ordered(states, real_first)
        for number, (ahead, back) in enumerate(zip(self.ahead, self.back, strict=True)):
            states = self.dropout(states) if number else states
            backwards = _ordered(back(_ordered(states, reverse))[0], reverse)
            states = torch.cat([ahead(states)[0], backwards], dim=-1)
        return _ordered(states, real_first.argsort(dim=1))


def _ordered(states: Tensor, order: Tensor) -> Tensor:
    """(batch, seq_len, width), (batch, seq_len) -> the states of each row in another order."""
    return states.take_along_dim(order[..., None], dim=1)
