"""What every engine does: run a batch of token IDs through encoder, and pooling and normalisation or a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from anaume.model import EncoderOutput

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
"""Those that every bundle runs in; int8 is made by an export, with a certificate."""

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Padded rows, as NumPy arrays: an engine decides where they go."""

    token_ids: npt.NDArray[np.int64]
    """(batch, seq_len)"""
    attention_mask: npt.NDArray[np.bool_]
    """(batch, seq_len), True = real token."""
    segment_ids: npt.NDArray[np.int64] | None = None
    """(batch, seq_len), None = all zeros."""
    pooling_mask: npt.NDArray[np.bool_] | None = None
    """(batch, seq_len), True = counts in the pooling; None = every real token does."""


class Engine(Protocol):
    """Runs batches. `name`, `precision` and `device` say how; `max_batch_tokens` is the batch size it likes best.

    Raises SettingsError for what it can't give: heads that are not there, hidden states that a graph does not hand out.
    """

    name: str
    precision: Precision
    device: str
    max_batch_tokens: int

    def embed(self, batch: Batch) -> Vectors:
        """Return one vector a row, (batch, embedding_size) float32, pooled, and normalised where the bundle says so."""
        ...

    def head_logits(self, batch: Batch, head: str) -> Vectors:
        """Return a head's logits, float32: (batch, labels), (batch,) or (batch, seq_len, labels), as heads have."""
        ...

    def token_log_probabilities(self, batch: Batch, positions: Sequence[int], head: str) -> Vectors:
        """Return an mlm head's view of one place a row, (batch,): (batch, vocab_size) float32 log probabilities."""
        ...

    def hidden_states(self, batch: Batch, *, keep_attentions: bool = False) -> EncoderOutput:
        """Return everything the encoder computes for a batch: every layer, in float32 on the CPU."""
        ...
