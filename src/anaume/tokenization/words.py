"""Japanese words: MeCab (fugashi, unidic-lite) as a pre-tokenizer, so that the Rust side keeps the offsets."""

from __future__ import annotations

import os
from typing import Any, cast

from tokenizers import NormalizedString, PreTokenizedString

from anaume.errors import MissingExtra, TokenizerError

# Slicing a NormalizedString costs time in proportion to its length; cutting long texts in two steps keeps it linear.
_GROUP = 32
# Dictionary options -> taggers that wait. fugashi never unmaps a dictionary, so a tagger of every tokenizer's own
# would use up the maps a process may have.
_TAGGERS: dict[str, list[Any]] = {}


class MecabWords:
    """Cuts text into the surfaces MeCab finds; blanks between them belong to no word.

    A MeCab tagger is not thread-safe, and threads of the Rust pool keep no Python thread state between calls, so the
    taggers wait in a pool, one for the process: one is taken for each text and put back afterwards.
    keep_blanks: Unicode blanks MeCab takes for words (U+2028, U+0085 ...) stay words. BertJapaneseTokenizer keeps them
    before characters and drops them before WordPiece.
    Raises MissingExtra without fugashi or unidic-lite, TokenizerError when the dictionary can't be opened.
    """

    def __init__(self, *, lower_case: bool, keep_blanks: bool) -> None:
        self._lower_case = lower_case
        self._keep_blanks = keep_blanks
        self._options = _dictionary_options()
        self._taggers = _TAGGERS.setdefault(self._options, [])
        if not self._taggers:
            self._taggers.append(self._new_tagger())

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Split in place; called by `tokenizers`."""
        text.split(self._split)
        if self._lower_case:  # after the words are cut, as BertJapaneseTokenizer does
            text.normalize(lambda word: word.lowercase())

    def words(self, text: str) -> list[str]:
        """Return the surfaces of a text (already normalised)."""
        try:
            tagger = self._taggers.pop()
        except IndexError:
            tagger = self._new_tagger()
        try:
            surfaces: list[str] = [node.surface for node in tagger(text)]
        finally:
            self._taggers.append(tagger)
        if self._keep_blanks:
            return surfaces
        return [part for surface in surfaces for part in surface.split()]

    def _split(self, index: int, text: NormalizedString) -> list[NormalizedString]:
        plain = str(text.normalized)
        spans: list[tuple[int, int]] = []
        position = 0
        for word in self.words(plain):
            start = plain.index(word, position)
            position = start + len(word)
            spans.append((start, position))
        pieces: list[NormalizedString] = []
        for first in range(0, len(spans), _GROUP):
            group = spans[first : first + _GROUP]
            base = group[0][0]
            part = _slice(text, base, group[-1][1])
            pieces.extend(_slice(part, start - base, end - base) for start, end in group)
        return pieces

    def _new_tagger(self) -> Any:
        from fugashi import GenericTagger

        try:
            return GenericTagger(self._options)
        except RuntimeError as error:
            raise TokenizerError(
                "MeCab can't open the unidic-lite dictionary; reinstall it with: "
                "pip install --force-reinstall unidic-lite"
            ) from error


def _slice(text: NormalizedString, start: int, end: int) -> NormalizedString:
    # Its type says None for a span outside the text; ours are inside.
    return cast(NormalizedString, text[start:end])


def _dictionary_options() -> str:
    try:
        import fugashi  # noqa: F401
        import unidic_lite
    except ImportError as error:
        raise MissingExtra("words='mecab'", "ja") from error
    folder = unidic_lite.DICDIR
    return f'-d "{folder}" -r "{os.path.join(folder, "mecabrc")}"'
