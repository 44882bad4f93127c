"""Words and the pieces they are read from, by their characters in the original text.

A word is read from its first piece, as the paper does (section 5.3). A piece belongs to the first word it overlaps. One
that reaches over a word's end (東京, where the file has the words 東 and 京) leaves the next words without a piece of
their own: they go with the word it belongs to. A word that no piece overlaps (a control character) is never seen; it
gets a tag all the same.

A long text is cut into overlapping windows, and each word is read where it has the most pieces on its shorter side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anaume.tokenization.windows import window_spans

Numbers = npt.NDArray[np.int64]

SHARED = 4
"""Neighbouring windows share 1 / SHARED of their pieces; at 2 or more, only neighbours do."""


def read_from(pieces: Sequence[tuple[int, int]], words: Sequence[tuple[int, int]]) -> tuple[Numbers, Numbers]:
    """Return for each word the piece it is read from, -1 = none, and the piece behind its last one, both (words,).

    pieces, words  character spans [start, end), in order; words that go with another have its numbers
    """
    first, stop = np.full(len(words), -1), np.full(len(words), -1)
    spans, bounds = np.array(pieces).reshape(-1, 2), np.array(words).reshape(-1, 2)
    held = np.flatnonzero(bounds[:, 1] > bounds[:, 0])
    begins, ends = bounds[held].T
    # The first word that ends behind the piece's beginning, if it begins before the piece's end.
    owner = np.searchsorted(ends, spans[:, 0], side="right")
    reached = np.append(begins, np.iinfo(np.int64).max)[owner] < spans[:, 1]
    owned = np.flatnonzero(reached & (spans[:, 1] > spans[:, 0]))
    if not len(owned):
        return first, stop
    own, starts, counts = np.unique(owner[owned], return_index=True, return_counts=True)
    first[held[own]] = owned[starts]
    stop[held[own]] = owned[starts + counts - 1] + 1
    for word in np.flatnonzero(first[held] < 0):
        over = owned[(spans[owned, 0] < ends[word]) & (spans[owned, 1] > begins[word])]
        if len(over):
            first[held[word]], stop[held[word]] = (numbers[held[owner[over[0]]]] for numbers in (first, stop))
    return first, stop


def windows_of(count: int, max_length: int) -> list[tuple[int, int]]:
    """Return the windows [start, stop) over so many pieces, for rows of at most `max_length` with [CLS] and [SEP]."""
    room = max_length - 2
    return window_spans(count, room, max(0, room // SHARED))


def best_windows(first: Numbers, stop: Numbers, windows: Sequence[tuple[int, int]]) -> Numbers:
    """Return the window each word is read in, (words,): of those that hold its first piece, the one that holds most.

    Most is counted on the shorter side: pieces before the word, or behind its last piece; below 0 it is cut.
    """
    starts, stops = np.array(windows).T
    later = np.searchsorted(starts, first, side="right") - 1
    earlier = np.maximum(later - 1, 0)
    before, after = (np.minimum(first - starts[choice], stops[choice] - stop) for choice in (earlier, later))
    return np.where((stops[earlier] > first) & (before >= after), earlier, later)
