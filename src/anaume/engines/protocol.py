"""What every engine does: run a batch of token IDs through encoder, and pooling and normalisation or a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from anaume.errors import SettingsError
from anaume.model import EncoderOutput

Precision = Literal["float32", "bfloat16", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
"""Those that every bundle runs in; int8 is made by an export, with a certificate."""

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """Padded rows, as NumPy arrays: an engine decides where they go.

    IDs of other integer types become int64. Raises SettingsError for arrays that are not all (batch, seq_len), and for
    other types: each engine has its own way to take them, and some would answer.
    """

    token_ids: npt.NDArray[np.int64]
    """(batch, seq_len)"""
    attention_mask: npt.NDArray[np.bool_]
    """(batch, seq_len), True = real token."""
    segment_ids: npt.NDArray[np.int64] | None = None
    """(batch, seq_len), None = all zeros."""
    pooling_mask: npt.NDArray[np.bool_] | None = None
    """(batch, seq_len), True = counts in the pooling; None = every real token does."""

    def __post_init__(self) -> None:
        if self.token_ids.ndim != 2:
            raise SettingsError(f"token_ids must be (batch, seq_len); got the shape {self.token_ids.shape}")
        for name, kinds, wanted in (
            ("token_ids", "iu", "whole numbers"),
            ("segment_ids", "iu", "whole numbers"),
            ("attention_mask", "b", "bool, True = real token"),
            ("pooling_mask", "b", "bool, True = counts in the pooling"),
        ):
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != self.token_ids.shape or values.dtype.kind not in kinds:
                raise SettingsError(
                    f"{name} must be {wanted}, of the shape of token_ids, {self.token_ids.shape}; got {values.dtype} "
                    f"{values.shape}"
                )
            if kinds == "iu" and values.dtype != np.int64:
                object.__setattr__(self, name, values.astype(np.int64))


class Engine(Protocol):
    """Runs batches. `name`, `precision` and `device` say how; `max_batch_tokens` is the batch size it likes best.

    Raises SettingsError for what it can't give: heads that are not there, hidden states that a graph does not hand out.
    """

    name: str
    precision: Precision
    device: str
    max_batch_tokens: int

    def for_tokens(self, tokens: int) -> Engine:
        """Return the engine for a call of so many tokens: itself, or one that runs many batches side by side.

        Both give the same bits for the same batch.
        """
        ...

    def at_once(self, head: str | None = None) -> int:
        """Return how many batches it runs side by side, each called for by a thread of its own (`side_by_side`).

        head  whose logits are wanted; None = vectors
        """
        ...

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
