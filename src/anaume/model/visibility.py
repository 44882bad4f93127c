"""Who may look at whom: padding, packed texts and causality become one additive bias before the softmax.

This is all that separates BERT from GPT here: the same block, with or without the causal triangle.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention_bias(
    seq_len: int,
    *,
    attention_mask: Tensor | None = None,
    sequence_ids: Tensor | None = None,
    causal: bool = False,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor | None:
    """Return what is added to the attention scores: 0 where a token may look, half the dtype's lowest number elsewhere.

    attention_mask  (batch, seq_len) bool, True = real token; None = every token is real
    sequence_ids    (batch, seq_len) integers: which text of a packed row a token belongs to, -1 = padding;
                    tokens of different texts don't see each other
    causal          True: a token sees itself and what stands before it
    returns         (batch or 1, 1, seq_len or 1, seq_len) of `dtype`, or None when everything is visible

    A finite number and not -inf: a row without any visible token then gives finite weights instead of NaN, in every
    dtype, while exp(so low a number) is exactly 0, so nothing masked leaks. Half of the lowest, because the lowest
    itself becomes -inf as soon as a negative score is added in float16, or when float32 is rounded to bfloat16.
    """
    visible: Tensor | None = None
    if attention_mask is not None:
        visible = attention_mask[:, None, None, :]
    if sequence_ids is not None:
        same_text = (sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]) & (
            sequence_ids[:, None, None, :] >= 0
        )
        visible = same_text if visible is None else visible & same_text
    if causal:
        at = visible.device if visible is not None else device
        triangle = torch.ones(seq_len, seq_len, dtype=torch.bool, device=at).tril()[None, None]
        visible = triangle if visible is None else visible & triangle
    if visible is None:
        return None
    bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return bias.masked_fill_(~visible, torch.finfo(dtype).min / 2)


def positions_from_mask(attention_mask: Tensor) -> Tensor:
    """Return position IDs counted from the first real token of each row.

    attention_mask  (batch, seq_len) bool
    returns         (batch, seq_len) int64

    With padding on the right this is 0, 1, 2, ...; with padding on the left the text still starts at position 0, so
    the side of the padding does not change the vectors. A hole in the middle hides a token but moves no other.
    """
    before = (attention_mask.long().cumsum(dim=1) == 0).sum(dim=1, keepdim=True)  # places before the first real token
    places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    return (places - before).clamp_(min=0)
