"""The self-check says in a sentence what a vocabulary will lose."""

from dataclasses import FrozenInstanceError

import pytest

from anaume.tokenization import Tokenizer
from anaume.tokenization.selfcheck import COMMON_KANJI
from helpers import make_tokenizer, public_data

KANA = ["バ", "ハ", "ス", "##ス", "バス", "ハス"]


def test_the_kanji_are_a_hundred_or_so_and_all_different():
    assert 95 <= len(COMMON_KANJI) == len(set(COMMON_KANJI)) <= 110


def test_voicing_lost():
    """JA-01: バス and ハス become one word when accents are stripped."""
    check = make_tokenizer(KANA + list(COMMON_KANJI)).self_check
    assert check.voicing_kept is False
    assert "strip_accents=False" in check.warnings[0]
    kept = make_tokenizer(KANA + list(COMMON_KANJI), strip_accents=False).self_check
    assert kept.voicing_kept is True
    assert kept.findings == ()


def test_kana_that_cant_be_spelt():
    check = make_tokenizer("a b").self_check
    assert check.voicing_kept is None
    assert check.unknown_kanji == 1.0
    assert check.warnings == ()  # an English vocabulary is no fault
    assert "not a Japanese vocabulary" in check.findings[-1].sentence


def test_some_kanji_unknown():
    check = make_tokenizer(KANA + list(COMMON_KANJI[10:]), lower_case=False).self_check
    assert 0.05 < check.unknown_kanji < 0.12
    assert "common kanji are unknown" in check.warnings[0]


def test_a_cased_vocabulary_under_lower_casing():
    names = [f"Name{letter}" for letter in "abcdefghijkl"]
    assert "set lower_case=False" in make_tokenizer(names).self_check.warnings[0]
    assert make_tokenizer(names, lower_case=False).self_check.warnings == ()


def test_an_uncased_vocabulary_without_lower_casing():
    words = [a + b for a in "abcdefghijkl" for b in "abcdefghijkl"]
    assert "set lower_case=True" in make_tokenizer(words, lower_case=False).self_check.warnings[0]
    assert make_tokenizer(words).self_check.warnings == ()


def test_it_is_computed_once_and_frozen():
    tokenizer = make_tokenizer("a")
    assert tokenizer.self_check is tokenizer.self_check
    with pytest.raises(FrozenInstanceError):
        tokenizer.self_check.findings = ()


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "rules", "words"),
    [
        ("bert-base-uncased-vocab.txt", {}, []),
        ("bert-base-uncased-vocab.txt", {"lower_case": False}, ["lower_case=True"]),
        ("bert-base-cased-vocab.txt", {"lower_case": False}, []),
        ("bert-base-cased-vocab.txt", {}, ["lower_case=False"]),
        ("bert-base-japanese-v3/vocab.txt", {"words": "mecab"}, []),
        ("bert-base-japanese-v3/vocab.txt", {}, ["strip_accents=False", "lower_case=False"]),
    ],
    ids=str,
)
def test_published_vocabularies(name, rules, words):
    warnings = Tokenizer.from_vocab(public_data(f"vocab/{name}"), **rules).self_check.warnings
    assert len(warnings) == len(words)
    assert all(word in sentence for word, sentence in zip(words, warnings, strict=True))
