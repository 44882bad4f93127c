"""The Transformer encoder as published: post-layer-norm layers over vectors, bidirectional or causal.

It takes vectors and a mask, never token IDs, so any input layer can stand before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from anaume.config import Activation, EncoderConfig
from anaume.errors import SettingsError
from anaume.model.attention import SelfAttention
from anaume.model.dropout import Dropout
from anaume.model.visibility import attention_bias


@dataclass(frozen=True)
class EncoderOutput:
    """What an encoder returns."""

    last_hidden_state: Tensor
    """(batch, seq_len, hidden_size): the contextual vectors."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The input vectors, then each layer's output, num_hidden_layers + 1 in all; None unless asked for."""
    attentions: tuple[Tensor, ...] | None = None
    """Each layer's attention weights, (batch, heads, seq_len, seq_len); None unless asked for."""


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between, the same for every place."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.expand = nn.Linear(config.hidden_size, config.intermediate_size)
        self.contract = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = config.activation

    def forward(self, states: Tensor) -> Tensor:
        """(batch, seq_len, hidden_size) -> (batch, seq_len, hidden_size)."""
        contracted: Tensor = self.contract(activate(self.expand(states), self.activation))
        return contracted


class EncoderLayer(nn.Module):
    """Attention, then feed-forward; each added to its input and normalised after (post-LN)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, states: Tensor, bias: Tensor | None, keep_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """(batch, seq_len, hidden_size) -> the same shape, and the attention weights where they were asked for."""
        attended, weights = self.attention(states, bias, keep_weights)
        states = self.attention_norm(states + self.dropout(attended))
        states = self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))
        return states, weights


class Encoder(nn.Module):
    """A stack of layers."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.causal = config.causal
        self.hidden_size = config.hidden_size
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.gradient_checkpointing = False
        """True: recompute each layer in the backward pass instead of keeping its activations."""

    def forward(
        self,
        vectors: Tensor,
        attention_mask: Tensor | None,
        *,
        sequence_ids: Tensor | None = None,
        keep_hidden_states: bool = False,
        keep_attentions: bool = False,
    ) -> EncoderOutput:
        """Turn input vectors into contextual vectors.

        vectors         (batch, seq_len, hidden_size) floating point
        attention_mask  (batch, seq_len) bool, True = real; None says that nothing is padding
        sequence_ids    (batch, seq_len) integers, for packed rows: see `visibility.attention_bias`

        Raises SettingsError (a ValueError) for other shapes or a mask that is not bool.
        """
        if vectors.dim() != 3 or vectors.shape[2] != self.hidden_size:
            raise SettingsError(
                f"vectors must be (batch, seq_len, {self.hidden_size}); got shape {tuple(vectors.shape)}"
            )
        for name, given in (("attention_mask", attention_mask), ("sequence_ids", sequence_ids)):
            if given is not None and given.shape != vectors.shape[:2]:
                raise SettingsError(
                    f"{name} must be (batch, seq_len) = {tuple(vectors.shape[:2])}; got shape {tuple(given.shape)}"
                )
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            raise SettingsError(f"attention_mask must be bool, True = real token; got {attention_mask.dtype}")

        # Under autocast the scores are in its dtype: a bias of that dtype keeps the softmax there, and needs no cast.
        device_type = vectors.device.type
        autocast = torch.is_autocast_enabled(device_type)
        bias = attention_bias(
            vectors.shape[1],
            attention_mask=attention_mask,
            sequence_ids=sequence_ids,
            causal=self.causal,
            dtype=torch.get_autocast_dtype(device_type) if autocast else vectors.dtype,
            device=vectors.device,
        )
        states = vectors
        hidden_states = [states]
        attentions: list[Tensor] = []
        for layer in self.layers:
            if self.gradient_checkpointing and self.training:
                states, weights = checkpoint(layer, states, bias, keep_attentions, use_reentrant=False)
            else:
                states, weights = layer(states, bias, keep_attentions)
            if keep_hidden_states:
                hidden_states.append(states)
            if keep_attentions:
                attentions.append(weights)
        return EncoderOutput(
            states,
            tuple(hidden_states) if keep_hidden_states else None,
            tuple(attentions) if keep_attentions else None,
        )


def activate(states: Tensor, activation: Activation) -> Tensor:
    """Apply the named non-linearity; "gelu" is the exact one, x * Phi(x), as published."""
    if activation == "gelu":
        return F.gelu(states)
    if activation == "gelu_tanh":
        return F.gelu(states, approximate="tanh")
    return F.relu(states)
