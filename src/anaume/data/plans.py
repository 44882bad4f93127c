"""Which tokens stand in which row: documents packed into full rows, or sentence pairs; nothing is copied yet.

A plan covers one block of documents of a shard. It is a pure function of its arguments and its random generator, so a
run that resumes makes the same plan again instead of storing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anaume.data.shards import Shard

Pairing = Literal["none", "nsp", "sop"]
PAIRINGS: tuple[Pairing, ...] = ("none", "nsp", "sop")

FOLLOWS, RANDOM = 0, 1
"""Labels of the second segment, as in the published code (for sop: 0 = in order, 1 = swapped)."""
NO_PAIR = -100

SHORT_SHARE = 0.1
"""Share of pairs made shorter than the row on purpose, as published: fine-tuning sees short texts too."""


@dataclass(frozen=True)
class RowPlan:
    """Rows of one block, as spans of the shard's tokens.

    Row i holds parts[row_starts[i]:row_starts[i + 1]]. A part is (start, stop, segment): tokens [start, stop) of the
    shard; segment 0 begins a new text, [CLS] A [SEP], segment 1 goes on with B [SEP].
    """

    parts: NDArray[np.int64]
    """(parts, 3)"""
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


def pack_documents(shard: Shard, documents: range, seq_len: int) -> RowPlan:
    """Fill rows of `seq_len` with documents: long ones are cut into full rows, the ends share rows by best fit.

    Each text costs two more places, [CLS] and [SEP]. Every token of the block is in exactly one row.
    """
    room = seq_len - 2
    bounds = shard.sentence_starts[shard.document_starts[documents.start : documents.stop + 1]]
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
    flat = [(start, stop, 0) for row_parts in rows for start, stop in row_parts]
    return _plan(flat, [len(row_parts) for row_parts in rows], [NO_PAIR] * len(rows))


def pair_sentences(
    shard: Shard, documents: range, seq_len: int, pairing: Pairing, generator: np.random.Generator
) -> RowPlan:
    """Make pairs [CLS] A [SEP] B [SEP] as published (section 3.1, task 2; google-research/bert).

    Sentences of a document are gathered up to the target length and split into A and what follows. "nsp": half of
    the time B is replaced by sentences of another document and what followed is used again; "sop": half of the time
    A and B change places. Where a chunk has one sentence B must be random; the next free choice then goes the other
    way, so that labels stay at one half wherever the text allows it. Longer pairs lose tokens from the longer side,
    front or back at random.
    """
    parts: list[tuple[int, int, int]] = []
    labels: list[int] = []
    owed = 0  # forced random pairs not yet balanced by a true one
    for document in documents:
        for start, middle, stop, target, forced, replaced in _chunks(shard, document, seq_len, pairing, generator):
            first, second, label = (start, middle), (middle, stop), FOLLOWS
            if pairing == "sop":
                if generator.random() < 0.5:
                    first, second, label = second, first, RANDOM
            elif forced:
                owed += 1
                label = RANDOM
            elif owed:
                owed -= 1
            elif generator.random() < 0.5:
                label = RANDOM
            if pairing == "nsp" and label == RANDOM:
                other = _random_segment(shard, document, target - (middle - start), generator)
                if other is None:
                    continue
                second = other
                replaced.append(True)
            first, second = _trimmed(first, second, seq_len - 3, generator)
            parts += [(*first, 0), (*second, 1)]
            labels.append(label)
    return _plan(parts, [2] * len(labels), labels)


def _chunks(
    shard: Shard, document: int, seq_len: int, pairing: Pairing, generator: np.random.Generator
) -> Iterator[tuple[int, int, int, int, bool, list[bool]]]:
    """Yield (start, middle, stop, target, forced, replaced) of each chunk: A = [start, middle), B = the rest.

    The caller appends to `replaced` when B was not used: its sentences then begin the next chunk.
    """
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
        replaced: list[bool] = []
        middle = bounds[split]
        if size == 1 and pairing == "sop":
            middle = (bounds[begin] + bounds[end]) // 2
        if middle > bounds[begin]:
            yield bounds[begin], middle, bounds[end], target, size == 1, replaced
        begin = split if replaced else end


def _random_segment(shard: Shard, document: int, target: int, generator: np.random.Generator) -> tuple[int, int] | None:
    """Return sentences of another document of the shard, about `target` tokens; None when there is no other."""
    documents = len(shard.document_starts) - 1
    if documents < 2:
        return None
    other = int(generator.integers(documents - 1))
    other += other >= document
    first, last = (int(bound) for bound in shard.document_starts[other : other + 2])
    begin = int(generator.integers(first, last))
    start = int(shard.sentence_starts[begin])
    stops = shard.sentence_starts[begin + 1 : last + 1]
    enough = int(np.searchsorted(stops, start + max(target, 1)))
    return start, int(stops[min(enough, len(stops) - 1)])


def _trimmed(
    first: tuple[int, int], second: tuple[int, int], room: int, generator: np.random.Generator
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Cut the longer side down, token by token as published, front or back at random, until both fit."""
    sizes = [first[1] - first[0], second[1] - second[0]]
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
    for (start, stop), lost in zip((first, second), cut, strict=True):
        front = int(generator.binomial(lost, 0.5)) if lost else 0
        trimmed.append((start + front, stop - (lost - front)))
    return trimmed[0], trimmed[1]


def _plan(parts: list[tuple[int, int, int]], sizes: list[int], labels: list[int]) -> RowPlan:
    starts = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))])
    return RowPlan(
        np.array(parts, dtype=np.int64).reshape(-1, 3), starts.astype(np.int64), np.array(labels, dtype=np.int64)
    )
