"""Vector files read back, with the fingerprint that says which of them may meet."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaume.data.files import open_text
from anaume.data.records import text_records
from anaume.data.vectors import (
    FINGERPRINT,
    FINGERPRINT_KEY,
    METADATA,
    METADATA_KEY,
    VECTOR,
    sidecar_path,
    vector_format,
)
from anaume.errors import AnaumeWarning, DataError

# Close enough to be searched together, with a note; int8 and static vectors meet only their own kind.
_MIXABLE = {"float32", "bfloat16"}
_HASHED_ROWS = 4096
_EXPECTED = f"expected the fields {VECTOR!r} and {FINGERPRINT!r}, which `anaume embed` writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVectors:
    """What a vector file holds: vectors float32 (n, size), and rows, the fields kept with them (None for .npy).

    fingerprint is None only for a .jsonl file without rows, which has nowhere to keep one.
    """

    source: str
    vectors: NDArray[np.float32]
    fingerprint: str | None
    metadata: dict[str, str]
    rows: list[dict[str, object]] | None = None


def read_vectors(path: str | Path) -> StoredVectors:
    """Read a file `open_vectors` wrote, whole, into memory.

    Raises:
        DataError: no such file, no vectors or no fingerprint in it, vectors that are not finite, or a .npy file and a
            sidecar that do not belong together.
    """
    ending = vector_format(path)
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file")
    reader = {".npy": _read_npy, ".jsonl": _read_jsonl, ".parquet": _read_parquet}[ending]
    stored = reader(Path(path))
    finite = np.isfinite(stored.vectors).all(axis=1)
    if not finite.all():
        number = int(finite.argmin())
        fields = stored.rows[number] if stored.rows else {}
        named = f", of id {fields['id']!r}," if "id" in fields else ""
        raise DataError(f"{path}: vector {number + 1}{named} is not finite")
    return stored


def read_about(path: str | Path) -> tuple[str | None, dict[str, str]]:
    """Return the fingerprint and metadata of a file `open_vectors` wrote, without holding its vectors in memory.

    The fingerprint is None only for a .jsonl file without rows. A .npy file is read through once, to see that its
    sidecar is its own.

    Raises:
        DataError: as `read_vectors`, as far as the first row shows it.
    """
    ending = vector_format(path)
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file")
    reader = {".npy": _about_npy, ".jsonl": _about_jsonl, ".parquet": _about_parquet}[ending]
    return reader(Path(path))


def join(first: StoredVectors, second: StoredVectors) -> StoredVectors:
    """Put two files' vectors one after the other; metadata is kept where both agree.

    Raises:
        DataError: different fingerprints or sizes, or precisions that never mix. float32 and bfloat16 mix with an
            AnaumeWarning.
    """
    for empty, other in ((first, second), (second, first)):
        if empty.fingerprint is None:
            return other
    names = f"{first.source} and {second.source}"
    if first.fingerprint != second.fingerprint or first.vectors.shape[1] != second.vectors.shape[1]:
        sizes = first.vectors.shape[1], second.vectors.shape[1]
        told = [f" (size {size})" if len(set(sizes)) > 1 else "" for size in sizes]
        raise DataError(
            f"{names} were made by different models or settings and can't be mixed: {first.source} has fingerprint "
            f"{first.fingerprint}{told[0]}, {second.source} {second.fingerprint}{told[1]}; embed one of them again"
        )
    metadata = {key: value for key, value in first.metadata.items() if second.metadata.get(key) == value}
    precisions = {first.metadata.get("precision"), second.metadata.get("precision")}
    if len(precisions) > 1:
        if precisions != _MIXABLE:
            raise DataError(
                f"{names} have precision {first.metadata.get('precision')} and {second.metadata.get('precision')}, "
                "which are not near enough to be mixed; embed one of them again"
            )
        warnings.warn(f"{names} mix float32 and bfloat16 vectors", AnaumeWarning, stacklevel=2)
        metadata["precision"] = "bfloat16"
    rows = None if first.rows is None or second.rows is None else first.rows + second.rows
    return StoredVectors(
        source=names,
        vectors=np.concatenate([first.vectors, second.vectors]),
        fingerprint=first.fingerprint,
        metadata=metadata,
        rows=rows,
    )


def _read_npy(path: Path) -> StoredVectors:
    vectors = _load_npy(path)
    fingerprint, metadata = _about_npy(path)
    return StoredVectors(source=str(path), vectors=np.array(vectors), fingerprint=fingerprint, metadata=metadata)


def _load_npy(path: Path) -> NDArray[np.float32]:
    """Return the array of a .npy file, mapped, not read."""
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a .npy file of numbers: {error}") from error
    if not isinstance(vectors, np.ndarray) or vectors.ndim != 2 or vectors.dtype != np.float32:
        raise DataError(f"{path}: expected float32 vectors (n, size), came {type(vectors).__name__} of another kind")
    return vectors


def _about_npy(path: Path) -> tuple[str, dict[str, str]]:
    vectors, sidecar = _load_npy(path), sidecar_path(path)
    if not sidecar.is_file():
        raise DataError(
            f"{path}: {sidecar.name}, which says what made these vectors, is missing; move both files together"
        )
    try:
        about = json.loads(sidecar.read_bytes())
        fingerprint, digest, metadata = about[FINGERPRINT], about["sha256"], about["metadata"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{sidecar}: not what anaume writes beside a .npy file: {error!r}") from error
    found = hashlib.sha256()
    for start in range(0, len(vectors), _HASHED_ROWS):
        found.update(np.ascontiguousarray(vectors[start : start + _HASHED_ROWS], dtype="<f4").tobytes())
    if found.hexdigest() != digest:
        raise DataError(f"{path}: {sidecar.name} was written for other vectors (its sha256 differs); write both again")
    return fingerprint, metadata


def _read_jsonl(path: Path) -> StoredVectors:
    vectors: list[NDArray[np.float32]] = []
    rows: list[dict[str, object]] = []
    first: tuple[object, object, int] | None = None
    with open_text(path) as file:
        for number, record in text_records(file, "jsonl", quoting=None, header=True):
            place = f"{path}: row {number}"
            if isinstance(record, str) or VECTOR not in record or not isinstance(record.get(FINGERPRINT), str):
                raise DataError(f"{place}: {_EXPECTED}")
            try:
                vector = np.asarray(record.pop(VECTOR))
            except ValueError as error:
                raise DataError(f"{place}: {VECTOR!r} is no list of numbers") from error
            if vector.ndim != 1 or vector.dtype.kind not in "fi":
                raise DataError(f"{place}: {VECTOR!r} is no list of numbers")
            about = (record.pop(FINGERPRINT), record.pop(METADATA, {}), len(vector))
            first = first or about
            if about != first:
                raise DataError(
                    f"{place}: fingerprint {about[0]}, size {about[2]} and metadata {about[1]} differ from "
                    f"the first row's {first[0]}, {first[2]} and {first[1]}; vectors of different models can't be mixed"
                )
            vectors.append(vector.astype(np.float32))
            rows.append(record)
    if first is None:
        return StoredVectors(
            source=str(path), vectors=np.empty((0, 0), dtype=np.float32), fingerprint=None, metadata={}, rows=[]
        )
    fingerprint, metadata, _ = first
    if not isinstance(fingerprint, str) or not isinstance(metadata, dict):
        raise DataError(f"{path}: {METADATA!r} is no object")
    return StoredVectors(
        source=str(path), vectors=np.stack(vectors), fingerprint=fingerprint, metadata=metadata, rows=rows
    )


def _about_jsonl(path: Path) -> tuple[str | None, dict[str, str]]:
    with open_text(path) as file:
        for number, record in text_records(file, "jsonl", quoting=None, header=True):
            fingerprint = None if isinstance(record, str) else record.get(FINGERPRINT)
            metadata = {} if isinstance(record, str) else record.get(METADATA, {})
            if not isinstance(fingerprint, str) or not isinstance(metadata, dict):
                raise DataError(f"{path}: row {number}: {_EXPECTED}")
            return fingerprint, metadata
    return None, {}


def _about_parquet(path: Path) -> tuple[str, dict[str, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as file:  # by handle: pyarrow takes no name that is not UTF-8
            schema = pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: can't be read as Parquet: {error}") from error
    about = schema.metadata or {}
    if FINGERPRINT_KEY not in about or VECTOR not in schema.names:
        raise DataError(f"{path}: has no vectors of anaume's: no column {VECTOR!r}, or no fingerprint in its schema")
    return about[FINGERPRINT_KEY].decode(), json.loads(about.get(METADATA_KEY, b"{}"))


def _read_parquet(path: Path) -> StoredVectors:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as file:
            table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: can't be read as Parquet: {error}") from error
    about = table.schema.metadata or {}
    if FINGERPRINT_KEY not in about or VECTOR not in table.column_names:
        raise DataError(f"{path}: has no vectors of anaume's: no column {VECTOR!r}, or no fingerprint in its schema")
    kind = table.schema.field(VECTOR).type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32() or table[VECTOR].null_count:
        raise DataError(f"{path}: column {VECTOR!r} is {kind}, expected fixed_size_list<float32> without nulls")
    vectors = table[VECTOR].combine_chunks().flatten().to_numpy().reshape(-1, kind.list_size)
    return StoredVectors(
        source=str(path),
        vectors=vectors.astype(np.float32),
        fingerprint=about[FINGERPRINT_KEY].decode(),
        metadata=json.loads(about.get(METADATA_KEY, b"{}")),
        rows=table.drop_columns([VECTOR]).to_pylist(),
    )
