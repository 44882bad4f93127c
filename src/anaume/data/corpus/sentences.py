"""Text -> sentences: sentencex's, in windows of bounded size, with Japanese quotations put together again.

Nothing is lost: the sentences hold every character of the text but the blanks around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from anaume.errors import SettingsError

LONGEST_SENTENCE = 1024
"""Characters; a longer sentence is cut: at an end of a sentence inside it, else at a blank or comma, else anywhere."""

# sentencex takes a time beyond proportion for long texts, and one quote that is never closed keeps it from seeing any
# sentence after it: windows bound both.
_WINDOW = 2048

_CJK = re.compile("[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d]+")
_CJK_SHARE = 0.1

_CLOSING = "」』）)］]】〉》”’、，,。．！？!?…"
"""Marks that no sentence starts with: they belong to the one before."""
_QUOTE_ENDS = frozenset("」』）)”’\"'")
# What goes on after a closed quotation: the particle と (but not the words that begin with it), って and their kin,
# other particles before a kanji, katakana or a comma; in English a lower-case word.
_GOES_ON = re.compile(
    "と(?!ても|うとう|にかく|ころ|りあえず|もかく|もあれ|くに|っさ|きどき|つぜん|りわけ|はいえ)|って|など|なんて|だの|"
    "[はがをにのもでへや](?=[一-龯々ァ-ヶ、，「『])|[a-zà-öø-ÿ]"
)
_CUTS = (("。", "！", "？", "\n"), (". ", "! ", "? "), (" ", "\u3000", "、", "，", "\t"))


_CODE = re.compile("([a-z]{2,3})(?:[-_][a-z0-9]+)*", re.IGNORECASE)
_TAKEN_FOR_CODES = {"jp": "ja", "jpn": "ja", "eng": "en", "japanese": "ja", "english": "en", "日本語": "ja"}


def language_code(language: str | None) -> str | None:
    """Return the code as sentencex has it: "ja" of "ja-JP"; None stays None.

    Raises SettingsError for what is no code, which sentencex would split by its general rules without a word.
    """
    if language is None:
        return None
    found = _CODE.fullmatch(language)
    meant = _TAKEN_FOR_CODES.get(language.lower())
    if found is None or meant is not None:
        hint = f" (did you mean {meant!r}?)" if meant else ""
        raise SettingsError(f"language: expected a code as 'en', 'ja' or 'de'; came {language!r}{hint}")
    return found[1].lower()


def guess_language(text: str) -> str:
    """Return "ja" for text with a tenth or more of kana and kanji, "en" for any other."""
    if text.isascii():
        return "en"
    return "ja" if sum(map(len, _CJK.findall(text))) >= _CJK_SHARE * len(text) else "en"


@cache
def _segmenter() -> Callable[[str, str], list[str]]:
    import sentencex  # here, because a corpus of given sentences needs none of it

    segment: Callable[[str, str], list[str]] = sentencex.segment
    return segment


def split_sentences(text: str, language: str | None = None) -> tuple[list[str], int]:
    """Return the sentences of a text, without blanks around them, and how many times an over-long one was cut.

    language: a code sentencex knows ("en", "ja", "de", ...); None guesses English or Japanese, window by window.
    """
    segment = _segmenter()
    joiner = _Joiner()
    carried = ""
    for start in range(0, len(text), _WINDOW):
        window = carried + text[start : start + _WINDOW]
        pieces = segment(language or guess_language(window), window)
        # The last sentence may go on in the next window, unless it is too long in any case.
        carried = pieces.pop() if start + _WINDOW < len(text) else ""
        for piece in pieces:
            joiner.add(piece)
        while len(carried) > LONGEST_SENTENCE:
            at = _cut_at(carried)
            joiner.add(carried[:at])
            joiner.cuts += 1
            carried = carried[at:]
    return joiner.sentences, joiner.cuts


def sentence_starts(text: str, language: str | None = None) -> list[int]:
    """Return where the sentences of a text start: characters from 0, ascending; a line end starts one too."""
    letters = [found.start() for found in re.finditer(r"\S", text)]
    starts, passed = [0], 0
    for sentence in split_sentences(text, language)[0]:
        # Sentences hold every character but blanks, in order: counting the others finds them in the text again.
        starts.append(letters[passed])
        passed += sum(not character.isspace() for character in sentence)
    starts += [found.end() for found in re.finditer(r"\n\s*(?=\S)", text)]
    return sorted(set(starts))


def cut_sentences(sentences: tuple[str, ...]) -> tuple[list[str], int]:
    """Return given sentences, stripped, blank ones left out, over-long ones cut; and the number of cuts."""
    kept: list[str] = []
    cuts = 0
    for given in sentences:
        sentence = given.strip()
        while len(sentence) > LONGEST_SENTENCE:
            at = _cut_at(sentence)
            kept.append(sentence[:at].rstrip())
            sentence = sentence[at:].lstrip()
            cuts += 1
        if sentence:
            kept.append(sentence)
    return kept, cuts


class _Joiner:
    """Collects sentences; what can't start one goes to the one before it."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.cuts = 0
        self._gap = "\n"  # the blanks after the last sentence

    def add(self, piece: str) -> None:
        sentence = piece.strip()
        if not sentence:
            self._gap += piece
            return
        while len(sentence) > LONGEST_SENTENCE:
            at = _cut_at(sentence)
            self._append(sentence[:at].rstrip(), "")
            sentence = sentence[at:].lstrip()
            self.cuts += 1
        if piece[0].isspace():
            self._gap += "\n" if "\n" in piece[: len(piece) - len(piece.lstrip())] else " "
        self._append(sentence, piece[len(piece.rstrip()) :])

    def _append(self, sentence: str, after: str) -> None:
        gap, self._gap = self._gap, after
        if self.sentences and "\n" not in gap and len(self.sentences[-1]) < LONGEST_SENTENCE:
            if sentence[0] in _CLOSING:
                rest = sentence.lstrip(_CLOSING + " \u3000")
                self.sentences[-1] += gap + sentence[: len(sentence) - len(rest)].rstrip()
                gap, sentence = "", rest.lstrip()
                if not sentence:
                    return
            if self.sentences[-1][-1] in _QUOTE_ENDS and _GOES_ON.match(sentence):
                self.sentences[-1] += gap + sentence
                return
        self.sentences.append(sentence)


def _cut_at(text: str) -> int:
    """Return where to cut a text longer than LONGEST_SENTENCE: in the second half of what fits, else at its end."""
    for marks in _CUTS:
        at = max(text.rfind(mark, LONGEST_SENTENCE // 2, LONGEST_SENTENCE) + len(mark) for mark in marks)
        if at > LONGEST_SENTENCE // 2:
            return at
    return LONGEST_SENTENCE
