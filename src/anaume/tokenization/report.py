"""How well a vocabulary fits texts: pieces a word, the unknown share, characters without an id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from anaume.tokenization.encoding import Encoding
from anaume.tokenization.kana import count_voiced
from anaume.tokenization.tokenizer import Tokenizer

_BATCH = 256


class UnknownReport(NamedTuple):
    """How many pieces are unknown, of how many, and the share (0 for no pieces)."""

    unknown: int
    pieces: int
    share: float


@dataclass(frozen=True, kw_only=True)
class VocabularyReport:
    """A vocabulary measured on texts.

    pieces_per_word counts words as the rules cut them. lost_characters are those no entry can spell, most frequent
    first, with their counts. voiced_kana is how many voiced kana the rules turn into others (0 unless strip_accents).
    """

    texts: int
    words: int
    pieces: int
    pieces_per_word: float
    unknown: int
    unknown_share: float
    lost_characters: tuple[tuple[str, int], ...]
    voiced_kana: int


def unknown_report(encodings: Iterable[Encoding]) -> UnknownReport:
    """Count the unknown pieces of encodings."""
    unknown = pieces = 0
    for encoding in encodings:
        unknown += encoding.unknown
        pieces += encoding.pieces
    return UnknownReport(unknown, pieces, unknown / pieces if pieces else 0.0)


def voicing_lost(tokenizer: Tokenizer, texts: Iterable[str]) -> int:
    """Return how many voiced kana of the texts lose their mark under the tokenizer's rules; 0 when marks are kept."""
    return sum(map(count_voiced, texts)) if tokenizer.rules.strip_accents else 0


def vocabulary_report(tokenizer: Tokenizer, texts: Iterable[str]) -> VocabularyReport:
    """Measure a vocabulary on texts. Raises SettingsError for items that are not text."""
    count = words = pieces = unknown = voiced = 0
    suspects: Counter[str] = Counter()
    for batch in _batches(texts):
        count += len(batch)
        voiced += voicing_lost(tokenizer, batch)
        for text, encoding in zip(batch, tokenizer.encode_batch(batch), strict=True):
            words += len({word for word in encoding.word_ids if word is not None})
            pieces += encoding.pieces
            if missing := encoding.unknown:
                unknown += missing
                for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
                    if token == tokenizer.rules.unk_token:
                        suspects.update(text[start:end])
    return VocabularyReport(
        texts=count,
        words=words,
        pieces=pieces,
        pieces_per_word=pieces / words if words else 0.0,
        unknown=unknown,
        unknown_share=unknown / pieces if pieces else 0.0,
        lost_characters=_lost(tokenizer, suspects),
        voiced_kana=voiced,
    )


def _lost(tokenizer: Tokenizer, suspects: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Keep the characters that are unknown even alone: the others only stood in a word with one of them."""
    ranked = sorted(suspects.items(), key=lambda item: (-item[1], item[0]))
    alone = tokenizer.encode_batch([character for character, _ in ranked])
    return tuple(item for item, encoding in zip(ranked, alone, strict=True) if encoding.unknown)


def _batches(texts: Iterable[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
