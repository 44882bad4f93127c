"""Windows hold every piece, never too many, with offsets in the whole text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization.windows import window_spans
from helpers import make_tokenizer


@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(0, 200), st.integers(1, 40), st.data())
def test_spans_cover_everything_and_share_the_stride(count, room, data):
    stride = data.draw(st.integers(0, room - 1))
    spans = window_spans(count, room, stride)
    assert spans[0][0] == 0
    assert spans[-1][1] == count
    assert all(0 <= stop - start <= room for start, stop in spans)
    for (_, stop), (start, later) in pairwise(spans):
        assert stop - start == stride
        assert later > stop  # every window brings something new


def test_windows_of_a_text():
    tokenizer = make_tokenizer("a b c d e")
    text = "a b  c d e"
    windows = tokenizer.windows(text, max_length=5, stride=1)
    assert [" ".join(window.tokens) for window in windows] == ["[CLS] a b c [SEP]", "[CLS] c d e [SEP]"]
    assert [text[start:end] for start, end in windows[1].offsets[1:-1]] == ["c", "d", "e"]
    assert [(w.coverage[0].start, w.coverage[0].end) for w in windows] == [(0, 7), (5, 10)]
    assert all(window.coverage[0].total == 5 for window in windows)


def test_windows_with_a_question():
    tokenizer = make_tokenizer("a b c d q")
    windows = tokenizer.windows("a b c d", max_length=7, stride=0, question="q q")
    assert [" ".join(window.tokens) for window in windows] == [
        "[CLS] q q [SEP] a b [SEP]",
        "[CLS] q q [SEP] c d [SEP]",
    ]
    assert windows[1].segment_ids == [0, 0, 0, 0, 1, 1, 1]
    assert windows[1].offsets == [(0, 0), (0, 1), (2, 3), (0, 0), (4, 5), (6, 7), (0, 0)]
    assert [coverage.share for coverage in windows[1].coverage] == [1.0, 0.5]


@pytest.mark.parametrize("text", ["", "a", "a a a"])
def test_a_text_that_fits_is_one_window(text):
    tokenizer = make_tokenizer("a")
    assert tokenizer.windows(text, max_length=5, stride=2) == [tokenizer.encode(text)]


def test_no_room_is_an_error():
    tokenizer = make_tokenizer("a q")
    with pytest.raises(TokenizerError, match=r"room for 2 pieces .* 2 of them would overlap"):
        tokenizer.windows("a a a", max_length=6, stride=2, question="q")
    with pytest.raises(TokenizerError, match="room for 0 pieces"):
        tokenizer.windows("a a a", max_length=6, stride=0, question="q q q q")
    with pytest.raises(SettingsError, match="from 0; got -1"):
        tokenizer.windows("a", max_length=6, stride=-1)
    with pytest.raises(SettingsError, match="from 3"):
        tokenizer.windows("a", max_length=2, stride=0, question="q")


@pytest.mark.parametrize("rules", [{"subwords": "character"}, {"words": "mecab", "subwords": "character"}])
def test_a_page_without_blanks(rules):
    """JA-05: no window over the limit, every character in some window, offsets map back."""
    page = "吾輩は猫である。名前はまだ無い" * 400
    tokenizer = make_tokenizer(sorted(set(page)), lower_case=False, **rules)
    windows = tokenizer.windows(page, max_length=130, stride=16)
    seen = set()
    for window in windows:
        assert len(window) <= 130
        for token, (start, end) in zip(window.tokens[1:-1], window.offsets[1:-1], strict=True):
            assert page[start:end] == token
            seen.add(start)
    assert seen == set(range(len(page)))


def test_windows_without_overlap_tile_the_text_blanks_included():
    text = "  a  b   c d  "
    windows = make_tokenizer("a b c d").windows(text, max_length=4, stride=0)
    spans = [(window.coverage[0].start, window.coverage[0].end) for window in windows]
    assert "".join(text[start:end] for start, end in spans) == text


def test_a_question_is_cut_where_asked_and_the_coverage_tells():
    tokenizer = make_tokenizer("a b c d q")
    first, second = tokenizer.windows("a b c d", max_length=7, stride=0, question="q q q q", max_question=2)
    assert " ".join(first.tokens) == "[CLS] q q [SEP] a b [SEP]"
    assert second.segment_ids == [0, 0, 0, 0, 1, 1, 1]
    assert second.truncated
    assert (second.coverage[0].kept, second.coverage[0].total) == (2, 4)
    whole = tokenizer.windows("a", max_length=9, stride=0, question="q q", max_question=5)
    assert whole == [tokenizer.encode("q q", "a")]
