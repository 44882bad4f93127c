"""Which tokens stand in which row: documents packed into full rows, or sentence pairs; nothing is copied yet.

A plan covers one block of documents of a shard. It is a pure function of its arguments and its random generator, so a
run that resumes makes the same plan again instead of storing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.shards import Shard

Pairing = Literal["none", "nsp", "sop"]
PAIRINGS: tuple[Pairing, ...] = ("none", "nsp", "sop")

FOLLOWS, RANDOM = 0, 1
"""Labels of the second segment, as in the published code (for sop: 0 = in order, 1 = swapped)."""
NO_PAIR = -100

SHORT_SHARE = 0.1
"""Share of pairs made shorter than the row on purpose, as published: fine-tuning sees short texts too."""


@dataclass(frozen=True)
class RowPlan:
    """Rows of one block, as spans of shards' tokens.

    Row i holds parts[row_starts[i]:row_starts[i + 1]]. A part is (shard, start, stop, segment): tokens [start, stop) of
    that shard; segment 0 begins a new text, [CLS] A [SEP], segment 1 goes on with B [SEP].
    """

    parts: NDArray[np.int64]
    """(parts, 4)"""
    row_starts: NDArray[np.int64]
    """(rows + 1,)"""
    labels: NDArray[np.int64]
    """(rows,): `FOLLOWS`, `RANDOM`, or `NO_PAIR`."""

    def __len__(self) -> int:
        return len(self.labels)

    def shuffled(self, generator: np.random.Generator) -> RowPlan:
        """Return the same rows in another order."""
        order = generator.permutation(len(self))
        sizes = np.diff(self.row_starts)[order]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        where = np.repeat(self.row_starts[order] - starts[:-1], sizes) + np.arange(starts[-1])
        return RowPlan(self.parts[where], starts, self.labels[order])


def pack_documents(shards: Sequence[Shard], shard: int, documents: range, seq_len: int) -> RowPlan:
    """Fill rows of `seq_len` with documents: long ones are cut into full rows, the ends share rows by best fit.

    Each text costs two more places, [CLS] and [SEP]. Every token of the block is in exactly one row.
    """
    room = seq_len - 2
    there = shards[shard]
    bounds = there.sentence_starts[there.document_starts[documents.start : documents.stop + 1]]
    begins, ends = bounds[:-1], bounds[1:]
    counts = (ends - begins) // room
    full_document = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(full_document)) - np.repeat(np.cumsum(counts) - counts, counts)
    full_starts = begins[full_document] + place * room
    rows: list[list[tuple[int, int]]] = [[(start, start + room)] for start in full_starts.tolist()]

    rest_starts = begins + counts * room
    lengths = ends - rest_starts
    open_rows: list[list[int]] = [[] for _ in range(seq_len + 1)]  # free places -> rows
    for index in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[index])
        if length == 0:
            continue
        need = length + 2
        free = next((size for size in range(need, seq_len) if open_rows[size]), None)
        if free is None:
            rows.append([])
            row, free = len(rows) - 1, seq_len
        else:
            row = open_rows[free].pop()
        rows[row].append((int(rest_starts[index]), int(ends[index])))
        open_rows[free - need].append(row)
    flat = [(shard, start, stop, 0) for row_parts in rows for start, stop in row_parts]
    return _plan(flat, [len(row_parts) for row_parts in rows], [NO_PAIR] * len(rows))


def pair_sentences(
    shards: Sequence[Shard],
    shard: int,
    documents: range,
    seq_len: int,
    pairing: Pairing,
    generator: np.random.Generator,
) -> RowPlan:
    """Make pairs [CLS] A [SEP] B [SEP] as published (section 3.1, task 2; google-research/bert).

    Sentences of a document are gathered up to the target length and split into A and what follows. "nsp": half of
    the time B is replaced by sentences of another document and what followed is used again; "sop": half of the time
    A and B change places. Where a chunk has one sentence B must be random; the next free choice then goes the other
    way, so that labels stay at one half wherever the text allows it. Longer pairs lose tokens from the longer side,
    front or back at random.

    shards     all of the split, which holds at least two documents under "nsp"
    shard      the one whose `documents` are paired
    """
    parts: list[tuple[int, int, int, int]] = []
    labels: list[int] = []
    owed = 0  # forced random pairs not yet balanced by a true one
    for document in documents:
        for chunk in _chunks(shards[shard], document, seq_len, pairing, generator):
            first, second, label = (shard, chunk.start, chunk.middle), (shard, chunk.middle, chunk.stop), FOLLOWS
            if pairing == "sop":
                if generator.random() < 0.5:
                    first, second, label = second, first, RANDOM
            elif chunk.forced:
                owed += 1
                label = RANDOM
            elif owed:
                owed -= 1
            elif generator.random() < 0.5:
                label = RANDOM
            if pairing == "nsp" and label == RANDOM:
                second = _random_segment(
                    shards, shard, document, chunk.target - (chunk.middle - chunk.start), generator
                )
                chunk.replaced = True
            first, second = _trimmed(first, second, seq_len - 3, generator)
            parts += [(*first, 0), (*second, 1)]
            labels.append(label)
    return _plan(parts, [2] * len(labels), labels)


@dataclass
class _Chunk:
    """Sentences in a row: A = tokens [start, middle), what follows it = [middle, stop)."""

    start: int
    middle: int
    stop: int
    target: int
    """Tokens the pair should have."""
    forced: bool
    """One sentence: nothing follows, B must come from elsewhere."""
    replaced: bool = False
    """Set by the user: what follows was not used, and begins the next chunk."""


def _chunks(
    shard: Shard, document: int, seq_len: int, pairing: Pairing, generator: np.random.Generator
) -> Iterator[_Chunk]:
    """Cut a document into chunks of about the target length, whole sentences each."""
    first, last = (int(bound) for bound in shard.document_starts[document : document + 2])
    bounds = shard.sentence_starts[first : last + 1].tolist()
    count = last - first
    begin = 0
    while begin < count:
        target = seq_len - 3
        if generator.random() < SHORT_SHARE:
            target = int(generator.integers(2, seq_len - 2))
        end = begin + 1
        while end < count and bounds[end] - bounds[begin] < target:
            end += 1
        size = end - begin
        split = begin + (int(generator.integers(1, size)) if size > 1 else 1)
        middle = bounds[split]
        if size == 1 and pairing == "sop":
            middle = (bounds[begin] + bounds[end]) // 2
        chunk = _Chunk(bounds[begin], middle, bounds[end], target, forced=size == 1)
        if middle > bounds[begin]:
            yield chunk
        begin = split if chunk.replaced else end


def _random_segment(
    shards: Sequence[Shard], shard: int, document: int, target: int, generator: np.random.Generator
) -> tuple[int, int, int]:
    """Return (shard, start, stop): sentences of another document, about `target` tokens.

    It is drawn from the same shard, which is mapped already; from the others where that holds one document only.
    """
    there, other = shard, document
    if shards[shard].documents > 1:
        other = int(generator.integers(shards[shard].documents - 1))
        other += other >= document
    else:
        numbers = np.cumsum([0 if index == shard else one.documents for index, one in enumerate(shards)])
        drawn = int(generator.integers(numbers[-1]))
        there = int(np.searchsorted(numbers, drawn, side="right"))
        other = drawn - int(numbers[there] - shards[there].documents)
    first, last = (int(bound) for bound in shards[there].document_starts[other : other + 2])
    sentence_starts = shards[there].sentence_starts
    begin = int(generator.integers(first, last))
    start = int(sentence_starts[begin])
    stops = sentence_starts[begin + 1 : last + 1]
    enough = int(np.searchsorted(stops, start + max(target, 1)))
    return there, start, int(stops[min(enough, len(stops) - 1)])


def _trimmed(
    first: tuple[int, int, int], second: tuple[int, int, int], room: int, generator: np.random.Generator
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Cut the longer side down, token by token as published, front or back at random, until both fit."""
    sizes = [first[2] - first[1], second[2] - second[1]]
    cut = [0, 0]
    excess = sum(sizes) - room
    if excess > 0:
        difference = sizes[0] - sizes[1]
        alone = min(excess, abs(difference))
        cut[0 if difference > 0 else 1] += alone
        rest = excess - alone
        cut[1] += (rest + 1) // 2  # at equal lengths the published loop takes from B first
        cut[0] += rest // 2
    trimmed = []
    for (shard, start, stop), lost in zip((first, second), cut, strict=True):
        front = int(generator.binomial(lost, 0.5)) if lost else 0
        trimmed.append((shard, start + front, stop - (lost - front)))
    return trimmed[0], trimmed[1]


def _plan(parts: list[tuple[int, int, int, int]], sizes: list[int], labels: list[int]) -> RowPlan:
    starts = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])
    return RowPlan(
        np.array(parts, dtype=np.int64).reshape(-1, 4), starts.astype(np.int64), np.array(labels, dtype=np.int64)
    )
