"""Many texts as rows of a model, [CLS] pieces [SEP], flat in memory until a batch is padded.

`Tokenizer.encode_batch` gives an object a text, with offsets and words; here are ids alone, for
those who embed millions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anaume.tokenization.bulk import BulkEncoder, encode_apart
from anaume.tokenization.tokenizer import Tokenizer
from anaume.tokenization.truncation import check_max_length

_MANY = 64
"""Texts from which the bulk encoder pays, which takes some 20 ms to make."""


class RowEncoder:
    """Makes rows of texts, for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    @cached_property
    def _bulk(self) -> BulkEncoder:
        return BulkEncoder(self.tokenizer)

    def encode(self, texts: Sequence[str], max_length: int) -> TextRows:
        """Return the rows of `Tokenizer.encode_batch(texts, max_length=max_length)`. Raises SettingsError."""
        check_max_length(max_length, 1)
        few = len(texts) < _MANY
        pieces = encode_apart(self.tokenizer._pipeline, texts) if few else self._bulk.encode(texts)
        return TextRows(self.tokenizer, pieces.token_ids, pieces.lengths, max_length)


class TextRows:
    """Rows of texts; what is too long keeps its first pieces.

    token_ids  (pieces,) int32, of one text after the other, without special tokens
    lengths    (texts,) pieces of each text
    """

    def __init__(
        self, tokenizer: Tokenizer, token_ids: NDArray[np.int32], lengths: NDArray[np.int64], max_length: int
    ) -> None:
        self.total = lengths
        """(texts,) pieces of each text, whether kept or not."""
        self.kept = np.minimum(lengths, max_length - 2)
        """(texts,) pieces of each text that its row holds."""
        self._tokenizer, self._token_ids = tokenizer, token_ids
        self._starts = np.cumsum(lengths) - lengths

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(texts,) ids of each row, special tokens included."""
        return self.kept + 2

    @property
    def coverage(self) -> NDArray[np.float64]:
        """(texts,) the share of each text's pieces that are kept; 1 for a text without pieces."""
        return np.where(self.total > 0, self.kept / np.maximum(self.total, 1), 1.0)

    @cached_property
    def unknown(self) -> NDArray[np.int64]:
        """(texts,) kept pieces that are the unknown token."""
        before = np.concatenate([[0], np.cumsum(self._token_ids == self._tokenizer.unk_id)])
        return np.asarray(before[self._starts + self.kept] - before[self._starts], dtype=np.int64)

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return some rows side by side, as `anaume.data.pad` does: token_ids int64, attention_mask bool, both
        (rows, longest)."""
        kept = self.kept[rows]
        width = int(kept.max(initial=0))
        places = np.arange(width)
        real = places < kept[:, None]
        token_ids = np.full((len(rows), width + 2), self._tokenizer.pad_id, dtype=np.int64)
        token_ids[:, 0] = self._tokenizer.cls_id
        token_ids[:, 1:-1][real] = self._token_ids[(self._starts[rows][:, None] + places)[real]]
        token_ids[np.arange(len(rows)), kept + 1] = self._tokenizer.sep_id
        return token_ids, np.arange(width + 2) < (kept + 2)[:, None]
