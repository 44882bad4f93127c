"""Raw text cut into the words that get a tag: fine enough that the bounds of entities are bounds of words.

A word is a run of letters and digits, or one character of punctuation. Scripts that write no blanks between words, or
glue particles to them (Han, kana, Hangul, Thai, Lao, Khmer, Burmese), are cut into characters. Marks, joiners and the
half-width voicing marks stay with the character before them. No tokenizer is asked, so the words of a text are the same
for every model.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_BY_CHARACTER = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3041-\u30ff\u3100-\u312f\u31a0-\u31ff"  # iteration marks, kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uff66-\uff9d\uffa0-\uffdc"  # half-width kana and Hangul
    "\U0001b000-\U0001b16f\U00020000-\U0003fffd"  # older kana, more Han
)
_VOICING = "\uff9e\uff9f"  # letters to Unicode, marks to a reader


def cut_words(text: str, bounds: Iterable[int] = ()) -> tuple[Span, ...]:
    """Return the character spans of a text's words, in order; blanks belong to none.

    bounds: places where a word must end, wherever else words end.

    >>> cut_words("Anna's ﾀﾅｶさん")
    ((0, 4), (4, 5), (5, 6), (7, 8), (8, 9), (9, 10), (10, 11), (11, 12))
    """
    found = [match.span() for match in _pattern().finditer(text)]
    cuts = set(bounds)
    return tuple(_cut(found, cuts)) if cuts else tuple(found)


def _cut(spans: Iterable[Span], cuts: set[int]) -> Iterator[Span]:
    for start, end in spans:
        for place in range(start + 1, end):
            if place in cuts:
                yield start, place
                start = place
        yield start, end


@functools.cache
def _pattern() -> re.Pattern[str]:
    marks = f"[{_marks()}{_VOICING}]"
    word = rf"(?:(?![{_BY_CHARACTER}{_VOICING}_])\w)"
    return re.compile(rf"{word}(?:{word}|{marks})*|\S{marks}*")


def _marks() -> str:
    """Return the marks and format characters of Unicode as ranges of a character class."""
    ranges: list[list[int]] = []
    for point in itertools.chain(range(0x20000), range(0xE0000, 0xE0200)):  # there are none elsewhere
        if unicodedata.category(chr(point)) in ("Mn", "Mc", "Me", "Cf"):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
