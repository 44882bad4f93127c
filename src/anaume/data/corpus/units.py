"""The units by which texts are compared: words, numbers, and single ideographs and kana, normalised."""

from __future__ import annotations

import re
import unicodedata

# Kana and ideographs one by one, for they are written without blanks; else runs of letters and digits.
_UNITS = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
# Treebanks write "do n't" where others write "don't".
_NOT = re.compile(r"\s?n\s?['’]\s?t\b")


def units(text: str) -> list[str]:
    """Return the units of a text: NFKC, case folded, "n't" joined to its word, punctuation left out.

    >>> units("It's 3 DOGS, ｏｋ? 猫だ。")
    ['it', 's', '3', 'dogs', 'ok', '猫', 'だ']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    text = text.casefold()
    if "n" in text and ("'" in text or "’" in text):
        text = _NOT.sub("nt", text)
    return _UNITS.findall(text)
