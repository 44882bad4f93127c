"""How vectors are kept, and scored: as float32, as 8-bit numbers, or as their signs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anaume.search.record import IndexRecord

VECTOR = "vector"


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
    return [pa.field(VECTOR, pa.list_(pa.float32(), record.embedding_size), nullable=False)]


def vector_arrays(vectors: NDArray[np.float32], record: IndexRecord) -> dict[str, Any]:
    """Return vectors (n, size), as `kept` gives them, as those columns."""
    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1), type=pa.float32())
    return {VECTOR: pa.FixedSizeListArray.from_arrays(flat, record.embedding_size)}


def read_vectors(column: Any) -> NDArray[np.float32]:
    """Return a column of vectors as (n, size) float32."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(array.flatten().to_numpy(zero_copy_only=False), dtype=np.float32).reshape(
        -1, array.type.list_size
    )
