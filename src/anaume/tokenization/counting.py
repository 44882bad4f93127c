"""Texts -> words with their counts, cut by the tokenizer's own normaliser and pre-tokenizer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from anaume.tokenization.kana import count_voiced
from anaume.tokenization.pipeline import build_normalizer, build_pre_tokenizer
from anaume.tokenization.rules import TokenizerRules

_SURROGATES = re.compile("[\ud800-\udfff]")


class WordCounter:
    """Counts words as the rules cut them; protected strings are cut out first and are no words.

    voiced is how many voiced kana came by so far.
    """

    def __init__(self, rules: TokenizerRules) -> None:
        self._normalize = build_normalizer(rules).normalize_str
        self._cut = build_pre_tokenizer(rules).pre_tokenize_str
        self._joins_anything = rules.words == "mecab"
        longest_first = sorted(rules.protected, key=len, reverse=True)
        self._protected = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self.voiced = 0

    def count(self, texts: Iterable[str]) -> tuple[Counter[str], int]:
        """Return word -> how often it stands in the texts, and the number of texts."""
        words: Counter[str] = Counter()
        number = 0
        for text in texts:
            number += 1
            words.update(self.words(text))
        return words, number

    def words(self, text: str) -> list[str]:
        """Return the words of a text, normalised, in order."""
        text = _SURROGATES.sub("\ufffd", text)
        self.voiced += count_voiced(text)
        parts = self._protected.split(text) if self._protected else (text,)
        return [word for part in parts for word, _ in self._cut(self._normalize(part))]

    def stands_alone(self, character: str) -> bool:
        """True for ideographs and punctuation under the BERT rules: never joined, so they need no "##" form."""
        if self._joins_anything:
            return False
        return [word for word, _ in self._cut(self._normalize(f"a{character}a"))] == ["a", character, "a"]
