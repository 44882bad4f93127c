"""Long documents -> passages: whole sentences up to a number of tokens, neighbours overlapping, nothing left out.

A passage is a span of characters of the original document, `text[start:end]`. The spans of a document begin at 0, end
at its end and leave no gap, so the document can be put together again from its passages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from anaume.data.corpus.sentences import sentence_starts
from anaume.tokenization import Encoding, Tokenizer

Span = tuple[int, int]


def cut_documents(texts: Sequence[str], tokenizer: Tokenizer, room: int, overlap: int) -> list[list[Span]]:
    """Return the passages of each text, in order, as [start, end) characters.

    room     the most pieces of a passage, special tokens and prompt apart; at least 1
    overlap  at most so many pieces of a passage are those of the one before: whole sentences, or, where a single
             sentence was too long, its last pieces; 0 <= overlap < room

    A text of at most `room` pieces is one passage. Only a single character of more pieces than that is longer.
    """
    cut = [
        [(0, len(text))] if encoding.pieces <= room else _cut(text, encoding, room, overlap)
        for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True)
    ]
    # Alone, a passage may have other pieces than within its text (words of MeCab): the tokenizer has the last word.
    for text, spans in zip(texts, cut, strict=True):
        if len(spans) > 1:
            spans[:] = _within(text, spans, tokenizer, room, overlap)
    return cut


def _within(text: str, spans: list[Span], tokenizer: Tokenizer, room: int, overlap: int) -> list[Span]:
    """Return the spans, those cut again that have more than `room` pieces by themselves."""
    encodings = tokenizer.encode_batch([text[start:end] for start, end in spans])
    settled: list[Span] = []
    for (start, end), encoding in zip(spans, encodings, strict=True):
        smaller = max(1, room * 3 // 4)
        parts = [(0, end - start)]
        if encoding.pieces > room:
            parts = _cut(text[start:end], encoding, smaller, min(overlap, smaller - 1))
        if len(parts) > 1:
            parts = _within(text[start:end], parts, tokenizer, room, overlap)
        settled += [(start + first, start + last) for first, last in parts]
    return settled


def _cut(text: str, encoding: Encoding, room: int, overlap: int) -> list[Span]:
    places = [start for start, _ in encoding.offsets[1:-1]]
    cutter = _Cutter(text, encoding, room, overlap, places)
    spans: list[Span] = []
    first = last = 0
    while True:
        last, _ = cutter.end(first, last)
        spans.append((places[first] if first else 0, places[last] if last < len(places) else len(text)))
        if last == len(places):
            return spans
        first = cutter.start(first, last)


class _Cutter:
    """Where one text may be cut, in pieces: before sentences, words, or at least characters."""

    def __init__(self, text: str, encoding: Encoding, room: int, overlap: int, places: list[int]) -> None:
        self.count, self.room, self.overlap = len(places), room, overlap
        # A character of several pieces is never halved: before its first piece only can a text be cut.
        self.characters = [at for at in range(1, self.count) if places[at] > places[at - 1]]
        word_ids = encoding.word_ids[1:-1]
        self.words = [at for at in self.characters if word_ids[at] != word_ids[at - 1]]
        starts = {bisect_left(places, start) for start in sentence_starts(text)}
        self.sentences = [at for at in self.characters if at in starts]

    def end(self, first: int, passed: int) -> tuple[int, bool]:
        """Return where the passage from piece `first` ends, after `passed`; and whether a sentence ends there."""
        if first + self.room >= self.count:
            return self.count, True
        for kind in (self.sentences, self.words, self.characters):
            at = bisect_right(kind, first + self.room) - 1
            if at >= 0 and kind[at] > passed:
                return kind[at], kind is self.sentences
        at = bisect_right(self.characters, passed)  # one character of more pieces than a passage
        return (self.characters[at] if at < len(self.characters) else self.count), False

    def start(self, first: int, last: int) -> int:
        """Return where the passage after [first, last) starts: as far back as overlap allows.

        No further than lets the next sentence in whole, if it fits into a passage at all.
        """
        at = bisect_right(self.sentences, last)
        following = self.sentences[at] if at < len(self.sentences) else self.count
        starts = self.sentences if last in self.sentences else self.words
        for place in starts[bisect_left(starts, last - self.overlap) : bisect_left(starts, last)]:
            end, whole = self.end(place, last)
            if place > first and last < end <= place + self.room and (whole or following - last > self.room):
                return place
        return last
