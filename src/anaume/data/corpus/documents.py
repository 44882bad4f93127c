"""Files -> documents: one a file, a row, or a run of lines between blank ones; streamed in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, get_args

from anaume.data.corpus.inputs import Input, Opener
from anaume.data.corpus.sentences import cut_sentences, split_sentences
from anaume.data.files import DecodeErrors, TextFile
from anaume.data.rows import read_rows, rows_of
from anaume.errors import SettingsError, nearest
from anaume.logs import get_logger

log = get_logger(__name__)

Layout = Literal["document", "sentences", "lines"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

LONGEST_DOCUMENT = 1 << 20
"""Characters; a longer document is stored in parts, each a document of its own, so that memory stays bounded."""

_BLOCK = 1 << 18  # bytes read at once
_LOOKED_AT = 1 << 17  # characters of a file by which its form is judged
_SURROGATES = re.compile("[\ud800-\udfff]")
_ENDS = frozenset(".!?。．！？…:;\"'”’」』）)]")


@dataclass(frozen=True, slots=True)
class Document:
    """A document, or a part of a very long one: a running text, or the sentences it came in."""

    text: str
    """The running text; of given sentences, all of them, a line each."""
    sentences: tuple[str, ...] | None = None
    """The sentences as the file gives them; None: the text is still to be split."""

    def split(self, language: str | None = None) -> tuple[list[str], int]:
        """Return the sentences and how many over-long ones were cut, as `split_sentences` does."""
        return split_sentences(self.text, language) if self.sentences is None else cut_sentences(self.sentences)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How inputs are read into documents.

    layout: what a txt file holds: "document", the file is one document; "sentences", BERT's own form, one sentence a
        line and a blank line between documents; "lines", one document a line. Rows of tables are documents always.
    column, quoting, header, encoding, errors: as `read_rows` takes them.

    Raises SettingsError.
    """

    layout: Layout = "document"
    column: str | None = None
    encoding: str = "utf-8"
    errors: DecodeErrors = "strict"
    quoting: bool | None = None
    header: bool = True

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            hint = nearest(self.layout, LAYOUTS)
            raise SettingsError(f"unknown layout {self.layout!r}{hint}; known: {', '.join(LAYOUTS)}")


