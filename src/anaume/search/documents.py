"""Rows -> documents with an id, a text and whatever else they carry; and what a set of them has in common."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from anaume.data import STDIN, Row
from anaume.data.vectors import json_line
from anaume.errors import DataError, SettingsError, nearest

ID = "id"
RESERVED = frozenset(
    {"vector", "codes", "scale", "text", "_distance", "_score", "_relevance_score", "_rowid", "_rowaddr"}
)
_OWN = re.compile("_(document|passage|passages|start|end|coverage|fields)")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_UNFILTERED = re.compile(r"[.`\x00-\x1f]|^$")

Kind = str
"""The type of a column of metadata, as SQL calls it: string, bigint, double or boolean."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """What is indexed under one id."""

    id: str
    text: str
    fields: Mapping[str, object]
    """All else the row had, as it was read."""
    place: str
    """Where it came from, as messages say it."""
    surrogates: int = 0
    """Lone surrogates of the text, each read as U+FFFD."""

    @cached_property
    def fields_json(self) -> str:
        """The fields as JSON. Raises DataError for a value JSON has no form for."""
        try:
            text = json_line(dict(self.fields)).decode().rstrip("\n")
            json.loads(text, parse_constant=_no_number)
        except (TypeError, ValueError) as error:
            name = next((name for name, value in self.fields.items() if not _in_json(value)), "")
            raise DataError(
                f"{self.place}: field {name!r} has no form in JSON: {error}; leave it out, or make it a text"
            ) from error
        return text

    @cached_property
    def digest(self) -> str:
        """What tells whether a document of this id has changed: 32 hexadecimal digits."""
        content = f"{len(self.text)}\n{self.text}\n{self.fields_json}"
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_documents(rows: Iterable[Row], *, id_column: str | None = None) -> Iterator[Document]:
    """Turn rows into documents.

    id_column  the column of the ids; None = "id", and where the rows have none, "file name:row number"

    Raises DataError, with file and row, for a row without the id that others have, an id that is no text or whole
    number, or a field whose name the index needs for itself.
    """
    named: bool | None = None
    for row in rows:
        column = id_column or ID
        if named is None:
            named = id_column is not None or (column in row.fields and row.column != column)
        yield _document(row, column if named else None)


def given_documents(rows: Iterable[Mapping[str, object]]) -> list[Document]:
    """Turn mappings with "id", "text" and any other fields into documents; raises as `read_documents` does."""
    if isinstance(rows, str | bytes | Mapping):
        raise SettingsError(f"expected a list of rows, each with 'id' and 'text'; got one {type(rows).__name__}")
    documents = []
    for number, given in enumerate(rows):
        if not isinstance(given, Mapping):
            raise DataError(f"row {number}: expected a mapping with 'id' and 'text', came {type(given).__name__}")
        text = given.get("text")
        if not isinstance(text, str):
            came = "nothing" if "text" not in given else f"{type(text).__name__} {text!r:.40}"
            raise DataError(f"row {number}: field 'text': expected a text, came {came}{_hint('text', given)}")
        row = Row(number=number, text=text, fields=dict(given), source="rows")
        documents.append(_document(row, ID))
    return documents


def _document(row: Row, column: str | None) -> Document:
    if column is None:
        source = "stdin" if row.source in (STDIN, "<stdin>") else Path(row.source).name
        key: object = f"{source}:{row.number}"
    elif column not in row.fields:
        raise DataError(f"{row.place}: no field {column!r}, which is the document's id{_hint(column, row.fields)}")
    else:
        key = row.fields[column]
    if isinstance(key, bool) or not isinstance(key, str | int) or key == "":
        raise DataError(f"{row.place}: field {column!r}: an id is a text or a whole number, came {key!r:.40}")
    identity = str(key)
    if "\0" in identity or _LONE_SURROGATE.search(identity):
        raise DataError(f"{row.place}: the id {identity!r:.60} holds a NUL or half a character; give another")
    fields = {name: value for name, value in row.fields.items() if name not in (row.column, column)}
    for name, value in fields.items():
        if name in RESERVED or name == ID or _OWN.fullmatch(name):
            embedded = name == "vector" and "fingerprint" in fields
            advice = ", or, if `anaume embed` wrote the file, pass vectors=True (--vectors)" if embedded else ""
            raise DataError(f"{row.place}: has a field {name!r}, a name the index needs for itself; rename it{advice}")
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"{row.place}: field {name!r} is {value}, which is no number; leave it out")
    text, surrogates = whole_characters(row.text)
    return Document(id=identity, text=text, fields=fields, place=row.place, surrogates=surrogates)


def _hint(name: str, fields: Mapping[str, object]) -> str:
    return nearest(name, fields) or f"; it has {', '.join(map(repr, fields)) or 'no fields'}"


@dataclass
class Survey:
    """What documents have in common, found in one pass before anything is written; `seen` takes them one by one."""

    documents: int = 0
    blank: int = 0
    """Documents of nothing but blanks, which nothing can find: left out."""
    first_blank: str = ""
    surrogates: int = 0
    kinds: dict[str, Kind] = field(default_factory=dict)
    """Field -> type of its column."""
    unfiltered: set[str] = field(default_factory=set)
    """Fields whose names no filter can name."""
    mixed: set[str] = field(default_factory=set)
    """Fields of several types, or of another one than their column's: filters see them as text."""
    _places: dict[str, str] = field(default_factory=dict)

    def seen(self, document: Document) -> None:
        """Count one more. Raises DataError for an id that came before."""
        if (before := self._places.get(document.id)) is not None:
            raise DataError(f"{document.place}: the id {document.id!r} came before, in {before}; ids must differ")
        self._places[document.id] = document.place
        self.documents += 1
        self.surrogates += document.surrogates
        if not document.text.strip():
            self.blank += 1
            self.first_blank = self.first_blank or document.place
            return
        document.fields_json  # noqa: B018  raises where a field can't be kept
        for name, value in document.fields.items():
            if value is None:
                continue
            if _UNFILTERED.search(name) or _LONE_SURROGATE.search(name):
                self.unfiltered.add(name)
                continue
            self.take(name, kind_of(value))

    def take(self, name: str, kind: Kind) -> None:
        """Take in that a field has values of this type, too."""
        before = self.kinds.get(name)
        self.kinds[name] = joined_kind(before, kind)
        if before not in (None, kind) and self.kinds[name] == "string":
            self.mixed.add(name)

    def messages(self) -> list[str]:
        """Return what the user must be told, with counts."""
        told = []
        if self.blank:
            told.append(f"{self.blank} documents have no text and were left out, the first: {self.first_blank}")
        if self.surrogates:
            told.append(f"{self.surrogates} lone surrogates were read as U+FFFD")
        if self.unfiltered:
            told.append(f"fields that no filter can name: {', '.join(map(repr, sorted(self.unfiltered)))}")
        if self.mixed:
            told.append(
                f"fields of several types, which filters see as texts: {', '.join(map(repr, sorted(self.mixed)))}"
            )
        return told


