"""What every engine does: run a batch of token IDs through encoder, pooling and normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")

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
    """Runs batches. `name`, `precision` and `device` say how; `max_batch_tokens` is the batch size it likes best."""

    name: str
    precision: Precision
    device: str
    max_batch_tokens: int

    def embed(self, batch: Batch) -> Vectors:
        """Return one vector a row, (batch, embedding_size) float32, pooled, and normalised where the bundle says so."""
        ...
