"""Records out of each format: (row number, fields), or (row number, text) where a format has no fields.

The standard library reads csv, tsv and JSON lines, because pyarrow's readers turn "NA" into null, "007" into 7 and lose
row numbers; pyarrow reads Parquet.
"""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from anaume.data.files import STDIN, TextFile
from anaume.errors import DataError

Format = Literal["txt", "csv", "tsv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

Header = bool | Callable[[list[str]], Sequence[str] | None]
"""Whether a table's first line names the columns; or what tells from its cells: the names, if it is a row already."""

OBJECT_LIMIT = 1 << 27  # bytes of one JSON object: its text, twice and decoded, must fit into memory
# The csv module's own limit is 131,072 characters, less than one long legal document. Some limit must stay: a quote
# never closed would otherwise draw the rest of the file into memory.
_CELL_LIMIT = 1 << 26
_PARQUET_ROWS = 1024  # read at once: bounds memory whatever the file's row groups are
_csv_lock = threading.Lock()


def listed(names: Iterable[str]) -> str:
    """Name columns in a message."""
    return ", ".join(repr(name) for name in names) or "no columns"


def _whole(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):  # json would keep the last of them without a word
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(n for n in names if names.count(n) > 1)!r} comes twice")
    return made


JSON = json.JSONDecoder(object_pairs_hook=_whole)
"""Raises ValueError (RecursionError for thousands of brackets) for what is not JSON or names a field twice."""


def text_records(
    file: TextFile, kind: Format, quoting: bool | None, header: Header
) -> Iterator[tuple[int, dict[str, object] | str]]:
    """Yield the records of txt, csv, tsv or jsonl; the number is the line where the record starts, from 1.

    Raises:
        DataError: a record that does not parse or fit the header, with file and row.
    """
    if kind == "txt":
        yield from enumerate(file.lines(), 1)
    elif kind == "jsonl":
        yield from _json_records(file)
    else:
        quoted = kind == "csv" if quoting is None else quoting
        yield from _table_records(file, "," if kind == "csv" else "\t", quoted, header)


def _json_records(file: TextFile) -> Iterator[tuple[int, dict[str, object] | str]]:
    for number, line in enumerate(file.lines(longest=OBJECT_LIMIT), 1):
        if not line.strip(" \t\r"):
            continue
        try:
            value = JSON.decode(line)
        except (ValueError, RecursionError) as error:
            array = "; a JSON array? one object a line is expected" if number == 1 and line.startswith("[") else ""
            raise DataError(f"{file.name}: row {number}: not JSON: {error}{array}") from error
        if not isinstance(value, dict | str):
            came = "null" if value is None else f"{type(value).__name__} {value!r:.40}"
            raise DataError(f"{file.name}: row {number}: expected a JSON object or a text, came {came}")
        yield number, value


def _table_records(
    file: TextFile, delimiter: str, quoted: bool, header: Header
) -> Iterator[tuple[int, dict[str, object]]]:
    names: list[str] | None = None
    blank: int | None = None
    for number, cells in _quoted_cells(file, delimiter) if quoted else _plain_cells(file, delimiter):
        if names is None:
            given = header(cells) if callable(header) else None
            numbered = [str(place) for place in range(1, len(cells) + 1)]
            names = list(given) if given is not None else cells if header else numbered
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise DataError(f"{file.name}: row {number}: the header names {listed(twice)} twice")
            if header and given is None:
                continue
        if cells in ([], [""]) and len(names) > 1:
            blank = blank or number
            continue
        if blank is not None:  # a blank line with rows after it is a row that lost its cells
            raise DataError(
                f"{file.name}: row {blank}: a blank line, expected {len(names)} cells ({listed(names)}); leave it out"
            )
        cells = cells or [""]  # one column: a blank line is an empty text
        if len(cells) != len(names):
            switch = f"quoting={not quoted} (--{'no-' if quoted else ''}quoting)"
            quotes = switch if delimiter == "\t" else "a quoted comma"
            raise DataError(
                f"{file.name}: row {number}: {len(cells)} cells, expected {len(names)} ({listed(names)}); "
                f"mend the row, or does the file need {quotes}?"
            )
        yield number, dict(zip(names, cells, strict=True))


def _plain_cells(file: TextFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(file.lines(), 1):
        cells = line.split(delimiter)
        _refuse_nul(file, number, cells)
        yield number, cells


def _quoted_cells(file: TextFile, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    with _csv_lock:  # the limit is the module's, for the whole process: only ever raised
        csv.field_size_limit(max(csv.field_size_limit(), _CELL_LIMIT))
    # Strict: a quote never closed, or text after a closing one, is an error rather than another text.
    reader = csv.reader(file.lines(keep_ends=True), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            reason = str(error)
            if "field limit" in reason:
                reason = f"a cell of more than {_CELL_LIMIT:,} characters; is a quote never closed?"
            elif "new-line character" in reason:
                reason = "a CR without LF outside quotes; only LF and CRLF end a line"
            elif "unexpected end" in reason:
                reason = "a quote is opened and never closed"
            raise DataError(f"{file.name}: row {number}: {reason}; quoting=False reads quotes as text") from error
        if cells is None:
            return
        _refuse_nul(file, number, cells)
        yield number, cells


def _refuse_nul(file: TextFile, number: int, cells: list[str]) -> None:
    for place, cell in enumerate(cells, 1):
        if "\0" in cell:
            raise DataError(f"{file.name}: row {number}: cell {place} holds a NUL; is the file UTF-16 or binary?")


def parquet_records(path: str | Path, source: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield a Parquet file's rows, numbered from 1, a bounded number in memory at a time.

    Raises:
        DataError: not a Parquet file, a broken one, or a value Python can't hold, with file, row and field.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if str(path) == STDIN:
        raise DataError("Parquet is read from its end, so not from stdin; save it to a file first")
    number = 0
    try:
        # By handle: pyarrow takes no name that is not UTF-8.
        with open(path, "rb") as source_file, pq.ParquetFile(source_file) as file:
            names: list[str] = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise DataError(f"{source}: two columns have one name among {listed(names)}")
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                columns = [_values(array, name, source, number) for array, name in zip(batch, names, strict=True)]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield number, dict(zip(names, cells, strict=True))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source}: after row {number}: can't be read as Parquet: {error}") from error


def _values(array: Any, name: str, source: str, before: int) -> list[object]:
    """Return a column's values as Python's, naming the row of one that has no such form."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):
        for number, value in enumerate(array, before + 1):
            try:
                value.as_py()
            except (ValueError, OverflowError) as error:
                raise DataError(f"{source}: row {number}: field {name!r}: {error}") from error
        raise
