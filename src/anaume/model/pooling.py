"""From one vector a token to one vector a text. The mask is a required argument: padding never counts."""

from __future__ import annotations

import torch
from torch import Tensor

from anaume.config import PoolingMethod
from anaume.errors import SettingsError


def pool(last_hidden_state: Tensor, attention_mask: Tensor, how: PoolingMethod) -> Tensor:
    """Return one vector a row.

    last_hidden_state  (batch, seq_len, hidden_size)
    attention_mask     (batch, seq_len) bool, True = real token
    how                "cls": the first real token; "mean", "max": over real tokens; "mean_sqrt": sum / sqrt(count)
    returns            (batch, hidden_size), in the dtype of last_hidden_state; sums are taken in float32

    A row without a real token gives the zero vector, never NaN. Raises SettingsError (a ValueError) for a mask that is
    not bool or has another shape.
    """
    mask = attention_mask
    if mask.shape != last_hidden_state.shape[:2] or mask.dtype != torch.bool:
        raise SettingsError(
            f"attention_mask must be bool {tuple(last_hidden_state.shape[:2])}, True = real token; "
            f"got {mask.dtype} {tuple(mask.shape)}"
        )
    if how == "cls":
        first = mask.int().argmax(dim=1)  # the first True; 0 for a row without any
        rows = torch.arange(len(mask), device=mask.device)
        return last_hidden_state[rows, first].masked_fill(~mask.any(dim=1)[:, None], 0.0)
    if how == "max":
        lowest = torch.finfo(last_hidden_state.dtype).min
        highest = last_hidden_state.masked_fill(~mask[..., None], lowest).amax(dim=1)
        return highest.masked_fill(~mask.any(dim=1)[:, None], 0.0)
    total = last_hidden_state.float().masked_fill(~mask[..., None], 0.0).sum(dim=1)
    count = mask.sum(dim=1, keepdim=True).clamp(min=1).float()
    if how == "mean":
        return (total / count).to(last_hidden_state.dtype)
    if how == "mean_sqrt":
        return (total / count.sqrt()).to(last_hidden_state.dtype)
    raise SettingsError(f"no pooling is called {how!r}")


def pool_packed(last_hidden_state: Tensor, sequence_ids: Tensor, num_texts: int, how: PoolingMethod) -> Tensor:
    """Return one vector a text of packed rows.

    last_hidden_state  (batch, seq_len, hidden_size)
    sequence_ids       (batch, seq_len) integers in 0 .. num_texts - 1, unique over the batch; -1 = padding
    returns            (num_texts, hidden_size), equal to `pool` of the same texts in padded rows

    The texts are gathered into padded rows first: pooling stays one piece of code, with one order of summation.
    Raises SettingsError (a ValueError) for sequence_ids of another shape or beyond num_texts.
    """
    if sequence_ids.shape != last_hidden_state.shape[:2]:
        raise SettingsError(
            f"sequence_ids must be {tuple(last_hidden_state.shape[:2])}; got shape {tuple(sequence_ids.shape)}"
        )
    flat_ids = sequence_ids.flatten()
    kept = (flat_ids >= 0).nonzero().squeeze(1)
    order = kept[flat_ids[kept].argsort(stable=True)]  # token places, text after text
    text = flat_ids[order]
    counts = torch.bincount(text, minlength=num_texts)
    if len(counts) > num_texts:
        raise SettingsError(f"sequence_ids go up to {len(counts) - 1}, but num_texts is {num_texts}")
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(order), device=order.device) - starts[text]
    longest = max(1, int(counts.max())) if num_texts else 1
    gathered = last_hidden_state.new_zeros(num_texts, longest, last_hidden_state.shape[2])
    gathered[text, place] = last_hidden_state.flatten(0, 1)[order]
    mask = torch.arange(longest, device=order.device)[None, :] < counts[:, None]
    return pool(gathered, mask, how)
