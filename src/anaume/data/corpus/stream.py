"""An endless stream of pretraining rows out of a corpus, with a position that is three numbers.

Documents are read in blocks; the order of blocks and the rows inside a block are drawn anew each epoch from (seed,
epoch, block). Whoever sets the position back gets the very same rows again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.plans import Pairing, RowPlan, pack_documents, pair_sentences
from anaume.data.corpus.shards import CorpusSplit, Shard
from anaume.errors import DataError, SettingsError

BLOCK_TOKENS = 2_000_000
"""Tokens that are planned at once: about a second of work, and small enough to mix well."""


@dataclass(frozen=True)
class Position:
    """Where in the stream the next row lies."""

    epoch: int = 0
    block: int = 0
    """Place in the epoch's order of blocks."""
    row: int = 0
    """Place in the block's order of rows."""


@dataclass(frozen=True)
class PretrainBatch:
    """Rows of one step; arrays are (batch, seq_len) unless said otherwise."""

    token_ids: NDArray[np.int64]
    segment_ids: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    """Restart with each text of a row."""
    sequence_ids: NDArray[np.int64]
    """Which text of the row a token belongs to; -1 = padding."""
    word_ids: NDArray[np.int64]
    """Which word of the row a token belongs to; -1 = special token or padding, and never to be masked."""
    pair_labels: NDArray[np.int64]
    """(batch,): 0 = B follows A, 1 = random, -100 = no pair."""
    rows: NDArray[np.int64]
    """(batch,): place of each row in the global batch, whichever rank or micro-batch holds it."""

    @property
    def tokens(self) -> int:
        """Real tokens, special ones included, padding apart."""
        return int((self.sequence_ids >= 0).sum())

    def take(self, where: slice) -> PretrainBatch:
        """Return some of the rows."""
        return PretrainBatch(
            self.token_ids[where],
            self.segment_ids[where],
            self.position_ids[where],
            self.sequence_ids[where],
            self.word_ids[where],
            self.pair_labels[where],
            self.rows[where],
        )


@dataclass(frozen=True)
class SpecialIds:
    """The special tokens rows are built with."""

    pad: int
    cls: int
    sep: int


class RowStream:
    """Rows of `seq_len` tokens out of a split, for ever.

    Raises SettingsError for a row too short to hold a text, DataError for a split without documents or, under "nsp",
    with a single one.
    """

    def __init__(
        self,
        split: CorpusSplit,
        specials: SpecialIds,
        *,
        seq_len: int,
        pairing: Pairing = "none",
        seed: int = 0,
        position: Position | None = None,
    ) -> None:
        if seq_len < 8:
            raise SettingsError(f"seq_len must be at least 8; got {seq_len}")
        if split.documents == 0:
            raise DataError("the corpus has no documents to train on")
        if pairing == "nsp" and split.documents < 2:
            raise DataError("next-sentence pairs need at least two documents; the corpus has one")
        self.seq_len = seq_len
        self._shards = split.shards
        self._specials = specials
        self._pairing = pairing
        self._seed = seed
        self._blocks = _blocks(split.shards)
        self.position = position or Position()
        self._planned: tuple[int, int] | None = None
        self._plan: RowPlan | None = None

    def next_batch(self, count: int, *, rank: int = 0, world: int = 1) -> PretrainBatch:
        """Move on by `count` rows and return them, or those of them that belong to one rank of many."""
        mine = range(rank, count, world)
        batch = _empty(len(mine), self.seq_len, self._specials.pad, np.arange(rank, count, world))
        row = empty = 0
        while row < count:
            plan = self._current_plan()
            empty = 0 if len(plan) else empty + 1
            if empty > 2 * len(self._blocks):  # the end of one epoch and the beginning of the next can be empty
                raise DataError("the corpus gives no rows: its documents are too short for pairs")
            at = self.position
            taken = min(count - row, len(plan) - at.row)
            for index in range(taken):
                if (row + index) % world == rank:
                    self._write(batch, (row + index) // world, plan, at.row + index)
            row += taken
            if at.row + taken < len(plan):
                self.position = Position(at.epoch, at.block, at.row + taken)
            elif at.block + 1 < len(self._blocks):
                self.position = Position(at.epoch, at.block + 1, 0)
            else:
                self.position = Position(at.epoch + 1, 0, 0)
        return batch

    def rows_in_epoch(self) -> int:
        """Return the number of rows of the present epoch (plans every block: seconds for a large corpus)."""
        order = self._order(self.position.epoch)
        return sum(len(self._make_plan(self.position.epoch, int(block))) for block in order)

    def _current_plan(self) -> RowPlan:
        key = (self.position.epoch, self.position.block)
        if self._plan is None or self._planned != key:
            block = int(self._order(key[0])[key[1]])
            self._plan, self._planned = self._make_plan(key[0], block), key
        return self._plan

    def _order(self, epoch: int) -> NDArray[np.int64]:
        order: NDArray[np.int64] = np.random.default_rng([self._seed, epoch]).permutation(len(self._blocks))
        return order

    def _make_plan(self, epoch: int, block: int) -> RowPlan:
        generator = np.random.default_rng([self._seed, epoch, block, 1])
        shard_index, documents = self._blocks[block]
        if self._pairing == "none":
            plan = pack_documents(self._shards, shard_index, documents, self.seq_len)
        else:
            plan = pair_sentences(self._shards, shard_index, documents, self.seq_len, self._pairing, generator)
        return plan.shuffled(generator)

    def _write(self, batch: PretrainBatch, row: int, plan: RowPlan, index: int) -> None:
        place, text, words = 0, -1, 0
        begin = 0  # where the present text begins in the row
        for where, start, stop, segment in plan.parts[plan.row_starts[index] : plan.row_starts[index + 1]].tolist():
            if segment == 0:
                text += 1
                begin = place
                batch.token_ids[row, place] = self._specials.cls
                place += 1
            end = place + stop - start
            shard = self._shards[where]
            batch.token_ids[row, place:end] = shard.token_ids[start:stop]
            starts = shard.word_starts[start:stop].astype(np.int64)
            starts[:1] = 1  # a text cut inside a word begins a new one
            batch.word_ids[row, place:end] = words + np.cumsum(starts) - 1
            words += int(starts.sum())
            batch.token_ids[row, end] = self._specials.sep
            first = begin if segment == 0 else place
            batch.segment_ids[row, first : end + 1] = segment
            batch.sequence_ids[row, begin : end + 1] = text
            batch.position_ids[row, begin : end + 1] = np.arange(end + 1 - begin)
            place = end + 1
        batch.pair_labels[row] = plan.labels[index]


def _blocks(shards: tuple[Shard, ...]) -> list[tuple[int, range]]:
    """Cut every shard into ranges of documents of about BLOCK_TOKENS tokens."""
    blocks = []
    for index, shard in enumerate(shards):
        ends = shard.sentence_starts[shard.document_starts[1:]]
        begin, passed = 0, 0
        while begin < len(ends):
            end = max(begin + 1, int(np.searchsorted(ends, passed + BLOCK_TOKENS, side="right")))
            blocks.append((index, range(begin, end)))
            begin, passed = end, int(ends[end - 1])
    return blocks


def _empty(count: int, seq_len: int, pad_id: int, rows: NDArray[np.int64]) -> PretrainBatch:
    def filled(value: int) -> NDArray[np.int64]:
        return np.full((count, seq_len), value, dtype=np.int64)

    labels = np.full(count, -100, dtype=np.int64)
    return PretrainBatch(filled(pad_id), filled(0), filled(0), filled(-1), filled(-1), labels, rows)
