"""A TensorFlow checkpoint ("tensor bundle"): PREFIX.index says what lies where in PREFIX.data-00000-of-00001, ...

The index is a sorted string table: under the empty key a BundleHeaderProto, under each variable's name a
BundleEntryProto (tensorflow/core/protobuf/tensor_bundle.proto). No code of TensorFlow is needed, and none is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anaume.bundle.files import one_line
from anaume.errors import BundleError
from anaume.exporting.crc32c import crc32c, unmasked
from anaume.exporting.sstable import Damaged, read_table
from anaume.exporting.wire import fields

# Numbers of DataType (tensorflow/core/framework/types.proto) -> name, bytes.
_DTYPES = {
    1: ("float32", 4),
    2: ("float64", 8),
    3: ("int32", 4),
    9: ("int64", 8),
    14: ("bfloat16", 2),
    19: ("float16", 2),
}
_SUFFIXES = (".index", ".meta")


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One variable of a checkpoint, and where its bytes lie."""

    name: str
    dtype: str
    """"float32", ..., or the number of a type that no weights have, as "type 7"."""
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    """Bytes."""
    crc: int
    """CRC-32C of the bytes."""
    sliced: bool
    """Whether it was saved in parts, as parameter servers do."""


class TensorBundle:
    """A checkpoint, its index read; `read` brings a variable.

    path  the name TensorFlow gives it, "bert_model.ckpt", or one of its files

    Raises BundleError for files that are missing, damaged or of another kind.
    """

    def __init__(self, path: str | Path) -> None:
        self.prefix = checkpoint_prefix(path)
        self.index = self.prefix.with_name(self.prefix.name + ".index")
        try:
            table = read_table(self.index.read_bytes())
            header = dict(fields(table.pop(b"")))
            found = [_variable(name.decode(), entry) for name, entry in table.items()]
        except OSError as error:
            raise BundleError(f"{self.index}: can't be read: {error.strerror}") from error
        except Damaged as error:
            raise BundleError(f"{self.index}: {error}; copy it again") from error
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise BundleError(f"{self.index}: no checkpoint's index ({one_line(error)})") from error
        if header.get(2, 0) != 0:
            raise BundleError(f"{self.index}: written on a big-endian machine, which can't be read here")
        self._shards = int(header.get(1, 1))
        self.variables = {variable.name: variable for variable in found}

    def shard(self, number: int) -> Path:
        """Return the data file of a number."""
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self._shards:05d}")

    def files(self) -> list[Path]:
        """Return the files that are read."""
        return [self.index, *(self.shard(number) for number in range(self._shards))]

    def read(self, name: str) -> npt.NDArray[np.generic]:
        """Return a variable's values; bfloat16 comes as float32. Raises BundleError for damaged or strange ones."""
        variable = self.variables[name]
        path = self.shard(variable.shard)
        size = next((size for known, size in _DTYPES.values() if known == variable.dtype), 0)
        if variable.sliced or not size:
            what = "is saved in slices" if variable.sliced else f"is of {variable.dtype}"
            raise BundleError(f"{self.index}: {name} {what}, which is not read here: save it whole, as float32")
        if int(np.prod(variable.shape, dtype=np.int64)) * size != variable.size:
            raise BundleError(f"{self.index}: {name} {variable.shape} can't have {variable.size:,} bytes: damaged")
        try:
            with path.open("rb") as file:
                file.seek(variable.offset)
                data = file.read(variable.size)
        except OSError as error:
            raise BundleError(f"{path}: can't be read: {error.strerror}; the index names it") from error
        if len(data) < variable.size:
            raise BundleError(f"{path}: ends within {name}: truncated? Copy it again")
        if crc32c(data) != variable.crc:
            raise BundleError(f"{path}: the checksum of {name} differs from the index: damaged; copy it again")
        if variable.dtype == "bfloat16":  # the upper half of a float32
            return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(variable.shape)
        return np.frombuffer(data, np.dtype(variable.dtype).newbyteorder("<")).reshape(variable.shape)


def checkpoint_prefix(path: str | Path) -> Path:
    """Return the name a checkpoint's files begin with. Raises BundleError where no index is."""
    path = Path(path)
    name = path.name
    if ".data-" in name:
        name = name[: name.rindex(".data-")]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    prefix = path.with_name(name)
    if prefix.with_name(name + ".index").is_file():
        return prefix
    if prefix.is_file():
        raise BundleError(
            f"{prefix}: a checkpoint in one file is of TensorFlow before 0.12; save it anew, as version 2"
        )
    there = sorted(prefix.parent.glob("*.index")) if prefix.parent.is_dir() else []
    hint = f"; there is {there[0].with_suffix('')}" if there else ""
    raise BundleError(f"{prefix}.index is not there: a TensorFlow checkpoint is named without its endings{hint}")


def _variable(name: str, entry: bytes) -> Variable:
    told: dict[int, int | bytes] = {}
    sliced = False
    for number, value in fields(entry):
        told[number] = value
        sliced = sliced or number == 7
    dtype, shape, crc = told.get(1, 0), told.get(2, b""), told.get(6, 0)
    if not isinstance(dtype, int) or not isinstance(shape, bytes) or not isinstance(crc, int):
        raise TypeError(name)
    dims = [dict(fields(dim)).get(1, 0) for number, dim in fields(shape) if number == 2 and isinstance(dim, bytes)]
    return Variable(
        name=name,
        dtype=_DTYPES[dtype][0] if dtype in _DTYPES else f"type {dtype}",
        shape=tuple(int(dim) for dim in dims),
        shard=int(told.get(3, 0)),
        offset=int(told.get(4, 0)),
        size=int(told.get(5, 0)),
        crc=unmasked(crc),
        sliced=sliced,
    )