def whole_characters(text: str) -> tuple[str, int]:
    """Return a text as UTF-8 can hold it, each lone surrogate as U+FFFD; and how many there were."""
    return _LONE_SURROGATE.subn("\ufffd", text)


def kind_of(value: object) -> Kind:
    """Return the type of the column that holds a value; what is no text, number or truth value is held as JSON."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "string"
    return "double" if isinstance(value, float) else "string"


def joined_kind(one: Kind | None, other: Kind) -> Kind:
    """Return the type of a column that holds values of both types."""
    if one is None or one == other:
        return other
    return "double" if {one, other} == {"bigint", "double"} else "string"


def as_kind(value: object, kind: Kind) -> object:
    """Return a value as its column holds it. Raises ValueError for one the column has no place for."""
    if value is None:
        return None
    if kind == "string":
        text = value if isinstance(value, str) else json_line({"": value}).decode()[5:-2]
        return whole_characters(text)[0]
    if joined_kind(kind, kind_of(value)) != kind:
        raise ValueError(f"{value!r:.40} is no {kind}")
    # Filters see the nearest double; what a hit shows is kept apart, to the last digit.
    return float(value) if kind == "double" and isinstance(value, int) else value


def _in_json(value: object) -> bool:
    try:
        json.loads(json_line({"": value}), parse_constant=_no_number)
    except (TypeError, ValueError):
        return False
    return True


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number")
