"""A tokenised corpus on disk: memory-mapped Arrow shards, and the one file that says it is complete.

    CORPUS/
      corpus.json             what it was made from and how; written last: without it there is no corpus
      tokenizer/              the tokenizer, as `Tokenizer.save` writes it
      token_counts.npy        int64 (2, vocab_size): how often each token occurs in train and in held-out
      train-00000.arrow ...   shards: Arrow IPC files of one row, a list a column
      held-out-00000.arrow ...

A shard holds no special tokens, no empty sentence and no empty document.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from anaume.data.atomic import atomic_file
from anaume.errors import DataError, SettingsError, nearest

Split = Literal["train", "held-out"]
SPLITS: tuple[Split, ...] = get_args(Split)

FORMAT_VERSION = 1
RECORD, TOKENIZER, COUNTS = "corpus.json", "tokenizer", "token_counts.npy"
PARTIAL = ".partial"
"""What the folder's name ends in while the corpus is being made."""

_AGAIN = "prepare it again (anaume prepare ... --overwrite)"
_FORMAT_KEY, _FORMAT = b"anaume.shard", b"1"
_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("token_ids", np.int32),
    ("word_starts", np.uint8),
    ("sentence_starts", np.int64),
    ("document_starts", np.int64),
)


@dataclass(frozen=True, kw_only=True)
class ShardCounts:
    """How much a shard holds."""

    documents: int
    sentences: int
    tokens: int
    characters: int


class Shard:
    """One shard: numpy views of the file's memory map, opened when first looked at; nothing is copied.

    documents, sentences, tokens, characters (of the sentences, before tokenisation) are its sizes.
    """

    def __init__(self, path: str | Path, counts: ShardCounts) -> None:
        self.path = Path(path)
        self.documents = counts.documents
        self.sentences = counts.sentences
        self.tokens = counts.tokens
        self.characters = counts.characters
        self._counts = counts

    @classmethod
    def in_memory(
        cls,
        token_ids: NDArray[np.int32],
        word_starts: NDArray[np.uint8],
        sentence_starts: NDArray[np.int64],
        document_starts: NDArray[np.int64],
    ) -> Self:
        """Return a shard of arrays, with no file behind it: it can't travel to another process."""
        sizes = ShardCounts(
            documents=len(document_starts) - 1, sentences=len(sentence_starts) - 1, tokens=len(token_ids), characters=0
        )
        shard = cls("in memory", sizes)
        shard.__dict__["_views"] = (token_ids, word_starts, sentence_starts, document_starts)
        return shard

    @cached_property
    def _views(self) -> tuple[NDArray[Any], ...]:
        views = _map_shard(self.path)
        sizes = (self.tokens, self.tokens, self.sentences + 1, self.documents + 1)
        if tuple(map(len, views)) != sizes:
            raise DataError(
                f"{self.path}: holds columns of {tuple(map(len, views))} values, and {RECORD} says {sizes}; the "
                f"file belongs to another corpus: {_AGAIN}"
            )
        return views

    @property
    def token_ids(self) -> NDArray[np.int32]:
        """int32 (tokens,): the token IDs, without special tokens."""
        return self._views[0]

    @property
    def word_starts(self) -> NDArray[np.uint8]:
        """uint8 (tokens,): 1 = the first piece of a word, 0 = a word goes on."""
        return self._views[1]

    @property
    def sentence_starts(self) -> NDArray[np.int64]:
        """int64 (sentences + 1,): where each sentence starts in token_ids, and the end."""
        return self._views[2]

    @property
    def document_starts(self) -> NDArray[np.int64]:
        """int64 (documents + 1,): where each document starts among the sentences, and the end."""
        return self._views[3]

    def __reduce__(self) -> tuple[type[Shard], tuple[Path, ShardCounts]]:
        """Travel to another process as a path: it maps the file itself."""
        return type(self), (self.path, self._counts)

    def __repr__(self) -> str:
        return f"Shard({self.path.name}: {self.documents:,} documents, {self.tokens:,} tokens)"


class CorpusSplit:
    """The shards of one part of a corpus, "train" or "held-out", and how much they hold together."""

    def __init__(self, name: Split, shards: Sequence[Shard], token_counts: NDArray[np.int64]) -> None:
        self.name = name
        self.shards = tuple(shards)
        self.documents = sum(shard.documents for shard in shards)
        self.sentences = sum(shard.sentences for shard in shards)
        self.tokens = sum(shard.tokens for shard in shards)
        self.characters = sum(shard.characters for shard in shards)
        self._token_counts = token_counts

    def token_counts(self) -> NDArray[np.int64]:
        """Return int64 (vocab_size,): how often each token occurs, counted when the corpus was made."""
        return self._token_counts.copy()

    def __repr__(self) -> str:
        return f"CorpusSplit({self.name!r}: {self.documents:,} documents, {self.tokens:,} tokens)"


class Corpus:
    """A finished corpus, made by `open_corpus`."""

    def __init__(self, path: Path, record: dict[str, Any], splits: dict[Split, CorpusSplit]) -> None:
        self.path = path
        self.record = record
        self._splits = splits

    @property
    def tokenizer_fingerprint(self) -> str:
        """The fingerprint of the tokenizer that made the token IDs."""
        return str(self.record["tokenizer_fingerprint"])

    @property
    def vocab_size(self) -> int:
        """The entries of its vocabulary."""
        return int(self.record["vocab_size"])

    @property
    def tokenizer_directory(self) -> Path:
        """Where the tokenizer is saved."""
        return self.path / TOKENIZER

    def split(self, name: Split) -> CorpusSplit:
        """Return "train" or "held-out" (which may hold nothing). Raises SettingsError for another name."""
        if name not in self._splits:
            raise SettingsError(f"a corpus has the splits {', '.join(SPLITS)}; came {name!r}{nearest(name, SPLITS)}")
        return self._splits[name]

    def __repr__(self) -> str:
        return f"Corpus({str(self.path)!r}: {', '.join(map(repr, self._splits.values()))})"


