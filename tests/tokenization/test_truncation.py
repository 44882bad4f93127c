"""Truncation is done on pieces and always shows in the coverage."""

import pytest

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization import Coverage
from anaume.tokenization.truncation import kept_counts
from helpers import make_tokenizer


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        ((25, 300), (25, 100)),
        ((300, 25), (100, 25)),
        ((300, 300), (63, 62)),
        ((299, 300), (63, 62)),
        ((300, 299), (63, 62)),
        ((62, 300), (62, 63)),
        ((63, 300), (63, 62)),
        ((0, 300), (0, 125)),
        ((300, 0), (125, 0)),
        ((100, 25), (100, 25)),
    ],
)
def test_longest_first(counts, kept):
    """LIM-03: the longer text gives first; of two equally long ones the second does."""
    assert kept_counts(counts, 125, "longest-first") == kept
    assert kept_counts(counts, 125, "longest-first") == one_by_one(counts, 125)


def one_by_one(counts, budget):
    """The rule as the papers' code states it: take a piece from the longer text until both fit."""
    first, second = counts
    while first + second > budget:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_longest_first_for_all_small_counts():
    for first in range(9):
        for second in range(9):
            for budget in range(12):
                assert kept_counts((first, second), budget, "longest-first") == one_by_one((first, second), budget)


def test_one_side_only():
    """LIM-03: a clear error, never an over-long or negative result."""
    assert kept_counts((25, 300), 125, "only-second") == (25, 100)
    assert kept_counts((300, 25), 125, "only-first") == (100, 25)
    assert kept_counts((125, 9), 125, "only-second") == (125, 0)
    with pytest.raises(TokenizerError, match="the first text alone has 130 pieces and only 125 fit"):
        kept_counts((130, 1), 125, "only-second")
    with pytest.raises(TokenizerError, match="the second text alone has 130 pieces"):
        kept_counts((1, 130), 125, "only-first")
    with pytest.raises(SettingsError, match="needs a pair"):
        kept_counts((130,), 125, "only-second")


@pytest.mark.parametrize("truncation", ["longest-first", "only-first"])
def test_one_text(truncation):
    """LIM-02: what was cut is reported: pieces, characters, share."""
    tokenizer = make_tokenizer("a b c ##b")
    encoding = tokenizer.encode("ab c  a", max_length=5, truncation=truncation)
    assert encoding.tokens == ["[CLS]", "a", "##b", "c", "[SEP]"]
    assert encoding.offsets == [(0, 0), (0, 1), (1, 2), (3, 4), (0, 0)]
    assert encoding.coverage == (Coverage(kept=3, total=4, start=0, end=6),)
    assert encoding.coverage[0].share == 0.75
    assert encoding.truncated
    assert not tokenizer.encode("ab c  a", max_length=6, truncation=truncation).truncated


def test_two_texts_that_share_their_head_have_equal_ids_and_another_coverage():
    """LIM-02: filler, and filler with a tail the model never sees."""
    tokenizer = make_tokenizer("filler zebra unicorn")
    short = "filler " * 600
    head, whole = tokenizer.encode_batch([short, short + "zebra unicorn"], max_length=128)
    assert head.token_ids == whole.token_ids
    assert (head.coverage[0].total, whole.coverage[0].total) == (600, 602)
    assert sum(encoding.truncated for encoding in (head, whole)) == 2


def test_a_pair_keeps_its_layout():
    """LIM-03"""
    encoding = make_tokenizer("a b").encode("a " * 300, "b " * 300, max_length=128)
    assert encoding.tokens == ["[CLS]"] + ["a"] * 63 + ["[SEP]"] + ["b"] * 62 + ["[SEP]"]
    assert encoding.segment_ids == [0] * 65 + [1] * 63
    assert encoding.special_mask == [True] + [False] * 63 + [True] + [False] * 62 + [True]
    assert [coverage.kept for coverage in encoding.coverage] == [63, 62]
    assert len(encoding) == 128


def test_everything_cut_but_the_special_tokens():
    tokenizer = make_tokenizer("a b")
    encoding = tokenizer.encode("a b", max_length=2)
    assert encoding.token_ids == [2, 3]
    assert encoding.coverage == (Coverage(0, 2, 0, 0),)
    assert encoding.coverage[0].share == 0.0
    assert tokenizer.encode("a", "b", max_length=3).token_ids == [2, 3, 3]


def test_error_on_too_long():
    tokenizer = make_tokenizer("a b")
    assert tokenizer.encode("a b", max_length=4, truncation="error").pieces == 2
    with pytest.raises(TokenizerError, match=r"has 2 \+ 1 pieces and only 2 fit"):
        tokenizer.encode("a b", "a", max_length=5, truncation="error")


@pytest.mark.parametrize("max_length", [1, 0, -5, 2.5, True])
def test_a_maximum_without_room_for_the_special_tokens(max_length):
    with pytest.raises(SettingsError, match="from 2"):
        make_tokenizer("a").encode("a", max_length=max_length)


def test_wrong_arguments():
    tokenizer = make_tokenizer("a")
    with pytest.raises(SettingsError, match="from 3"):
        tokenizer.encode("a", "a", max_length=2)
    with pytest.raises(SettingsError, match="truncation must be one of"):
        tokenizer.encode("a", truncation="longest_first")
