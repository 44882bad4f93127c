"""JSON whose rows lie in one document, read a row at a time: an array, a "data" list (SQuAD), or objects in a row."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anaume.data.files import TextFile
from anaume.data.records import JSON, OBJECT_LIMIT
from anaume.errors import DataError

# A string that ends in what was read so far, the beginning of one that does not, or a bracket.
_MARKS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|"|[\[\]{}]', re.DOTALL)
_DATA = re.compile(r'"data"\s*:\s*\Z')
_BETWEEN = re.compile(r"[\s,]*")
_KEPT = 64  # characters before a bracket that tell whether it opens "data"


def json_values(file: TextFile) -> Iterator[tuple[int, object]]:
    """Yield the rows of a JSON text, never more than a few of them in memory.

    They are the elements of an array at the top, or of a list "data" in an object at the top, numbered from 1; else
    each object at the top (JSON lines, whatever the file is called), its number the line where it starts.

    Raises:
        DataError: what is not JSON, with file and row; an object of more than 128 MiB.
    """
    scanner = _Scanner(file.name)
    for block in file.blocks():
        yield from scanner.feed(block)
    scanner.finish()


class _Scanner:
    """Finds where rows begin and end by their brackets; each is decoded by itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._text = ""
        self._at = 0  # scanned so far
        self._line, self._lined = 1, 0  # the line at that place of the text
        self._depth = 0
        self._rows_at: int | None = 0  # the depth at which rows lie; None: after the end of their list
        self._start: int | None = None  # of the row that is open
        self._free = 0  # where the text between rows begins
        self._count = 0

    def feed(self, block: str) -> Iterator[tuple[int, object]]:
        """Yield the rows that end in this block."""
        self._text += block
        while mark := _MARKS.search(self._text, self._at):
            found = mark.group()
            if found == '"':  # it ends in a later block
                self._at = mark.start()
                break
            self._at = mark.end()
            if found in "[{":
                self._open(found, mark.start())
            elif found in "]}":
                yield from self._close(mark.start())
        else:
            self._at = len(self._text)
        if len(self._text) > OBJECT_LIMIT:
            raise self._error(
                0, f"an object of more than {OBJECT_LIMIT >> 20} MiB; is a quote or bracket never closed?"
            )
        self._forget(self._start if self._start is not None else max(self._at - _KEPT, self._free))

    def finish(self) -> None:
        """Refuse an end that comes too early."""
        if self._depth or '"' in self._text[self._at :]:
            raise self._error(self._start or 0, "it ends in the middle: a bracket or quote is never closed")
        self._check_between(len(self._text))

    def _open(self, bracket: str, place: int) -> None:
        if self._depth == self._rows_at == 0 and bracket == "[":
            self._check_between(place)
            self._rows_at, self._free = 1, place + 1
        elif self._depth == self._rows_at:
            self._check_between(place)
            self._start = place
        elif self._depth == 1 and self._rows_at == 0 and bracket == "[" and self._after_data(place):
            self._rows_at, self._start, self._free = 2, None, place + 1
        self._depth += 1

    def _after_data(self, place: int) -> bool:
        return _DATA.search(self._text[max(0, place - _KEPT) : place]) is not None

    def _close(self, place: int) -> Iterator[tuple[int, object]]:
        if self._depth == 0:
            raise self._error(place, f"a {self._text[place]!r} that closes nothing")
        self._depth -= 1
        if self._start is not None and self._depth == self._rows_at:
            yield self._row(self._start, place + 1)
        elif self._rows_at is not None and self._depth < self._rows_at:
            self._check_between(place)
            self._rows_at = None
        if self._depth == 0:
            self._rows_at, self._free = 0, place + 1

    def _row(self, start: int, end: int) -> tuple[int, object]:
        self._count += 1
        number = self._line_of(start) if self._rows_at == 0 else self._count
        try:
            value = JSON.decode(self._text[start:end])
        except (ValueError, RecursionError) as error:
            raise DataError(f"{self._name}: row {number}: not JSON: {error}") from error
        self._start, self._free = None, end
        return number, value

    def _check_between(self, place: int) -> None:
        """Refuse anything but blanks and commas between rows (numbers, bare texts, a lost bracket)."""
        if self._rows_at is not None and not _BETWEEN.fullmatch(self._text, self._free, place):
            came = self._text[self._free : place].strip(" \n\t,")
            raise self._error(self._free, f"expected objects, came {came[:40]!r}")

    def _forget(self, place: int) -> None:
        """Drop the text before a place."""
        self._line_of(place)
        self._text = self._text[place:]
        self._at, self._lined, self._free = self._at - place, self._lined - place, max(0, self._free - place)
        self._start = None if self._start is None else self._start - place

    def _line_of(self, place: int) -> int:
        if place >= self._lined:
            self._line += self._text.count("\n", self._lined, place)
            self._lined = place
        return self._line

    def _error(self, place: int, what: str) -> DataError:
        return DataError(f"{self._name}: line {self._line_of(place)}: not JSON: {what}")
