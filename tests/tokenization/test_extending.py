"""More entries behind the old ones: what is chosen, what it changes, and what stays bit for bit."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization import Tokenizer, VocabularyExtension, extend_tokenizer, vocabulary_report
from helpers import SPECIALS, make_tokenizer

ENGLISH = ["token tokens tokenizer", "the tokenizer tokenized the tokens", "unheard of, unheard of", "zap"]
LETTERS = "a b c d e h i k n o r s t u z f p , ##a ##b ##c ##d ##e ##h ##i ##k ##n ##o ##r ##s ##t ##u ##z ##f ##p"


def learned(extension: VocabularyExtension) -> list[str]:
    return [entry.token for entry in extension.entries if not entry.given]


def spell(entry: Any, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.vocab[piece] for piece in entry.old_pieces]


def test_words_are_ranked_by_the_pieces_they_save_then_by_spelling() -> None:
    tokenizer = make_tokenizer(f"{LETTERS} token the")
    extension = extend_tokenizer(tokenizer, ENGLISH, add=9)
    # unheard 2 x 6, tokenizer 2 x 4, then two that save 2 (of 2 x 1, tokens 2 x 1); tokenized and zap stand once
    assert learned(extension) == ["unheard", "tokenizer", "of", "tokens"]
    assert extension.asked == 9
    assert [entry.token_id for entry in extension.entries] == list(
        range(tokenizer.vocab_size, tokenizer.vocab_size + 4)
    )
    assert extension.tokenizer.vocab[: tokenizer.vocab_size] == tokenizer.vocab
    assert extension.tokenizer.rules == tokenizer.rules
    assert spell(extension.entries[1], tokenizer) == ["token", "##i", "##z", "##e", "##r"]
    assert [entry.count for entry in extension.entries] == [2, 2, 2, 2]
    assert learned(extend_tokenizer(tokenizer, ENGLISH, add=2)) == ["unheard", "tokenizer"]
    assert "zap" in learned(extend_tokenizer(tokenizer, ENGLISH, add=9, min_frequency=1))


def test_the_order_of_the_texts_changes_nothing() -> None:
    tokenizer = make_tokenizer(f"{LETTERS} token the")
    texts = ENGLISH * 3
    first = extend_tokenizer(tokenizer, texts, add=4)
    random.Random(0).shuffle(texts)
    again = extend_tokenizer(tokenizer, iter(texts), add=4)
    assert again.tokenizer.fingerprint == first.tokenizer.fingerprint
    assert (again.before, again.after) == (first.before, first.after)
    assert again.sha256 != first.sha256


@pytest.mark.parametrize(
    "rules",
    [{}, {"lower_case": False}, {"words": "mecab"}, {"words": "mecab", "subwords": "character"}],
    ids=str,
)
def test_before_and_after_are_what_the_tokenizers_measure_on_the_texts(rules: dict[str, Any]) -> None:
    if rules.get("words") == "mecab":
        pytest.importorskip("fugashi")
    texts = [*ENGLISH, "銀行の前でバスを待つ。", "銀行の銀行員", "Token TOKEN", ""]
    tokenizer = make_tokenizer(f"{LETTERS} token 銀 ##行 ##員 の", **rules)
    extension = extend_tokenizer(tokenizer, texts, add=6, words=["ス"])
    for fit, measured in ((extension.before, tokenizer), (extension.after, extension.tokenizer)):
        report = vocabulary_report(measured, texts)
        assert (fit.words, fit.pieces, fit.unknown) == (report.words, report.pieces, report.unknown)
        assert fit.pieces_per_word == report.pieces_per_word
        assert fit.unknown_share == report.unknown_share
    assert extension.texts == len(texts)
    counted = [encoding.token_ids for encoding in extension.tokenizer.encode_batch(texts)]
    for entry in extension.entries:
        assert entry.count == sum(ids.count(entry.token_id) for ids in counted)


def test_an_unknown_word_saves_its_characters_and_has_no_old_pieces() -> None:
    tokenizer = make_tokenizer(f"{LETTERS} the")
    extension = extend_tokenizer(tokenizer, ["qqq 🙂 the at at", "🙂 qqq"], add=3)
    assert learned(extension) == ["qqq", "at", "🙂"]
    assert [entry.old_pieces == () for entry in extension.entries] == [True, False, True]
    assert extension.before.unknown == 4
    assert extension.after.unknown == 0


def test_unknown_characters_are_learned_where_pieces_are_characters() -> None:
    pytest.importorskip("fugashi")
    tokenizer = make_tokenizer("猫 が", words="mecab", subwords="character")
    extension = extend_tokenizer(tokenizer, ["子猫が子犬と犬が", "\u2028\u2028", "犬猫"], add=9)
    assert learned(extension) == ["犬", "子"]
    assert extension.before.unknown - extension.after.unknown == 5


def test_nothing_unfit_is_learned() -> None:
    """No special token, no "##" start, no blank, no word that is [UNK] by its length, nothing unreadable."""
    pytest.importorskip("fugashi")
    text = f"[MASK] [PAD] ##x ## \u200b\u200b \ufffd\ufffd {'あ' * 200} {'w' * 200} ok"
    for rules in ({}, {"words": "mecab"}):
        extension = extend_tokenizer(make_tokenizer("a", **rules), [text] * 3, add=99)
        for token in learned(extension):
            assert token.isprintable()
            assert len(token) <= 100
            assert "\ufffd" not in token
            assert not token.startswith("##")
            assert token not in SPECIALS
            assert extension.tokenizer.encode(text).tokens.count(token) > 0


def test_runs_of_marks_are_no_words_but_one_mark_may_be_learned() -> None:
    tokenizer = make_tokenizer(LETTERS)
    assert learned(extend_tokenizer(tokenizer, ["→→→ ☺ a→b c1"] * 2, add=9)) == ["a→b", "c1", "☺"]
    assert [entry.token for entry in extend_tokenizer(tokenizer, words=["→→→"]).entries] == ["→→→"]


def test_protected_strings_stay_what_they_are() -> None:
    tokenizer = make_tokenizer(f"{LETTERS} [NAME]", protected=["[NAME]"])
    extension = extend_tokenizer(tokenizer, ["[NAME]s and [NAME]", "and"], add=5)
    assert learned(extension) == ["and"]
    assert extension.tokenizer.encode("[NAME] and").tokens[1:-1] == ["[NAME]", "and"]


def test_what_would_make_a_known_word_unknown_is_not_learned() -> None:
    """As "ab" before "cd": there is "##bcd", but no "##cd" and no "##c"."""
    tokenizer = make_tokenizer("a ##b ##bcd e ##f")
    texts = ["ab ab ab", "ef ef", "abcd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extension = extend_tokenizer(tokenizer, texts, add=2)
    assert learned(extension) == ["ef"]
    assert extension.lost == ()

    with pytest.warns(AnaumeWarning, match=r"1 words of the texts were known and are \[UNK\] now \(abcd\)"):
        extension = extend_tokenizer(tokenizer, texts, words=["ab"])
    assert extension.lost == ("abcd",)
    assert (extension.before.unknown, extension.after.unknown) == (0, 1)


def test_given_words_come_first_and_are_not_learned_again() -> None:
    tokenizer = make_tokenizer(f"{LETTERS} token the")
    extension = extend_tokenizer(tokenizer, ENGLISH, add=1, words=["Unheard", "the", "never"])
    assert [(entry.token, entry.given, entry.count) for entry in extension.entries] == [
        ("unheard", True, 2),
        ("never", True, 0),
        ("tokenizer", False, 2),
    ]
    assert extension.given.already == 1


def test_given_words_need_no_text() -> None:
    extension = extend_tokenizer(make_tokenizer(LETTERS), words=["hat"])
    assert extension.before.pieces_per_word is None
    assert extension.before.unknown_share is None
    assert [entry.token for entry in extension.entries] == ["hat"]


def test_given_words_that_cannot_be_entries_are_told_by_number() -> None:
    with pytest.warns(AnaumeWarning, match=r"1 of 2 given words can't be entries and were left out.* 2 'new york' \("):
        extension = extend_tokenizer(make_tokenizer(LETTERS), words=["hat", "new york"])
    assert len(extension.entries) == 1


WORDS = st.text("abc", min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.builds("{}{}".format, st.sampled_from(["", "##"]), st.text("abc", min_size=1, max_size=3)), unique=True
    ),
    st.lists(WORDS, min_size=1, max_size=12),
    st.lists(WORDS, max_size=2),
    st.lists(WORDS, max_size=8),
)
def test_a_text_in_which_no_word_begins_with_a_new_entry_keeps_its_ids(
    entries: list[str], text: Sequence[str], wanted: list[str], other: Sequence[str]
) -> None:
    tokenizer = make_tokenizer(entries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        try:
            extension = extend_tokenizer(tokenizer, [" ".join(text)], add=2, words=wanted, min_frequency=1)
        except DataError:
            return
    new = tuple(entry.token for entry in extension.entries)
    for word in (*text, *other):
        before, after = tokenizer.encode(word).token_ids, extension.tokenizer.encode(word).token_ids
        if not word.startswith(new):
            assert after == before
        elif word in new:
            assert after[1:-1] == [extension.tokenizer.token_to_id(word)]
    if not extension.given.tokens:
        assert extension.lost == ()
        assert extension.after.unknown <= extension.before.unknown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "what shall be added"),
        ({"add": -1}, "add must be a whole number from 0; got -1"),
        ({"add": 1.5}, "add must be a whole number"),
        ({"add": 1, "min_frequency": 0}, "min_frequency must be a whole number from 1"),
        ({"words": "hat"}, "words must be a list of words; got str"),
        ({"words": [1]}, "number 1 is int"),
        ({"texts": "the hat", "add": 1}, "a list of texts was expected; got str"),
        ({"texts": None, "add": 1}, "got NoneType"),
        ({"texts": ["a", 2], "add": 1}, "item 1 is int"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        extend_tokenizer(make_tokenizer(LETTERS), **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"add": 1}, "no words to learn from: 0 texts came"),
        ({"add": 1, "texts": ["", " "]}, "2 texts came, all empty"),
        ({"add": 1, "texts": ["a hat"]}, "no word stands 2 times in the texts .*the commonest 1"),
        ({"add": 1, "texts": ["a a"]}, "nothing to add: every word that stands 2 times or more"),
        ({"words": ["a", ""]}, "of 2 given words 1 are entries already, 1 are blank, 0 can't be entries"),
    ],
)
def test_nothing_to_add_is_an_error(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        extend_tokenizer(make_tokenizer(LETTERS), **arguments)


def test_only_refused_words_say_why() -> None:
    with (
        pytest.warns(AnaumeWarning, match="can't be entries"),
        pytest.raises(DataError, match=r"1 can't be entries: 1 'new york' \(the rules make 2 words of it"),
    ):
        extend_tokenizer(make_tokenizer(LETTERS), words=["new york"])
