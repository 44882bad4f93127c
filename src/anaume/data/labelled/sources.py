"""Labelled files as records: the fields of each row and where it stands, out of every format, streamed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from anaume.data.files import DecodeErrors, TextFile, open_text, source_name
from anaume.data.labelled.json_values import json_values
from anaume.data.records import FORMATS, Format, Header, listed, parquet_records, text_records
from anaume.data.rows import format_of, present
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest

LabelledFormat = Literal["txt", "csv", "tsv", "jsonl", "parquet", "json", "conll"]
LABELLED_FORMATS: tuple[LabelledFormat, ...] = get_args(LabelledFormat)

TABLES: tuple[LabelledFormat, ...] = ("csv", "tsv")

TEXT = "text"


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its fields as they were read, and its place as messages say it."""

    place: str
    fields: dict[str, object]

    def field(self, name: str) -> object:
        """Return a field that must be there and hold something."""
        if name not in self.fields:
            raise self.error(f"no field {name!r}{nearest(name, self.fields)}; it has {listed(self.fields)}")
        value = self.fields[name]
        if value is None:
            raise self.error(f"field {name!r} is null; fill it in or leave the row out")
        return value

    def text(self, name: str) -> str:
        """Return a field that must be a text."""
        value = self.field(name)
        if not isinstance(value, str):
            raise self.error(f"field {name!r}: expected a text, came {came(value)}")
        return value

    def error(self, what: str) -> DataError:
        """Return the error that something is wrong with this row."""
        return DataError(f"{self.place}: {what}")


def is_one_odd(names: Iterable[str]) -> bool:
    """Whether there is one column, with separators in its name: the file is likely in another format."""
    given = list(names)
    return len(given) == 1 and bool({"\t", ";", ","} & set(given[0]))


def came(value: object) -> str:
    """Say what a value is, in a message."""
    return "null" if value is None else f"{type(value).__name__} {value!r:.60}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How labelled files are read; as `read_rows` takes it, and "json" is a format too."""

    format: LabelledFormat | None = None
    encoding: str = "utf-8"
    errors: DecodeErrors = "strict"
    quoting: bool | None = None
    header: Header = True

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in LABELLED_FORMATS:
            hint = nearest(self.format, LABELLED_FORMATS)
            raise SettingsError(f"unknown format {self.format!r}{hint}; known: {', '.join(LABELLED_FORMATS)}")

    def format_of(self, path: str | Path) -> LabelledFormat:
        """Return the format asked for, or the one that the name's ending tells: that of `read_rows`, and .json."""
        if self.format is not None:
            return self.format
        is_json = str(path).lower().removesuffix(".gz").endswith(".json")
        return "json" if is_json else format_of(path)

    def open(self, path: str | Path) -> TextFile:
        """Open a text for reading."""
        return open_text(path, encoding=self.encoding, errors=self.errors)


def find_sources(paths: str | Path | Sequence[str | Path], reading: Reading) -> list[tuple[str | Path, LabelledFormat]]:
    """Return each file with its format, at once: a file that is not there is an error before anything is read."""
    return [(path, reading.format_of(path)) for path in present(paths)]


def read_source(path: str | Path, kind: LabelledFormat, reading: Reading) -> Iterator[Record]:
    """Stream the records of one file. A bare text becomes the field "text".

    Raises:
        DataError: what does not parse or is no object, with file and row.
    """
    source = source_name(path)
    if kind == "parquet":
        yield from _numbered(source, parquet_records(path, source))
    elif kind == "conll":
        raise SettingsError(f"{source}: CoNLL columns hold tagged words, and only that; name another format")
    else:
        with reading.open(path) as file:
            if kind == "json":
                yield from _numbered(source, json_values(file))
            elif kind == "tsv" and reading.quoting is None:
                yield from _watched(source, _numbered(source, _table(file, kind, reading)))
            else:
                yield from _numbered(source, _table(file, kind, reading))


def _table(file: TextFile, kind: Format, reading: Reading) -> Iterator[tuple[int, dict[str, object] | str]]:
    assert kind in FORMATS
    return text_records(file, kind, reading.quoting, reading.header)


def _numbered(source: str, records: Iterable[tuple[int, object]]) -> Iterator[Record]:
    for number, value in records:
        place = f"{source}: row {number}"
        if isinstance(value, str):
            yield Record(place, {TEXT: value})
        elif isinstance(value, dict):
            yield Record(place, value)
        else:
            raise DataError(f"{place}: expected an object with named fields, came {came(value)}")


def _watched(source: str, records: Iterator[Record]) -> Iterator[Record]:
    """Warn, once it is read, if every quoted cell of a tsv is quoted as in csv: its quotes were read as text."""
    quoted = doubled = 0
    for record in records:
        for cell in record.fields.values():
            if isinstance(cell, str) and cell.startswith('"') and quoted >= 0:
                inside = cell[1:-1].replace('""', "")
                if len(cell) < 2 or not cell.endswith('"') or '"' in inside:
                    quoted = -1  # a bare quote: read as text rightly
                else:
                    quoted += 1
                    doubled += '""' in cell[1:-1]
        yield record
    if quoted > 0 and doubled:
        warnings.warn(
            f"{source}: {quoted} cells look quoted as in csv, and their quotes were read as text; quoting=True "
            "(--quoting) reads them without",
            AnaumeWarning,
            stacklevel=2,
        )
