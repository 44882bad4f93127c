"""Vectors on disk, streamed in and read back, each file saying which fingerprint made them.

| ending | vectors | rows' fields | fingerprint and metadata |
|---|---|---|---|
| .npy | float32 (n, size) | not kept | beside it, in NAME.npy.json, with the array's sha256 |
| .jsonl | field "vector" | kept | fields "fingerprint" and, where there is metadata, "vector_metadata" |
| .parquet | column "vector", fixed_size_list<float32> | kept, see columns.py | schema metadata |

Vectors of different fingerprints live in different spaces: `join` refuses them, and so must every search.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from anaume.data.atomic import atomic_file
from anaume.data.rows import Row
from anaume.errors import AnaumeWarning, DataError, SettingsError

VECTOR, FINGERPRINT, METADATA = "vector", "fingerprint", "vector_metadata"
# The keys of the Parquet schema.
FINGERPRINT_KEY, METADATA_KEY = b"anaume.fingerprint", b"anaume.metadata"

_PARQUET_ROWS = 1024  # a row group at least, and how many rows fix the schema


class VectorWriter(ABC):
    """Takes rows with their vectors, in output order; made by `open_vectors`. rows_written counts them."""

    reserved: tuple[str, ...] = ()

    def __init__(self, file: BinaryIO, fingerprint: str, size: int, extra: Mapping[str, str]) -> None:
        self.file = file
        self.fingerprint = fingerprint
        self.size = size
        self.extra = dict(extra)
        self.rows_written = 0

    def write(self, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
        """Append rows with their vectors, float32 (len(rows), size).

        Raises:
            SettingsError: another shape or dtype.
            DataError: a vector that is not finite, or a field the format can't take; names the row.
        """
        if vectors.shape != (len(rows), self.size) or vectors.dtype != np.float32:
            raise SettingsError(
                f"expected float32 vectors ({len(rows)}, {self.size}), came {vectors.dtype} {vectors.shape}"
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            row = rows[int(finite.argmin())]
            raise DataError(f"{row.place}: its vector is not finite; a search would never find it: check the model")
        for row in rows:
            for name in self.reserved:
                if name in row.fields:
                    raise DataError(f"{row.place}: has a field {name!r} already, which the vectors need; rename it")
        self._append(rows, vectors)
        self.rows_written += len(rows)

    @abstractmethod
    def _append(self, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Write what closes the file; `open_vectors` calls it."""

    def abandon(self) -> None:  # noqa: B027  only Parquet has something to let go
        """Let go of the file after an error, writing no more."""


