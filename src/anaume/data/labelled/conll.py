"""CoNLL columns: a word and its tags a line, blank lines between sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from anaume.data.files import TextFile
from anaume.data.labelled.examples import TaggedExample
from anaume.errors import DataError, SettingsError

_DOCUMENT = "-DOCSTART-"
_TAG = re.compile(r"O|([BIESLUM]-\S+)|[BIESLUM]")
_BLANKS = " \t"


def joined(words: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return words as one text, a space between them, and the span of each."""
    spans = []
    start = 0
    for word in words:
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return " ".join(words), tuple(spans)


def conll_sentences(file: TextFile, words: int, tags: int | None) -> Iterator[TaggedExample]:
    """Yield the sentences of a file in columns, parted by tabs if its first line of them holds one, else by spaces.

    words, tags: the number of the column, from 1, or from the end, -1 the last; None reads no tags.

    Lines that begin with -DOCSTART- are skipped, and comments before a sentence: lines that begin with # and have
    another number of columns.

    Raises:
        DataError: a line with another number of columns than the first, or an empty word or tag, with its line.
    """
    sentence = _Sentence()
    columns: _Columns | None = None
    for number, line in enumerate(file.lines(), 1):
        if not line.strip(_BLANKS):
            if sentence.words:
                yield sentence.example(file.name, with_tags=tags is not None)
                sentence = _Sentence()
            continue
        if line.startswith(_DOCUMENT) or (not sentence.words and _is_comment(line, columns)):
            continue
        columns = columns or _Columns(file.name, line, words, tags)
        word, tag = columns.read(number, line)
        sentence.number = sentence.number or number
        sentence.words.append(word)
        sentence.tags.append(tag)
    if sentence.words:
        yield sentence.example(file.name, with_tags=tags is not None)


def are_columns(lines: Sequence[str]) -> bool:
    """Whether lines that are not blank look like words and tags of entities: as many cells each, the last one a tag."""
    cells = [line.split() for line in lines if not line.startswith((_DOCUMENT, "#"))]
    tags = [own[-1] for own in cells]
    return (
        len({len(own) for own in cells}) == 1
        and len(cells[0]) > 1
        and all(_TAG.fullmatch(tag) for tag in tags)
        and any(tag == "O" or "-" in tag for tag in tags)  # "group B", "group E" are texts
    )


@dataclass
class _Sentence:
    number: int = 0
    """The line where it starts."""
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def example(self, source: str, *, with_tags: bool) -> TaggedExample:
        text, spans = joined(self.words)
        fields: dict[str, object] = {"words": self.words, **({"tags": self.tags} if with_tags else {})}
        place = f"{source}: row {self.number}"
        tags = tuple(self.tags) if with_tags else None
        return TaggedExample(place=place, fields=fields, text=text, spans=spans, tags=tags)


class _Columns:
    """How the lines of one file are cut, settled by the first."""

    def __init__(self, source: str, line: str, words: int, tags: int | None) -> None:
        self._source = source
        self.tabs = "\t" in line
        self.count = len(self.cells(line))
        self._word = self._place(words, "words")
        self._tag = None if tags is None else self._place(tags, "tags")
        if self._word == self._tag:
            raise DataError(
                f"{source}: words and tags are both its column {self._word + 1} of {self.count}; a word and its tag "
                f"a line are expected, parted by a {'tab' if self.tabs else 'space or a tab'}"
            )

    def cells(self, line: str) -> list[str]:
        return line.split("\t") if self.tabs else re.split(" +", line.strip(" "))

    def read(self, number: int, line: str) -> tuple[str, str]:
        cells = self.cells(line)
        if len(cells) != self.count:
            raise DataError(
                f"{self._source}: line {number}: {len(cells)} columns, expected {self.count} as before: {line[:60]!r}; "
                "mend the line"
            )
        word, tag = cells[self._word], "" if self._tag is None else cells[self._tag]
        for what, cell in (("word", word), ("tag", tag)):
            if not cell.strip() and (what == "word" or self._tag is not None):
                raise DataError(f"{self._source}: line {number}: an empty {what}: {line[:60]!r}; mend the line")
        return word, tag

    def _place(self, number: int, what: str) -> int:
        if number == 0 or abs(number) > self.count:
            raise SettingsError(
                f"{self._source}: {what} are to be read from column {number}, but it has {self.count}; count from 1, "
                "or from the end, -1 the last"
            )
        return number - 1 if number > 0 else self.count + number


def _is_comment(line: str, columns: _Columns | None) -> bool:
    """Whether a line before a sentence that begins with # is none of its words."""
    if not line.startswith("#"):
        return False
    if columns is not None:
        return len(columns.cells(line)) != columns.count
    cells = line.split()
    return len(cells) < 2 or _TAG.fullmatch(cells[-1]) is None
