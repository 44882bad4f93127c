"""What the rows of a trial are made of: a corpus, or token IDs drawn by chance."""

from __future__ import annotations

import numpy as np

from anaume.data.corpus import Corpus, CorpusSplit
from anaume.data.corpus.shards import Shard
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import build_stream

_DOCUMENTS, _SENTENCES = 200, 20


class TrialText:
    """Documents and the vocabulary they are written in; rows are planned once, however many models they serve."""

    def __init__(
        self, split: CorpusSplit, specials: SpecialIds, *, mask_id: int, vocab_size: int, made_up: bool = False
    ) -> None:
        self.mask_id, self.vocab_size = mask_id, vocab_size
        self.tokens = None if made_up else split.tokens
        self._split, self._specials = split, specials
        self._streams: dict[tuple[int, str], RowStream] = {}

    @classmethod
    def of_corpus(cls, corpus: Corpus, tokenizer: Tokenizer) -> TrialText:
        """Return the training part of a corpus."""
        specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
        return cls(corpus.split("train"), specials, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size)

    @classmethod
    def made_up(cls, vocab_size: int) -> TrialText:
        """Return documents of 20 sentences of 5 to 35 token IDs drawn by chance.

        Raises SettingsError for a vocabulary of less than 16 entries.
        """
        if vocab_size < 16:
            raise SettingsError(f"a vocabulary has at least 16 entries; got {vocab_size}")
        chance = np.random.default_rng(0)
        sentence_starts = np.concatenate([[0], np.cumsum(chance.integers(5, 36, _DOCUMENTS * _SENTENCES))]).astype(
            np.int64
        )
        tokens = int(sentence_starts[-1])
        shard = Shard.in_memory(
            chance.integers(5, vocab_size, tokens, dtype=np.int32),
            (chance.random(tokens) < 0.8).astype(np.uint8),
            sentence_starts,
            np.arange(0, _DOCUMENTS * _SENTENCES + 1, _SENTENCES, dtype=np.int64),
        )
        split = CorpusSplit("train", [shard], np.zeros(vocab_size, np.int64))
        return cls(split, SpecialIds(pad=0, cls=2, sep=3), mask_id=4, vocab_size=vocab_size, made_up=True)

    def stream(self, settings: PretrainSettings, seq_len: int) -> RowStream:
        """Return the endless rows, wherever the trial before left them."""
        key = (seq_len, settings.data.pairing)
        if key not in self._streams:
            self._streams[key] = build_stream(self._split, self._specials, settings, seq_len, settings.run.seed)
        return self._streams[key]
