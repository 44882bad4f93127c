"""Rows' fields as Arrow columns, for Parquet: one schema a file, nothing bent to fit it.

The rule: the first group of rows a writer hands over fixes the columns and their types (integers and floats together
make a float column; a column with nothing but null becomes text). A missing field is null. Later on, a field that no
row of the first group had, or a value that its column can't hold unchanged, is an error naming row and field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from anaume.data.rows import Row
from anaume.errors import DataError, nearest

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ColumnWriter:
    """Turns groups of rows into Arrow arrays under the schema that the first group fixed.

    surrogates_replaced counts the lone surrogates written as U+FFFD, since Arrow's text is UTF-8 and can't hold them.
    """

    def __init__(self) -> None:
        self.types: dict[str, Any] | None = None
        self.surrogates_replaced = 0

    def arrays(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Return one Arrow array a column, in the schema's order.

        Raises:
            DataError: a field or value the schema has no place for, naming row and field.
        """
        records = [row.record() for row in rows]
        if self.types is None:
            self.types = dict.fromkeys(name for record in records for name in record)
        for row, record in zip(rows, records, strict=True):
            if new := next((name for name in record if name not in self.types), None):
                raise DataError(
                    f"{row.place}: field {new!r}{nearest(new, self.types)} occurs in none of the first rows, which fix "
                    "a Parquet file's columns; write .jsonl, or give every row the field"
                )
        made = {}
        for name in self.types:
            values = [self._clean(record.get(name)) for record in records]
            made[str(self._clean(name))] = array = _array(rows, name, values, self.types[name])
            self.types[name] = array.type
        return made

    def _clean(self, value: object) -> object:
        if isinstance(value, str):
            clean, count = _LONE_SURROGATE.subn("\ufffd", value)
            self.surrogates_replaced += count
            return clean
        if isinstance(value, list | tuple):
            return [self._clean(part) for part in value]
        if isinstance(value, Mapping):
            return {self._clean(key): self._clean(part) for key, part in value.items()}
        return value


def _array(rows: Sequence[Row], name: str, values: list[object], kind: Any) -> Any:
    """Return the values as one array of this type (None: found from them), or raise naming the row that doesn't fit."""
    try:
        array = pa.array(values, type=kind)
        if pa.types.is_null(array.type):
            array = array.cast(pa.string())
        back = array.to_pylist()
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise DataError(f"{_first_misfit(rows, values, kind).place}: field {name!r}: {error}; write .jsonl") from error
    # Arrow cuts 2.5 to 2 for an integer column and drops keys an object column lacks, both without a word.
    if back != values:
        for row, value, stored in zip(rows, values, back, strict=True):
            if not _same(value, stored):
                raise DataError(
                    f"{row.place}: field {name!r}: {value!r:.60} does not fit the column's type {array.type}, which "
                    "the first rows fixed; write .jsonl, or make the values alike"
                )
    if pa.types.is_struct(array.type) and not array.type.num_fields:
        raise DataError(f"{rows[0].place}: field {name!r}: Parquet has no empty objects; write .jsonl")
    return array


def _first_misfit(rows: Sequence[Row], values: list[object], kind: Any) -> Row:
    """Return the row at which the conversion starts to fail."""
    fits, fails = 0, len(values)
    while fails - fits > 1:  # by halves: types found from the values depend on all the values before
        middle = (fits + fails) // 2
        try:
            pa.array(values[:middle], type=kind)
            fits = middle
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            fails = middle
    return rows[fails - 1]


def _same(value: object, stored: object) -> bool:
    """Whether a value came back unchanged; keys missing from an object may come back as null."""
    if isinstance(value, Mapping):
        return (
            isinstance(stored, Mapping)
            and value.keys() <= stored.keys()
            and all(_same(value.get(key), part) for key, part in stored.items())
        )
    if isinstance(value, list):
        return (
            isinstance(stored, list)
            and len(value) == len(stored)
            and all(_same(one, other) for one, other in zip(value, stored, strict=True))
        )
    return value == stored or (value != value and stored != stored)  # NaN
