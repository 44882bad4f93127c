"""Passages: no character lost, none over the limit, sentences whole where they fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data.corpus.sentences import sentence_starts
from anaume.search.passages import cut_documents
from anaume.tokenization import Tokenizer, TokenizerRules
from helpers import SPECIALS, make_tokenizer
from tiny_bundles import tiny_tokenizer

ENGLISH = tiny_tokenizer()
CHARACTERS = Tokenizer([*SPECIALS, *"猫はいる。、サバ東京abc"], TokenizerRules(subwords="character"))


def cut(text: str, room: int, overlap: int = 0, tokenizer: Tokenizer = ENGLISH) -> list[tuple[int, int]]:
    (spans,) = cut_documents([text], tokenizer, room, overlap)
    return spans


def check(text: str, spans: list[tuple[int, int]], room: int, tokenizer: Tokenizer = ENGLISH) -> None:
    """What holds of any document."""
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    for (start, end), (following, further) in pairwise(spans):
        assert start < following <= end < further  # no gap, and no passage within another
    for encoding in tokenizer.encode_batch([text[start:end] for start, end in spans]):
        assert encoding.pieces <= room


def test_a_short_text_is_one_passage() -> None:
    assert cut("the dog is cute .", 5) == [(0, 17)]
    assert cut("", 5) == [(0, 0)]


def test_sentences_stay_whole_and_the_last_one_is_repeated_where_it_fits() -> None:
    sentences = ["The dog is cute. ", "The cat was open. ", "A bank is closed. ", "The river is wet."]
    text = "".join(sentences)
    assert [text[start:end] for start, end in cut(text, 10)] == ["".join(sentences[:2]), "".join(sentences[2:])]
    repeated = [text[start:end] for start, end in cut(text, 10, overlap=5)]
    assert repeated == [one + other for one, other in pairwise(sentences)]


def test_a_sentence_over_the_limit_is_cut_between_words_with_its_last_words_repeated() -> None:
    text = "dog cat bank river " * 6
    spans = cut(text, 5, overlap=2)
    check(text, spans, 5)
    assert [text[start:end].split()[0] for start, end in spans[:3]] == ["dog", "river", "bank"]


def test_japanese_without_blanks_is_cut_at_its_marks_or_else_at_the_limit() -> None:
    text = "猫はいる。" * 1200  # 6,000 characters, no blank
    spans = cut(text, 126, 20, CHARACTERS)
    check(text, spans, 126, CHARACTERS)
    assert all(text[:end].endswith("。") for _, end in spans)
    markless = "猫はいる" * 1500
    spans = cut(markless, 126, 20, CHARACTERS)
    check(markless, spans, 126, CHARACTERS)
    assert spans[:2] == [(0, 125), (105, 229)]  # at the limit, but between words


def test_a_run_of_katakana_that_is_one_word_stays_one_passage() -> None:
    assert cut("サ" * 150, 20, 5, make_tokenizer("a b")) == [(0, 150)]  # one [UNK], over the limit of a word


def test_a_line_end_starts_a_sentence() -> None:
    assert sentence_starts("Title\n\n the dog is\ncute. A cat.") == [0, 8, 19, 25]


def test_a_character_of_several_pieces_is_never_halved() -> None:
    tokenizer = Tokenizer([*SPECIALS, *"株式会社猫"], TokenizerRules(subwords="character", nfkc=True))
    text = "㍿猫" * 30  # ㍿ is four pieces
    spans = cut(text, 6, 2, tokenizer)
    check(text, spans, 6, tokenizer)
    assert cut("㍿㍿", 3, 0, tokenizer) == [(0, 1), (1, 2)]  # longer than a passage: still whole


@settings(max_examples=60)
@given(
    st.text(st.sampled_from("the dog cat .?!\n\u3000。猫はサバ㍿'\"「」a\u0301\x1c\u200b"), max_size=200),
    st.integers(1, 12),
    st.integers(0, 11),
)
def test_any_text_is_covered_and_no_passage_is_over_the_limit(text: str, room: int, overlap: int) -> None:
    if overlap >= room:
        overlap = room - 1
    for tokenizer in (ENGLISH, CHARACTERS):
        check(text, cut(text, room, overlap, tokenizer), room, tokenizer)


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_sentence_starts_are_within_the_text(text: str) -> None:
    starts = sentence_starts(text)
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert all(0 <= start <= len(text) for start in starts)


@pytest.mark.parametrize("words", [1, 7, 50])
def test_documents_of_one_call_do_not_touch_each_other(words: int) -> None:
    texts = ["dog cat " * words, "a", "", "river . " * words]
    assert cut_documents(texts, ENGLISH, 6, 2) == [cut(text, 6, 2) for text in texts]
