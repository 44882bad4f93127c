"""Words with their counts: those the tokenizer itself sees."""

from __future__ import annotations

from typing import Any

import pytest

from anaume.tokenization import TokenizerRules
from anaume.tokenization.counting import WordCounter
from helpers import make_tokenizer

TEXTS = ["The dog's  café\u2028, DOG 銀行\ud800x", "", "[NAME] and [NAME]s, [SEP]"]


@pytest.mark.parametrize("rules", [{}, {"lower_case": False}, {"split_cjk": False}, {"words": "mecab"}], ids=str)
def test_words_are_those_of_the_pipeline(rules: dict[str, Any]) -> None:
    if rules.get("words") == "mecab":
        pytest.importorskip("fugashi")
    tokenizer = make_tokenizer("a", **rules)
    counts, texts = WordCounter(tokenizer.rules).count(TEXTS)
    assert texts == 3
    seen = sum(len(set(encoding.word_ids) - {None}) for encoding in tokenizer.encode_batch(TEXTS))
    assert counts.total() == seen


def test_protected_strings_are_no_words() -> None:
    counts, _ = WordCounter(TokenizerRules(protected=("[NAME]",))).count(["[NAME] saw [NAME]s"])
    assert counts == {"saw": 1, "s": 1}


def test_words_stay_in_order() -> None:
    assert WordCounter(TokenizerRules()).words("The dog, THE cat") == ["the", "dog", ",", "the", "cat"]
