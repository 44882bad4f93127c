"""How vectors are kept, and scored: as float32, as 8-bit numbers, or as their signs.

| storage | columns | bytes of 384 numbers | a stored vector is scored as |
|---|---|---|---|
| float32 | vector | 1,536 | itself |
| int8 | codes (int8), scale | 388 | codes x scale |
| binary | codes (uint8, a bit a number) | 48 | its signs, at length 1 |

With `rescore`, codes stand beside the column `vector`, which is read only for the best that the codes have found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anaume.search.record import IndexRecord

VECTOR, CODES, SCALE = "vector", "codes", "scale"
COLUMNS = (VECTOR, CODES, SCALE)


def kept(vectors: NDArray[np.float32], record: IndexRecord) -> NDArray[np.float32]:
    """Return vectors (n, size) as they are kept: for the cosine at length 1, or zero, so that it is a product."""
    if record.similarity == "dot":
        return vectors
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    scaled = vectors / np.where(largest > 0, largest, 1)  # squares of any vector then stay in the range of float32
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    return np.asarray(scaled / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def vector_fields(record: IndexRecord) -> list[Any]:
    """Return the columns vectors are kept in."""
    size, fields = record.embedding_size, []
    if record.storage == "float32" or record.rescore:
        fields.append(pa.field(VECTOR, pa.list_(pa.float32(), size), nullable=False))
    if record.storage == "int8":
        fields.append(pa.field(CODES, pa.list_(pa.int8(), size), nullable=False))
        fields.append(pa.field(SCALE, pa.float32(), nullable=False))
    if record.storage == "binary":
        fields.append(pa.field(CODES, pa.list_(pa.uint8(), -(-size // 8)), nullable=False))
    return fields


def vector_columns(record: IndexRecord) -> list[str]:
    """Return the names of these columns."""
    return [one.name for one in vector_fields(record)]


def vector_arrays(vectors: NDArray[np.float32], record: IndexRecord) -> dict[str, Any]:
    """Return vectors (n, size), as `kept` gives them, as those columns."""
    arrays: dict[str, Any] = {}
    if record.storage == "float32" or record.rescore:
        arrays[VECTOR] = _lists(vectors, pa.float32())
    if record.storage == "int8":
        codes, scale = eight_bits(vectors)
        arrays |= {CODES: _lists(codes, pa.int8()), SCALE: pa.array(scale, type=pa.float32())}
    if record.storage == "binary":
        arrays[CODES] = _lists(signs(vectors), pa.uint8())
    return arrays


def eight_bits(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return int8 codes (n, size) and scales (n,): a vector is about codes x scale, its largest number exact."""
    scale = np.abs(vectors).max(axis=1, initial=0.0) / 127
    codes = np.rint(vectors / np.where(scale > 0, scale, 1)[:, None])
    return codes.astype(np.int8), scale.astype(np.float32)


def signs(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a bit a number, set above zero: (n, size / 8, rounded up)."""
    return np.packbits(vectors > 0, axis=1)


def stored_scores(rows: Any, query: NDArray[np.float32], record: IndexRecord) -> NDArray[np.float32]:
    """Return the score of rows (an Arrow table or batch) against a query (size,), by the finest there is of them."""
    names = rows.schema.names
    if VECTOR in names:
        return np.asarray(read_lists(rows[VECTOR]) @ query, dtype=np.float32)
    return code_scores(rows, query, record)


def code_scores(rows: Any, query: NDArray[np.float32], record: IndexRecord) -> NDArray[np.float32]:
    """Return the score of rows against a query (size,), by their codes."""
    codes = read_lists(rows[CODES])
    if record.storage == "int8":
        scale = np.asarray(rows[SCALE].to_numpy(), dtype=np.float32)
        return np.asarray((codes.astype(np.float32) @ query) * scale, dtype=np.float32)
    size = record.embedding_size
    ones = np.unpackbits(codes, axis=1, count=size).astype(np.float32) * 2 - 1
    return np.asarray(ones @ query / np.sqrt(size), dtype=np.float32)


def read_lists(column: Any) -> NDArray[Any]:
    """Return a column of lists as an array (n, length)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(array.flatten().to_numpy(zero_copy_only=False)).reshape(-1, array.type.list_size)


def _lists(values: NDArray[Any], kind: Any) -> Any:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1), type=kind)
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
