"""The table of an index: a row a passage, metadata as columns that filters can name.

| column | holds |
|---|---|
| id, _document | the document's id, and its digest: what tells whether it has changed |
| _passage, _passages, _start, _end | which passage of how many, and its characters in the document |
| text, _coverage | the passage, and the share of it that the model saw |
| vector (codes, scale) | see vectors.py |
| _fields | all metadata, as JSON |
| (others) | metadata again, a column a field |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anaume.errors import DataError
from anaume.search.documents import Document, Kind, as_kind, joined_kind
from anaume.search.passages import Span
from anaume.search.record import IndexRecord
from anaume.search.store import said
from anaume.search.vectors import COLUMNS, vector_arrays, vector_fields

RECORD_KEY = b"anaume.index"
_LOOKUP = 2000  # ids asked for at once
_TYPES: dict[Kind, Any] = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
OWN = ("id", "_document", "_passage", "_passages", "_start", "_end", "text", "_coverage", "_fields")


def schema_of(record: IndexRecord, kinds: Mapping[str, Kind]) -> Any:
    """Return the Arrow schema of a new table, with the record in its metadata."""
    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("_document", pa.string(), nullable=False),
        pa.field("_passage", pa.int32(), nullable=False),
        pa.field("_passages", pa.int32(), nullable=False),
        pa.field("_start", pa.int64(), nullable=False),
        pa.field("_end", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("_coverage", pa.float32(), nullable=False),
        pa.field("_fields", pa.string(), nullable=False),
        *vector_fields(record),
        *(pa.field(name, _TYPES[kind]) for name, kind in kinds.items()),
    ]
    return pa.schema(fields, metadata={RECORD_KEY: record.to_json().encode()})


def record_of(table: Any, where: str) -> IndexRecord:
    """Return the record of a table. Raises DataError for a table without one."""
    text = (table.schema.metadata or {}).get(RECORD_KEY)
    if text is None:
        raise DataError(f"{where}: a table that anaume did not make; it can't be told which model made its vectors")
    return IndexRecord.from_json(text.decode(), where)


def kinds_of(table: Any) -> dict[str, Kind]:
    """Return metadata column -> its type."""
    names = {kind: name for name, kind in _TYPES.items()}
    own = {*OWN, *COLUMNS}
    return {field.name: names[field.type] for field in table.schema if field.name not in own}


def grow(table: Any, kinds: Mapping[str, Kind], where: str) -> None:
    """Give the table a column for each field it lacks; rows that are there have null in it.

    Raises DataError for a field whose values its column has no place for.
    """
    there = kinds_of(table)
    for name, kind in kinds.items():
        if name in there and there[name] != "string" and joined_kind(there[name], kind) != there[name]:
            raise DataError(
                f"{where}: field {name!r} holds {there[name]} there, and here {kind}; make the values alike"
            )
    if missing := {name: f"cast(NULL as {kind})" for name, kind in kinds.items() if name not in there}:
        with said(where):
            table.add_columns(missing)


@dataclass(frozen=True, kw_only=True)
class Passages:
    """What is written of one document."""

    document: Document
    spans: list[Span]
    vectors: NDArray[np.float32]
    """(passages, embedding_size)"""
    coverage: NDArray[np.float64]
    """(passages,)"""


def rows_of(written: Sequence[Passages], record: IndexRecord, schema: Any) -> Any:
    """Return the rows of documents as an Arrow table of this schema."""
    each = [(one, number, span) for one in written for number, span in enumerate(one.spans)]
    documents = [one.document for one, _, _ in each]
    vectors = np.concatenate([one.vectors for one in written])
    columns: dict[str, Any] = {
        "id": [document.id for document in documents],
        "_document": [document.digest for document in documents],
        "_passage": [number for _, number, _ in each],
        "_passages": [len(one.spans) for one, _, _ in each],
        "_start": [start for _, _, (start, _) in each],
        "_end": [end for _, _, (_, end) in each],
        "text": [one.document.text[start:end] for one, _, (start, end) in each],
        "_coverage": np.concatenate([one.coverage for one in written]).astype(np.float32),
        "_fields": [document.fields_json for document in documents],
        **vector_arrays(vectors, record),
    }
    types = {kind: name for name, kind in _TYPES.items()}
    for column in schema:
        if column.name not in columns:
            columns[column.name] = [_value(document, column.name, types[column.type]) for document in documents]
    return pa.table([pa.array(columns[one.name], type=one.type) for one in schema], schema=schema)


def _value(document: Document, name: str, kind: Kind) -> object:
    try:
        return as_kind(document.fields.get(name), kind)
    except ValueError as error:
        raise DataError(f"{document.place}: field {name!r}: {error}, as the index holds it; mend the row") from error


def digests(table: Any, ids: Iterable[str], where: str) -> dict[str, str]:
    """Return id -> digest for those of these ids that the table has."""
    wanted = list(ids)
    found: dict[str, str] = {}
    for start in range(0, len(wanted), _LOOKUP):
        condition = f"{among(wanted[start : start + _LOOKUP])} AND _passage = 0"
        with said(where):
            rows = table.search().where(condition).select(["id", "_document"]).to_arrow()
        found.update(zip(rows["id"].to_pylist(), rows["_document"].to_pylist(), strict=True))
    return found


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def replace(table: Any, rows: Any, ids: Sequence[str], where: str) -> None:
    """Write rows, in the place of all rows of these documents, in one commit."""
    with said(where):
        (
            table.merge_insert(["id", "_passage"])
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .when_not_matched_by_source_delete(among(ids))  # a document may have fewer passages now
            .execute(rows)
        )


def among(ids: Sequence[str]) -> str:
    """Return the condition that the id is one of these."""
    return f"id IN ({', '.join(quoted(one) for one in ids)})"


def stored_documents(table: Any, where: str) -> Iterator[Document]:
    """Put the documents together again from their passages. Raises DataError where passages are missing."""
    columns = ["id", "_passage", "_passages", "_start", "_end", "text", "_fields"]
    begun: dict[str, dict[int, dict[str, Any]]] = {}
    with said(where):
        batches = table.search().select(columns).to_batches(1024)
    for batch in batches:
        for row in batch.to_pylist():
            parts = begun.setdefault(row["id"], {})
            parts[row["_passage"]] = row
            if len(parts) == row["_passages"]:
                yield _whole(begun.pop(row["id"]), where)
    if begun:
        name, parts = next(iter(begun.items()))
        raise DataError(f"{where}: {len(parts)} passages of document {name!r} are there, others are missing")


def _whole(parts: Mapping[int, Mapping[str, Any]], where: str) -> Document:
    text = ""
    for number in range(len(parts)):
        part = parts[number]
        text += part["text"][len(text) - part["_start"] :]  # what overlaps is there already
    first = parts[0]
    place = f"{where}: document {first['id']!r}"
    return Document(id=first["id"], text=text, fields=json.loads(first["_fields"]), place=place)