def open_corpus(path: str | Path) -> Corpus:
    """Open a corpus that `prepare_corpus` made; the shards are mapped when they are looked at.

    Raises:
        DataError: no corpus, an unfinished one, one of a newer format, or a shard that is missing or cut short.
    """
    folder = Path(path)
    try:
        record = json.loads((folder / RECORD).read_bytes())
        version = record["format_version"]
    except FileNotFoundError:
        raise DataError(_no_corpus(folder)) from None
    except NotADirectoryError:
        raise DataError(f"{folder}: is a file; a corpus is a folder that `anaume prepare` made") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / RECORD}: can't be read: {error!r}; {_AGAIN}") from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"{folder}: the corpus has format {version}, and this version reads {FORMAT_VERSION}; {_AGAIN}, "
            "or install the version it was made with"
        )
    if not (folder / TOKENIZER).is_dir():
        raise DataError(f"{folder / TOKENIZER}: is missing; copy the corpus again, or {_AGAIN}")
    try:
        counts = np.load(folder / COUNTS, allow_pickle=False)
        expected = (len(SPLITS), record["vocab_size"])
        if counts.shape != expected or counts.dtype != np.int64:
            raise DataError(f"{folder / COUNTS}: expected int64 {expected}, came {counts.dtype} {counts.shape}")
        splits = {}
        for row, name in enumerate(SPLITS):
            shards = [_shard(folder, entry) for entry in record["shards"] if entry["split"] == name]
            splits[name] = CorpusSplit(name, shards, counts[row])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{folder}: not what anaume writes: {error!r}; {_AGAIN}") from error
    return Corpus(folder, record, splits)


def _no_corpus(folder: Path) -> str:
    if Path(f"{folder}{PARTIAL}").is_dir():
        return f"{folder}: its preparation was stopped; the same `anaume prepare` line goes on where it was"
    if not folder.exists():
        return f"{folder}: no such folder; make a corpus with `anaume prepare TEXT... -o {folder}`"
    return f"{folder}: holds no {RECORD}, so it is no finished corpus; make one with `anaume prepare`"


def _shard(folder: Path, entry: dict[str, Any]) -> Shard:
    path = folder / entry["file"]
    size = path.stat().st_size if path.is_file() else None
    if size != entry["bytes"]:
        came = "is missing" if size is None else f"has {size:,} bytes, expected {entry['bytes']:,}"
        raise DataError(f"{path}: {came}; copy the corpus again, or {_AGAIN}")
    sizes = {name: int(entry[name]) for name in ShardCounts.__dataclass_fields__}
    return Shard(path, ShardCounts(**sizes))


def _map_shard(path: Path) -> tuple[NDArray[Any], ...]:
    import pyarrow as pa

    try:
        # By handle: pyarrow takes no name that is not UTF-8.
        with open(path, "rb") as handle:
            mapped = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        with pa.ipc.open_file(pa.py_buffer(mapped)) as file:
            metadata = file.schema.metadata or {}
            if metadata.get(_FORMAT_KEY) != _FORMAT or file.num_record_batches != 1:
                raise DataError(f"{path}: is no shard of this version; {_AGAIN}")
            batch = file.get_batch(0)
            views = []
            for name, dtype in _COLUMNS:
                values = batch.column(name).flatten().to_numpy(zero_copy_only=True)
                if values.dtype != dtype:
                    raise DataError(f"{path}: column {name!r} is {values.dtype}, expected {np.dtype(dtype)}")
                views.append(values)
    except DataError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:  # ValueError: an empty file can't be mapped
        raise DataError(f"{path}: can't be read as a shard: {error}; {_AGAIN}") from error
    token_ids, _, sentence_starts, document_starts = views
    for starts, end in ((sentence_starts, len(token_ids)), (document_starts, len(sentence_starts) - 1)):
        if len(starts) == 0 or starts[0] != 0 or starts[-1] != end or (np.diff(starts) < 1).any():
            raise DataError(f"{path}: its bounds don't fit its tokens; {_AGAIN}")
    return tuple(views)


def write_shard(
    path: str | Path,
    token_ids: NDArray[np.int32],
    word_starts: NDArray[np.uint8],
    sentence_starts: NDArray[np.int64],
    document_starts: NDArray[np.int64],
) -> tuple[int, str]:
    """Write a shard, whole or not at all; return its size in bytes and its sha256 (hex). Same arrays, same bytes."""
    import pyarrow as pa

    arrays: tuple[NDArray[Any], ...] = (token_ids, word_starts, sentence_starts, document_starts)
    fields, columns = [], []
    for (name, dtype), values in zip(_COLUMNS, arrays, strict=True):
        assert values.dtype == dtype, f"{name} is {values.dtype}"
        offsets = pa.array([0, len(values)], type=pa.int64())
        column = pa.LargeListArray.from_arrays(offsets, pa.array(values))
        fields.append(pa.field(name, column.type))
        columns.append(column)
    schema = pa.schema(fields, metadata={_FORMAT_KEY: _FORMAT})
    with atomic_file(path) as file:
        hashing = _Hashing(file)
        with pa.ipc.new_file(pa.PythonFile(hashing, mode="w"), schema) as writer:
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return hashing.size, hashing.digest.hexdigest()


class _Hashing:
    """A file that hashes what goes through it."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        return int(self._file.write(data))

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """The file belongs to who opened it."""
