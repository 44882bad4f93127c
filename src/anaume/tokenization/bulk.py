"""Many sentences -> flat arrays of ids, as fast as the Rust pipeline gives them.

A sentence costs the pipeline a fixed time beside its tokens, more than a short sentence's tokens do, and reading back
words and offsets costs again. So, under the BERT rules, sentences are joined into long texts by a mark that those rules
always make a word of its own, and words are told by the spelling of their pieces. The ids are those of `encode`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.tokenization.pipeline import build_pipeline
from anaume.tokenization.tokenizer import Tokenizer

# Punctuation that no text is written with: the BERT rules isolate it, and no normalisation changes or composes it.
_MARKS = "\u2e0e\u2e0f\u2e16\u2058\u205c"
_JOINED = 8_192  # characters of a joined text: long enough to hide the fixed time
_AT_ONCE = 64  # joined texts encoded at once: what the pipeline returns is far larger than the ids
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class FlatPieces:
    """The pieces of many texts, one text after the other, without special tokens."""

    token_ids: NDArray[np.int32]
    """(pieces,)"""
    word_starts: NDArray[np.uint8]
    """(pieces,) 1 = the first piece of a word."""
    lengths: NDArray[np.int64]
    """(texts,) the number of pieces of each text."""


class BulkEncoder:
    """Encodes lists of texts into flat arrays; made once for a tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        rules, vocab = tokenizer.rules, tokenizer.vocab
        self._pipeline: Any = tokenizer._pipeline
        self._marked: Any = None  # the same, with the mark as one entry more
        self._mark: str | None = None
        self._mark_id = len(vocab)
        if rules.words != "bert" or rules.subwords != "wordpiece" or rules.protected:
            return
        free = [mark for mark in _MARKS if not any(mark in entry for entry in vocab)]
        if not free:
            return
        pipeline = build_pipeline(rules, [*vocab, free[0]])
        pipeline.post_processor = None
        if pipeline.encode(f"a{free[0]}a", add_special_tokens=False).ids[1:2] != [self._mark_id]:
            return
        self._marked, self._mark = pipeline, free[0]
        # Under these rules "#" is a word of its own, so only a piece that goes on with a word begins with "##".
        self._starts = np.array([not entry.startswith("##") for entry in [*vocab, ""]], dtype=np.uint8)

    def encode(self, texts: Sequence[str]) -> FlatPieces:
        """Encode texts; an empty one has no pieces. Lone surrogates are read as U+FFFD, as `Tokenizer.encode` does."""
        if self._mark is None or not texts or any(self._mark in text for text in texts):
            return encode_apart(self._pipeline, texts)
        return self._joined(texts, self._mark)

    def _joined(self, texts: Sequence[str], mark: str) -> FlatPieces:
        joined: list[str] = []
        first, size = 0, 0
        for index, text in enumerate(texts):
            size += len(text)
            if size >= _JOINED:
                joined.append(mark.join(texts[first : index + 1]) + mark)
                first, size = index + 1, 0
        if first < len(texts):
            joined.append(mark.join(texts[first:]) + mark)
        parts = []
        for start in range(0, len(joined), _AT_ONCE):
            raws = _run(self._marked.encode_batch_fast, joined[start : start + _AT_ONCE])
            parts.append(np.fromiter(chain.from_iterable(raw.ids for raw in raws), dtype=np.int32))
        ids = np.concatenate(parts)
        marks = np.flatnonzero(ids == self._mark_id)
        assert len(marks) == len(texts), "a mark between sentences was lost"
        lengths = np.diff(marks, prepend=-1) - 1
        token_ids = np.delete(ids, marks)
        return FlatPieces(token_ids, self._starts[token_ids], lengths.astype(np.int64))


def encode_apart(pipeline: Any, texts: Sequence[str]) -> FlatPieces:
    """Encode texts one beside the other, as `BulkEncoder.encode` does where it can't join them."""
    ids: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    starts: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    lengths: list[int] = []
    step = _AT_ONCE * 16
    for begin in range(0, len(texts), step):
        for raw in _run(pipeline.encode_batch, texts[begin : begin + step]):
            words = np.array(raw.word_ids, dtype=np.int64)
            ids.append(np.array(raw.ids, dtype=np.int32))
            starts.append((np.diff(words, prepend=-1) != 0).astype(np.uint8))
            lengths.append(len(words))
    return FlatPieces(np.concatenate(ids), np.concatenate(starts), np.array(lengths, dtype=np.int64))


def _run(encode: Any, texts: Sequence[str]) -> Any:
    try:
        return encode(texts, add_special_tokens=False)
    except TypeError:  # a lone surrogate, which Rust strings can't hold
        return encode([_SURROGATES.sub("\ufffd", text) for text in texts], add_special_tokens=False)
