"""What a text became: ids, tokens and offsets, computed when asked, and how much of the text was kept."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of one text an encoding holds: pieces kept of total, and the characters [start, end) they stand for."""

    kept: int
    total: int
    start: int
    end: int

    @property
    def share(self) -> float:
        """Kept pieces over all pieces, 0 to 1; 1 for a text without pieces."""
        return self.kept / self.total if self.total else 1.0


class Pieces:
    """All pieces of one text or pair, in the layout [CLS] A [SEP] (B [SEP]); windows of one text share it."""

    def __init__(self, raw: Any, texts: tuple[str, ...]) -> None:
        self.raw = raw
        self.texts = texts

    def __len__(self) -> int:
        return len(self.raw)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of pieces of each text, special tokens apart."""
        if len(self.texts) == 1:
            return (len(self.raw) - 2,)
        first = self.raw.type_ids.index(1) - 2
        return (first, len(self.raw) - 3 - first)

    @cached_property
    def token_ids(self) -> list[int]:
        """All ids."""
        ids: list[int] = self.raw.ids
        return ids

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens."""
        tokens: list[str] = self.raw.tokens
        return tokens

    @cached_property
    def segment_ids(self) -> list[int]:
        """0 up to and including the first [SEP], 1 after."""
        segments: list[int] = self.raw.type_ids
        return segments

    @cached_property
    def word_ids(self) -> list[int | None]:
        """The word of each piece, from 0 in each text; None for special tokens."""
        words: list[int | None] = self.raw.word_ids
        return words

    @cached_property
    def special_mask(self) -> list[bool]:
        """True at the special tokens the layout adds."""
        return [bool(flag) for flag in self.raw.special_tokens_mask]

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """Character spans in the original texts; (0, 0) for special tokens."""
        spans: list[tuple[int, int]] = self.raw.offsets
        start = 1
        for text, count in zip(self.texts, self.counts, strict=True):
            if not text.isascii():
                spans[start : start + count] = settle_offsets(spans[start : start + count], text)
            start += count + 1
        return spans


class Encoding:
    """One encoded text or pair, [CLS] A [SEP] or [CLS] A [SEP] B [SEP]; immutable.

    Every property builds a fresh list, so that nothing a caller does to it comes back. Offsets count characters
    (code points) of the original text.
    """

    __slots__ = ("_keep", "_pieces", "_unk_id")

    def __init__(self, pieces: Pieces, unk_id: int, keep: tuple[tuple[int, int], ...] | None = None) -> None:
        self._pieces = pieces
        self._unk_id = unk_id
        self._keep = keep  # [start, stop) of the kept pieces of each text; None: everything

    def _pick(self, column: Sequence[Item]) -> list[Item]:
        if self._keep is None:
            return list(column)
        picked = [column[0]]
        base = 1
        for (start, stop), count in zip(self._keep, self._pieces.counts, strict=True):
            picked += column[base + start : base + stop]
            picked.append(column[base + count])
            base += count + 1
        return picked

    @property
    def token_ids(self) -> list[int]:
        """(n,) ids."""
        return self._pick(self._pieces.token_ids)

    @property
    def segment_ids(self) -> list[int]:
        """(n,) 0 up to and including the first [SEP], 1 after."""
        return self._pick(self._pieces.segment_ids)

    @property
    def tokens(self) -> list[str]:
        """(n,) tokens as the vocabulary spells them."""
        return self._pick(self._pieces.tokens)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """(n,) character spans in the original text of each piece; (0, 0) for special tokens."""
        return self._pick(self._pieces.offsets)

    @property
    def word_ids(self) -> list[int | None]:
        """(n,) the word each piece belongs to, from 0, again from 0 in the pair; None for special tokens."""
        return self._pick(self._pieces.word_ids)

    @property
    def special_mask(self) -> list[bool]:
        """(n,) True at the special tokens the layout adds."""
        return self._pick(self._pieces.special_mask)

    @property
    def pieces(self) -> int:
        """The number of kept pieces, special tokens apart."""
        return sum(stop - start for start, stop in self._spans())

    @property
    def unknown(self) -> int:
        """The number of kept pieces that are the unknown token."""
        return self.token_ids.count(self._unk_id)

    @property
    def truncated(self) -> bool:
        """True when pieces of a text were left out."""
        return self._keep is not None and self._keep != tuple((0, count) for count in self._pieces.counts)

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        """One Coverage for each text."""
        result = []
        base = 1
        for text, (start, stop), count in zip(self._pieces.texts, self._spans(), self._pieces.counts, strict=True):
            if (start, stop) == (0, count):
                result.append(Coverage(count, count, 0, len(text)))
            elif start == stop:
                result.append(Coverage(0, count, 0, 0))
            else:
                spans = self._pieces.offsets
                first = 0 if start == 0 else spans[base + start][0]
                # Up to the next piece, so that windows without overlap still tile the text, blanks included.
                last = len(text) if stop == count else max(spans[base + stop - 1][1], spans[base + stop][0])
                result.append(Coverage(stop - start, count, first, last))
            base += count + 1
        return tuple(result)

    def _spans(self) -> tuple[tuple[int, int], ...]:
        return self._keep if self._keep is not None else tuple((0, count) for count in self._pieces.counts)

    def __len__(self) -> int:
        if self._keep is None:
            return len(self._pieces)
        return 1 + sum(stop - start + 1 for start, stop in self._keep)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoding):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("token_ids", "segment_ids", "offsets", "word_ids", "special_mask", "coverage")
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Encoding({' '.join(self.tokens)})"


def settle_offsets(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Give each mark that no piece claims to the piece before it, and keep spans in order and within the text.

    Normalisation drops or composes marks; without this the accent of "e" + U+0301 would fall between two pieces, and a
    span cut from the original text would lose it.
    """
    settled: list[tuple[int, int]] = []
    low = 0
    for index, (start, end) in enumerate(spans):
        start = min(max(start, low), len(text))
        end = min(max(end, start), len(text))
        limit = spans[index + 1][0] if index + 1 < len(spans) else len(text)
        while end < limit and end > start and _is_mark(text[end]):
            end += 1
        settled.append((start, end))
        low = start
    return settled


def _is_mark(character: str) -> bool:
    # U+FF9E and U+FF9F, the half-width voicing marks, are letters to Unicode; NFKC composes them like marks.
    return unicodedata.category(character) == "Mn" or character in "\uff9e\uff9f"
