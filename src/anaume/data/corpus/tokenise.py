"""Documents -> flat arrays of tokens with their bounds: what one worker does, and what a shard is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.documents import Document
from anaume.tokenization import Tokenizer
from anaume.tokenization.bulk import BulkEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenised:
    """A run of documents as tokens; sentences and documents without a piece are not in it."""

    token_ids: NDArray[np.int32]
    """(tokens,)"""
    word_starts: NDArray[np.uint8]
    """(tokens,)"""
    sentence_lengths: NDArray[np.int64]
    """(sentences,) in tokens"""
    document_lengths: NDArray[np.int64]
    """(documents,) in sentences"""
    characters: int
    unknown: int
    """Tokens that are the unknown one."""
    cuts: int
    """Over-long sentences cut."""
    empty: int
    """Documents left out because the tokenizer finds no piece in them."""


class DocumentEncoder:
    """Splits documents into sentences and encodes them."""

    def __init__(self, tokenizer: Tokenizer, language: str | None) -> None:
        self._encoder = BulkEncoder(tokenizer)
        self._unk_id = tokenizer.unk_id
        self._language = language

    def __call__(self, documents: Sequence[Document]) -> Tokenised:
        """Encode documents, in order."""
        sentences: list[str] = []
        counts: list[int] = []
        cuts = 0
        for document in documents:
            own, cut = document.split(self._language)
            sentences += own
            counts.append(len(own))
            cuts += cut
        pieces = self._encoder.encode(sentences)
        full = pieces.lengths > 0
        # How many of each document's sentences have a piece: a difference of running totals.
        totals = np.concatenate([[0], np.cumsum(full)])
        ends = np.cumsum(np.array(counts, dtype=np.int64))
        starts = ends - np.array(counts, dtype=np.int64)
        document_lengths = totals[ends] - totals[starts]
        return Tokenised(
            token_ids=pieces.token_ids,
            word_starts=pieces.word_starts,
            sentence_lengths=pieces.lengths[full],
            document_lengths=document_lengths[document_lengths > 0].astype(np.int64),
            characters=sum(map(len, sentences))
            if full.all()
            else sum(len(sentence) for sentence, kept in zip(sentences, full.tolist(), strict=True) if kept),
            unknown=int(np.count_nonzero(pieces.token_ids == self._unk_id)),
            cuts=cuts,
            empty=int(np.count_nonzero(document_lengths == 0)),
        )
