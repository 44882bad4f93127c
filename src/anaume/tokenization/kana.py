"""Voiced kana, which stripping accents turns into other kana."""

from __future__ import annotations

import re
import unicodedata

# Every kana whose canonical decomposition ends in a voicing mark, and the combining marks themselves.
_VOICED = re.compile(
    "["
    + "".join(
        chr(code)
        for code in range(0x3041, 0x30FF)
        if unicodedata.normalize("NFD", chr(code))[1:] in ("\u3099", "\u309a")
    )
    + "\u3099\u309a]"
)


def count_voiced(text: str) -> int:
    """Return how many voiced kana, or combining voicing marks, a text holds."""
    return 0 if text.isascii() else len(_VOICED.findall(text))