class _Npy(VectorWriter):
    """The header has a fixed length, so that the final count can be written into it at the end."""

    def __init__(self, file: BinaryIO, fingerprint: str, size: int, extra: Mapping[str, str]) -> None:
        super().__init__(file, fingerprint, size, extra)
        self.digest = hashlib.sha256()
        self._header()

    def _header(self) -> None:
        shape = f"({self.rows_written}, {self.size})"
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        self.file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii"))

    def _append(self, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
        data = vectors.astype("<f4").tobytes()
        self.digest.update(data)
        self.file.write(data)

    def finish(self) -> None:
        self.file.seek(0)
        self._header()

    def sidecar(self) -> bytes:
        about = {
            FINGERPRINT: self.fingerprint,
            "rows": self.rows_written,
            "size": self.size,
            "sha256": self.digest.hexdigest(),
            "metadata": self.extra,
        }
        return json.dumps(about, ensure_ascii=False, indent=2).encode() + b"\n"


class _Jsonl(VectorWriter):
    reserved = (VECTOR, FINGERPRINT, METADATA)

    def _append(self, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
        about = {FINGERPRINT: self.fingerprint} | ({METADATA: self.extra} if self.extra else {})
        for row, vector in zip(rows, vectors.tolist(), strict=True):
            record = {**row.record(), VECTOR: vector, **about}
            try:
                self.file.write(json_line(record))
            except (TypeError, ValueError) as error:
                raise DataError(f"{row.place}: a field can't be written as JSON: {error}") from error

    def finish(self) -> None:
        """A file of lines needs no end."""


class _Parquet(VectorWriter):
    reserved = (VECTOR,)

    def __init__(self, file: BinaryIO, fingerprint: str, size: int, extra: Mapping[str, str]) -> None:
        from anaume.data.columns import ColumnWriter

        super().__init__(file, fingerprint, size, extra)
        self.columns = ColumnWriter()
        self._writer: Any = None
        self._rows: list[Row] = []
        self._vectors: list[NDArray[np.float32]] = []

    def _append(self, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
        self._rows.extend(rows)
        self._vectors.append(vectors.copy())  # the caller may reuse its buffer before the group is full
        if len(self._rows) >= _PARQUET_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = self.columns.arrays(self._rows)
        flat = np.concatenate([np.empty((0, self.size), dtype=np.float32), *self._vectors]).reshape(-1)
        arrays[VECTOR] = pa.FixedSizeListArray.from_arrays(pa.array(flat, type=pa.float32()), self.size)
        about = {FINGERPRINT_KEY: self.fingerprint.encode(), METADATA_KEY: json.dumps(self.extra).encode()}
        schema = pa.schema([(name, array.type) for name, array in arrays.items()], metadata=about)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.file, schema)
        self._writer.write_table(pa.table(list(arrays.values()), schema=schema))
        self._rows, self._vectors = [], []

    def finish(self) -> None:
        if self._rows or self._writer is None:  # without rows too: an empty file still has its schema
            self._write_group()
        self._writer.close()
        if count := self.columns.surrogates_replaced:
            warnings.warn(f"{count} lone surrogates in fields were written as U+FFFD", AnaumeWarning, stacklevel=2)

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # else its end of life would write a footer into a closed file


_WRITERS: dict[str, type[VectorWriter]] = {".npy": _Npy, ".jsonl": _Jsonl, ".parquet": _Parquet}


def vector_format(path: str | Path) -> str:
    """Return the ending of a vector file, '.npy', '.jsonl' or '.parquet'.

    Raises:
        DataError: another ending.
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        raise DataError(f"{path}: vectors are kept in files ending in {', '.join(_WRITERS)}, not {ending or 'none'!r}")
    return ending


@contextmanager
def open_vectors(
    path: str | Path, *, fingerprint: str, size: int, extra: Mapping[str, str] | None = None
) -> Iterator[VectorWriter]:
    """Open a vector file for writing by its ending; it appears, whole, when the block ends well.

    size: the embedding size; extra: what else to keep (precision, the bundle's name). No row at all makes a valid file.

    Raises:
        DataError: another ending, or a place that can't be written (at once, not after the work is done).
        SettingsError: a size below 1 or an empty fingerprint.
    """
    ending = vector_format(path)
    if size < 1 or not fingerprint:
        raise SettingsError(f"expected a size of at least 1 and a fingerprint, came {size} and {fingerprint!r}")
    with atomic_file(path) as file:
        writer = _WRITERS[ending](file, fingerprint, size, extra or {})
        try:
            yield writer
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
    if isinstance(writer, _Npy):
        # Killed between the two files, the new array stands by the old sidecar: the sha256 tells, and reading refuses.
        with atomic_file(sidecar_path(path)) as file:
            file.write(writer.sidecar())


def vector_lines(
    file: BinaryIO, *, fingerprint: str, size: int, extra: Mapping[str, str] | None = None
) -> VectorWriter:
    """Return a writer of JSON lines, as in a .jsonl vector file, into a binary stream (stdout) that stays open."""
    return _Jsonl(file, fingerprint, size, extra or {})


def sidecar_path(path: str | Path) -> Path:
    """Return where a .npy file's fingerprint is kept."""
    return Path(f"{path}.json")


def json_line(record: dict[str, object]) -> bytes:
    """Return a record as a line of JSON. Raises TypeError for a value that JSON has no form for."""
    line = json.dumps(record, ensure_ascii=False, default=_as_json)
    try:
        return line.encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates: JSON can escape what UTF-8 can't hold
        return json.dumps(record, default=_as_json).encode() + b"\n"


def _as_json(value: object) -> str:
    """Write the types that come from Parquet and that JSON lacks."""
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} {value!r:.40}")
