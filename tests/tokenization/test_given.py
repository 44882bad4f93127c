"""A user's words: taken as the rules give them, or counted, or refused with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anaume.tokenization import GivenWords, Tokenizer
from anaume.tokenization.counting import WordCounter
from anaume.tokenization.given import sort_given
from helpers import make_tokenizer


def sort(tokenizer: Tokenizer, words: Sequence[str], *seen: str) -> GivenWords:
    counter = WordCounter(tokenizer.rules)
    return sort_given(words, tokenizer, counter, counter.count(seen)[0])


def test_every_word_is_taken_or_counted_once() -> None:
    words = ["Zürich", "the", "", " \t", "zurich", "new york", "ZURICH\r", "nozzle", "[MASK]", "a-b"]
    given = sort(make_tokenizer("the ##s"), words)
    assert given.tokens == ("zurich", "nozzle")
    assert (given.already, given.repeated, given.blank) == (2, 2, 2)
    assert [number for number, _, _ in given.refused] == [6, 10]
    assert len(given.tokens) + given.already + given.repeated + given.blank + len(given.refused) == len(words)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("new york", "make 2 words of it: new york"),
        ("e-mail", "make 3 words of it: e - mail"),
        ("##ology", "make 3 words of it: # # ology"),
        ("[unused7]", "make 3 words of it: [ unused7 ]"),
        ("銀行", "make 2 words of it: 銀 行"),
        ("\u00ad", "leave nothing"),
        ("abcdefghijk", "11 characters; words over 10 are always [UNK]"),
        ("my[NAME]", "protected string '[NAME]'"),
    ],
)
def test_what_no_text_could_give_is_refused(word: str, why: str) -> None:
    given = sort(make_tokenizer("the [NAME]", max_word_characters=10, protected=["[NAME]"]), ["fine", word])
    assert given.tokens == ("fine",)
    ((number, _, said),) = given.refused
    assert number == 2
    assert why in said


def test_refusals_show_a_few_and_none_at_length() -> None:
    given = sort(make_tokenizer("the"), ["x y " * 500] * 9)
    assert given.refusals().startswith("1 'x y x y")
    assert given.refusals().endswith(", ...")
    assert len(given.refusals()) < 600


def test_characters_are_entries_where_pieces_are_characters() -> None:
    pytest.importorskip("fugashi")
    given = sort(make_tokenizer("猫", words="mecab", subwords="character"), ["犬", "猫", "子犬"])
    assert (given.tokens, given.already) == (("犬",), 1)
    assert "characters" in given.refused[0][2]


def test_a_mecab_word_is_taken_alone_or_as_it_stands_in_the_texts() -> None:
    """たって is cut in two by itself and whole in the sentence."""
    pytest.importorskip("fugashi")
    tokenizer = make_tokenizer("猫", words="mecab")
    words = ["たって", "Ａ１", "##猫", "人工知能学会"]
    alone = sort(tokenizer, words)
    assert alone.tokens == ()
    within = sort(tokenizer, words, "誰が見たって猫に相違ない。")
    assert within.tokens == ("たって",)
    assert "たっ て" in alone.refused[0][2]


def test_two_words_are_not_one_because_a_text_joins_them() -> None:
    given = sort(make_tokenizer("the"), ["new york"], "newyork")
    assert given.tokens == ()
