"""Multi-head self-attention, written once: softmax(QK^T / sqrt(d)) V (Vaswani et al. 2017, equation 1).

Suffixes in this file: B batch, T tokens of a row, H heads, D width of a head, E = H x D the hidden size.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaume.config import EncoderConfig
from anaume.model.dropout import drop_unscaled


def plain_attention(
    q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor, bias: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """Return the attended values (B, H, T, D) and the weights (B, H, T, T), by two batched matrix products."""
    scores_BHTT = torch.matmul(q_BHTD * (1.0 / math.sqrt(q_BHTD.shape[-1])), k_BHTD.transpose(-1, -2))
    if bias is not None:
        scores_BHTT.add_(bias)
    weights_BHTT = torch.softmax(scores_BHTT, dim=-1)
    dropped, scale = drop_unscaled(weights_BHTT, dropout)
    return torch.matmul(dropped, v_BHTD if scale == 1.0 else v_BHTD * scale), weights_BHTT


def plain_is_faster(queries: Tensor) -> bool:
    """The fixed rule that picks the implementation, from device, dtype and pass; nothing is timed at run time.

    Training in bfloat16 on a CPU: two batched products take 13.7 ms where the fused kernel takes 60.6 ms, forward and
    backward (32 x 128 tokens, 12 heads of 32). Everywhere else the fused kernel is as fast or faster.
    The queries are asked and not the states: under autocast only they are bfloat16.
    """
    return queries.device.type == "cpu" and queries.dtype == torch.bfloat16 and torch.is_grad_enabled()


class SelfAttention(nn.Module):
    """Fused query, key and value projection, attention per head, output projection."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_size = config.head_size
        self.dropout = config.attention_dropout
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, states: Tensor, bias: Tensor | None, keep_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return the mixed states, and the attention weights where they were asked for.

        states   (batch, seq_len, hidden_size)
        bias     broadcastable to (batch, heads, seq_len, seq_len), from `visibility.attention_bias`
        returns  (batch, seq_len, hidden_size), and (batch, heads, seq_len, seq_len) or None
        """
        batch, seq_len, hidden_size = states.shape
        qkv = self.qkv(states).view(batch, seq_len, 3, self.num_heads, self.head_size)
        q_BHTD, k_BHTD, v_BHTD = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        if keep_weights or plain_is_faster(q_BHTD):
            mixed_BHTD, weights = plain_attention(q_BHTD, k_BHTD, v_BHTD, bias, dropout)
        else:
            mixed_BHTD = F.scaled_dot_product_attention(q_BHTD, k_BHTD, v_BHTD, attn_mask=bias, dropout_p=dropout)
        mixed = mixed_BHTD.transpose(1, 2).reshape(batch, seq_len, hidden_size)
        return self.output(mixed), weights if keep_weights else None
