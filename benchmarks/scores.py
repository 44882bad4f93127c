"""How a trained bundle is scored: the same held-out rows under the same masks, and the same hidden words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.data.corpus import open_corpus
from anaume.data.corpus.stream import PretrainBatch, RowStream, SpecialIds
from anaume.training import PretrainSettings
from anaume.training.pretraining.evaluation import Evaluator, HeldOut
from benchmarks.corpora import held_out_texts
from benchmarks.held_words import HeldWords, cut_passages
from benchmarks.study import Row

ROWS, SEQ_LEN = 1024, 128
PASSAGES_OF = {"large": "reviews"}
"""Where a corpus's hidden words come from, if not from its own texts; what is held back of one is of the other too."""


def usual(row: Row, bundle: Bundle, corpus: Path) -> dict[str, Any]:
    """Return held-out loss and accuracy, bits per character and word accuracy, and those of the unigram model."""
    rows = held_out(bundle, corpus)
    words = HeldWords(
        cut_passages(held_out_texts(PASSAGES_OF.get(row.corpus, row.corpus))), bundle.tokenizer, max_length=SEQ_LEN
    )
    own, unigram = words.score(bundle), words.unigram(open_corpus(corpus).split("train").token_counts())
    return {
        "held_out_loss": rows.loss,
        "held_out_accuracy": rows.accuracy,
        "held_out_tokens": rows.tokens,
        "bits_per_character": own.bits_per_character,
        "word_accuracy": own.word_accuracy,
        "words": own.words,
        "unigram_bits_per_character": unigram.bits_per_character,
        "unigram_word_accuracy": unigram.word_accuracy,
    }


def held_out(
    bundle: Bundle, corpus: Path, *, rows: int = ROWS, seq_len: int = SEQ_LEN, settings: PretrainSettings | None = None
) -> HeldOut:
    """Score a bundle on the held-out part of a prepared corpus, in float32.

    settings  what is asked: the objective's 15 % of pieces, unless others are given

    Only rows that hold a single text are taken: whether texts of a row see each other is then no matter.
    """
    asked = PretrainSettings() if settings is None else settings
    asked = asked.with_values([f"run.evaluation_rows={rows}"])
    tokenizer = bundle.tokenizer
    specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    stream = RowStream(open_corpus(corpus).split("held-out"), specials, seq_len=seq_len)
    evaluator = Evaluator(
        _SingleTexts(stream),  # type: ignore[arg-type]
        asked,
        mask_id=tokenizer.mask_id,
        vocab_size=tokenizer.vocab_size,
        device=torch.device("cpu"),
    )
    return evaluator.score(bundle.model, torch.float32)


class _SingleTexts:
    """The rows of one epoch that hold a single text."""

    def __init__(self, stream: RowStream) -> None:
        self._stream = stream

    def next_batch(self, count: int) -> PretrainBatch:
        """Return at most so many of them."""
        batch = self._stream.next_batch(self._stream.rows_in_epoch())
        single = (batch.sequence_ids.max(axis=1) == 0).nonzero()[0][:count]
        return batch.take(single)  # type: ignore[arg-type]
