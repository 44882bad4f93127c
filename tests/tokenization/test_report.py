"""How well a vocabulary fits texts."""

import pytest

from anaume.tokenization import unknown_report, vocabulary_report, voicing_lost
from helpers import make_tokenizer


def test_vocabulary_report():
    tokenizer = make_tokenizer("a b ##b")
    report = vocabulary_report(tokenizer, ["abb a", "axb q", ""])
    assert (report.texts, report.words, report.pieces, report.unknown) == (3, 4, 6, 2)
    assert report.pieces_per_word == pytest.approx(1.5)
    assert report.unknown_share == pytest.approx(1 / 3)
    assert report.lost_characters == (("q", 1), ("x", 1))  # the a and b around x are not lost


def test_lost_characters_by_frequency():
    """VOC-04: which characters, not only how many."""
    report = vocabulary_report(make_tokenizer("a", lower_case=False), ["吾輩 吾", "a"] * 200)
    assert report.lost_characters == (("吾", 400), ("輩", 200))


def test_no_texts():
    report = vocabulary_report(make_tokenizer("a"), [])
    assert (report.texts, report.pieces_per_word, report.unknown_share, report.lost_characters) == (0, 0.0, 0.0, ())
    assert unknown_report([]) == (0, 0, 0.0)


def test_unknown_report():
    """JA-05: 150 katakana in one run are one unknown piece of one."""
    tokenizer = make_tokenizer(["ア", "##ア", "a"], strip_accents=False)
    report = unknown_report(tokenizer.encode_batch(["ア" * 150, "a a a"]))
    assert (report.unknown, report.pieces, report.share) == (1, 4, 0.25)


def test_voicing_lost():
    """JA-01"""
    texts = ["サバ", "ｻﾊﾞ", "は\u3099", "abc"]
    assert voicing_lost(make_tokenizer("a"), texts) == 2  # the half-width mark is a letter and stays
    assert voicing_lost(make_tokenizer("a", strip_accents=False), texts) == 0
    assert vocabulary_report(make_tokenizer("a"), texts).voiced_kana == 2