class DocumentReader:
    """Reads inputs into documents, each time it is iterated; blank ones are counted and left out.

    After a pass: blank, parted (documents stored in parts), replaced (malformed bytes read as U+FFFD), and notes.
    """

    def __init__(self, inputs: Sequence[Input], reading: Reading) -> None:
        self.inputs = tuple(inputs)
        self.reading = reading
        self._reset()

    def _reset(self) -> None:
        self.blank = self.parted = self.replaced = self.surrogates = 0
        self._as_sentences: list[str] = []
        self._as_text: list[str] = []

    def __iter__(self) -> Iterator[Document]:
        self._reset()
        with closing(Opener(self.reading.encoding, self.reading.errors)) as opener:
            yield from self._all(opener)

    def _all(self, opener: Opener) -> Iterator[Document]:
        for one in self.inputs:
            for document in self._of(one, opener):
                if document.text and not document.text.isspace():
                    yield document
                else:
                    self.blank += 1

    def _of(self, one: Input, opener: Opener) -> Iterator[Document]:
        how = self.reading
        if one.kind == "parquet":
            for row in read_rows(one.path, column=how.column, format=one.kind):
                yield from self._parts(row.text)
            return
        with opener.open(one) as file:
            if one.kind != "txt":
                for row in rows_of(file, one.kind, how.column, None, how.quoting, how.header):
                    yield from self._parts(row.text)
            elif how.layout == "document":
                yield from self._whole(file)
            elif how.layout == "sentences":
                yield from self._between_blank_lines(file)
            else:
                going_on = False  # a line too long to be held comes in pieces
                for line, ended in _bounded_lines(file):
                    self.parted += not ended and not going_on
                    yield from self._parts(line, counted=ended and not going_on)
                    going_on = not ended
            self.replaced += file.replaced
            file.replaced = 0  # told with everything else, not a file at a time

    def _parts(self, text: str, *, counted: bool = True) -> Iterator[Document]:
        """Cut a text that is in memory."""
        text = self._clean(text)
        self.parted += counted and len(text) > LONGEST_DOCUMENT
        start = 0
        while len(text) - start > LONGEST_DOCUMENT:
            window = text[start : start + LONGEST_DOCUMENT]
            at = _part_at(window)
            yield Document(window[:at])
            start += at
        yield Document(text[start:] if start else text)

    def _whole(self, file: TextFile) -> Iterator[Document]:
        """Read a file as one document, a part of it at a time."""
        waiting: list[str] = []
        size, parts = 0, 0
        for block in file.blocks(_BLOCK):
            block = self._clean(block)
            if not parts and not waiting and _looks_like_sentences(block[:_LOOKED_AT]):
                self._as_sentences.append(file.name)
            waiting.append(block)
            size += len(block)
            while size > LONGEST_DOCUMENT:
                text = "".join(waiting)
                at = _part_at(text)
                yield Document(text[:at])
                waiting, size = [text[at:]], size - at
                parts += 1
        self.parted += parts > 0
        yield Document("".join(waiting))

    def _between_blank_lines(self, file: TextFile) -> Iterator[Document]:
        """Read one sentence a line; a run of blank lines ends a document."""
        sentences: list[str] = []
        size, judged, parts = 0, False, 0
        seen: list[str] = []
        for line, ended in _bounded_lines(file):
            line = self._clean(line)
            if not judged:
                seen.append(line)
                judged = len(seen) >= 400 or not ended
                if judged and _looks_like_text(seen):
                    self._as_text.append(file.name)
            if line and not line.isspace():
                sentences.append(line)
                size += len(line)
                if size <= LONGEST_DOCUMENT:
                    continue
                parts += 1
            elif parts:
                self.parted += 1
                parts = 0
            if sentences:
                yield Document("\n".join(sentences), tuple(sentences))
                sentences, size = [], 0
        if not judged and _looks_like_text(seen):
            self._as_text.append(file.name)
        self.parted += parts > 0
        if sentences:
            yield Document("\n".join(sentences), tuple(sentences))

    def _clean(self, text: str) -> str:
        """Lone surrogates (JSON can escape them) can't be stored or hashed as UTF-8."""
        if text.isascii() or not _SURROGATES.search(text):
            return text
        self.surrogates += len(_SURROGATES.findall(text))
        return _SURROGATES.sub("\ufffd", text)

    @property
    def notes(self) -> list[str]:
        """What a user should know of the last pass."""
        notes = []
        if names := self._as_sentences:
            notes.append(
                f"{_named(names)} like BERT's own form (a sentence a line, a blank line between documents) and "
                "is read as one document; layout='sentences' (--layout sentences) reads that form"
            )
        if names := self._as_text:
            notes.append(
                f"{_named(names)} like running text and is read as a sentence a line; layout='document' "
                "(--layout document) reads a file as one document"
            )
        if self.replaced:
            notes.append(f"malformed {self.reading.encoding} byte sequences read as U+FFFD: {self.replaced:,}")
        if self.surrogates:
            notes.append(f"lone surrogates read as U+FFFD: {self.surrogates:,}")
        if self.blank:
            notes.append(f"documents left out because they are empty: {self.blank:,}")
        if self.parted:
            notes.append(
                f"documents of more than {LONGEST_DOCUMENT:,} characters, stored in parts, each a document of its own: "
                f"{self.parted:,}"
            )
        return notes


def _bounded_lines(file: TextFile) -> Iterator[tuple[str, bool]]:
    """Yield (line, True), and a line too long to be held in pieces (piece, False)."""
    pending = ""
    for block in file.blocks(_BLOCK):
        *lines, pending = (pending + block).split("\n")
        for line in lines:
            yield line, True
        if len(pending) > LONGEST_DOCUMENT:
            yield pending, False
            pending = ""
    if pending:
        yield pending, True


def _part_at(text: str) -> int:
    """Return where to cut a text longer than LONGEST_DOCUMENT: after a paragraph, a line or a blank, else anywhere."""
    least = LONGEST_DOCUMENT * 3 // 4
    for mark in ("\n\n", "\n", "。", ". ", " "):
        at = text.rfind(mark, least, LONGEST_DOCUMENT)
        if at >= 0:
            return at + len(mark)
    return LONGEST_DOCUMENT


def _ends_like_a_sentence(line: str) -> bool:
    return line.rstrip()[-1:] in _ENDS


def _looks_like_sentences(text: str) -> bool:
    """Runs of lines that each end like a sentence, with blank lines between the runs."""
    runs, lines, ends = 0, 0, 0
    before_blank = True
    for line in text.split("\n")[:400]:
        blank = not line or line.isspace()
        if not blank:
            runs += before_blank
            lines += 1
            ends += _ends_like_a_sentence(line)
        before_blank = blank
    return runs >= 2 and lines >= 2 * runs and lines >= 6 and ends >= 0.9 * lines


def _looks_like_text(lines: Sequence[str]) -> bool:
    """Lines that mostly end in the middle of a sentence."""
    told = [line for line in lines if line and not line.isspace()]
    return len(told) >= 6 and sum(map(_ends_like_a_sentence, told)) < 0.4 * len(told)


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} looks"
    return f"{len(names)} files ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''}) look"
