"""Static vectors: one row of a table a token, summed; no encoder, and so no context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.engines.protocol import Batch, Engine, Precision, Vectors
from anaume.errors import SettingsError
from anaume.model import EncoderOutput


class StaticEngine:
    """Embeds by table: the sum of the tokens' rows, scaled to length 1 (a mean has the same direction).

    table  (vocab_size, embedding_size) float32; what should not count, such as [CLS], has a row of zeros

    A text of such tokens alone gets the zero vector.
    """

    name = "static"
    precision: Precision = "float32"
    device = "cpu"
    max_batch_tokens = 1 << 17  # rows are only looked up: large batches spare calls

    def __init__(self, table: Tensor) -> None:
        self._table = table

    def for_tokens(self, tokens: int) -> Engine:
        """Return itself."""
        return self

    def at_once(self, head: str | None = None) -> int:
        """Return 1: rows of a table are looked up faster than threads are told to."""
        return 1

    def embed(self, batch: Batch) -> Vectors:
        """Return one unit vector a row, (batch, embedding_size) float32."""
        counted = batch.attention_mask if batch.pooling_mask is None else batch.pooling_mask & batch.attention_mask
        ends = torch.from_numpy(counted.sum(axis=1)).cumsum(0)
        offsets = torch.cat([ends.new_zeros(1), ends[:-1]])[: len(counted)]
        token_ids = torch.from_numpy(batch.token_ids[counted])
        with torch.inference_mode():
            sums = F.embedding_bag(token_ids, self._table, offsets, mode="sum")
            vectors: Vectors = F.normalize(sums, dim=1).numpy()
        return vectors

    def head_logits(self, batch: Batch, head: str) -> Vectors:
        """Raise SettingsError: heads read an encoder."""
        self._refuse(f"the head {head!r}")

    def token_log_probabilities(self, batch: Batch, positions: Sequence[int], head: str) -> Vectors:
        """Raise SettingsError: heads read an encoder."""
        self._refuse(f"the head {head!r}")

    def hidden_states(self, batch: Batch, *, keep_attentions: bool = False) -> EncoderOutput:
        """Raise SettingsError: there are no layers."""
        self._refuse("hidden states")

    def _refuse(self, what: str) -> NoReturn:
        raise SettingsError(f"{what}: a static export has no encoder, only vectors; use the bundle it was made of")
