"""Which piece a word is read from, and in which window."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.errors import TokenizerError
from anaume.tasks.ner.pieces import best_windows, read_from, windows_of

Spans = list[tuple[int, int]]


@st.composite
def apart(draw: st.DrawFn) -> Spans:
    cuts = sorted(draw(st.lists(st.integers(0, 12), max_size=10)))
    return list(zip(cuts[::2], cuts[1::2], strict=False))


@pytest.mark.parametrize(
    ("words", "pieces", "first", "stop"),
    [
        ([(0, 4), (5, 9)], [(0, 2), (2, 4), (5, 9)], [0, 2], [2, 3]),
        ([(0, 4)], [(0, 4), (4, 5)], [0], [1]),  # the comma of 'York,' is in no word
        ([(0, 2), (2, 5)], [(0, 3), (3, 4), (4, 5)], [0, 1], [1, 3]),  # 'do' "n't" cut as 'don' "'" 't'
        ([(0, 2), (2, 3)], [(0, 3)], [0, 0], [1, 1]),  # 東京 都, one piece
        ([(0, 2), (2, 3)], [(0, 1), (1, 3)], [0, 0], [2, 2]),
        ([(0, 1), (2, 3), (4, 5)], [(0, 1), (4, 5)], [0, -1, 1], [1, -1, 2]),
        ([(0, 1)], [(0, 1), (0, 1), (0, 1)], [0], [3]),  # ㍿ = 株式会社
        ([(0, 0), (0, 2)], [(0, 2)], [-1, 0], [-1, 1]),
        ([(1, 3)], [(0, 2), (2, 3)], [0], [2]),
        ([], [(0, 1)], [], []),
        ([(0, 1)], [], [-1], [-1]),
    ],
)
def test_a_word_is_read_from_its_first_piece(words: Spans, pieces: Spans, first: list[int], stop: list[int]) -> None:
    found = read_from(pieces, words)
    assert [numbers.tolist() for numbers in found] == [first, stop]


@settings(max_examples=60)
@given(words=apart(), pieces=apart())
def test_a_word_has_a_piece_exactly_where_one_overlaps_it(words: Spans, pieces: Spans) -> None:
    first, stop = read_from(pieces, words)
    for word, (start, end) in enumerate(words):
        over = [p for p, (begin, stop_) in enumerate(pieces) if max(start, begin) < min(end, stop_)]
        assert (first[word] >= 0) == bool(over)
        if over and first[word] in over and list(first).index(first[word]) == word:
            earlier = [p for p in over if any(max(s, pieces[p][0]) < min(e, pieces[p][1]) for s, e in words[:word])]
            own = [p for p in over if p not in earlier]
            assert (own[0], own[-1] + 1) == (first[word], stop[word])
    seen = first[first >= 0]
    assert (np.diff(seen) >= 0).all()


@settings(max_examples=60)
@given(count=st.integers(0, 60), max_length=st.integers(3, 30), data=st.data())
def test_the_window_with_most_context_decides(count: int, max_length: int, data: st.DataObject) -> None:
    windows = windows_of(count, max_length)
    assert all(stop - start <= max_length - 2 for start, stop in windows)
    cuts = sorted(data.draw(st.sets(st.integers(0, count), max_size=20)))
    words = list(itertools.pairwise(cuts))
    first, stop = (np.array([word[side] for word in words], dtype=np.int64) for side in (0, 1))
    for (begin, end), chosen in zip(words, best_windows(first, stop, windows), strict=True):
        context = [
            min(begin - start, stop_ - end) if start <= begin < stop_ else -count - 1 for start, stop_ in windows
        ]
        assert context[chosen] == max(context)
        assert chosen == context.index(max(context))


def test_a_row_too_short_for_a_piece_is_refused() -> None:
    with pytest.raises(TokenizerError, match="raise max_length"):
        windows_of(3, 2)
