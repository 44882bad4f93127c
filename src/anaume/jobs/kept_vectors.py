"""Vectors that a run has made so far, kept beside its output until it is whole: a killed run goes on from there.

    .anaume-KEY.part/vectors.f32    float32, one chunk of rows after the other
    .anaume-KEY.part/chunks.jsonl   a line a chunk: its rows, and the totals up to it

KEY is of the output's name, the sources and the settings, so another run never takes these for its own. A chunk counts
once its line is whole, and its line is written after its vectors have reached the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anaume.engines import Vectors

_VECTORS, _CHUNKS = "vectors.f32", "chunks.jsonl"


class KeptVectors:
    """The chunks of one run that are there already, and those that are added."""

    def __init__(self, folder: Path, size: int, vectors: BinaryIO, chunks: BinaryIO) -> None:
        self._folder, self._size, self._vectors, self._file = folder, size, vectors, chunks
        self.chunks: list[dict[str, Any]] = _whole_lines(chunks, vectors.seek(0, os.SEEK_END) // (4 * size))
        """Of each chunk that is kept: rows, totals (what `add` was given)."""
        vectors.truncate(4 * size * sum(chunk["rows"] for chunk in self.chunks))
        chunks.truncate(chunks.tell())

    def read(self) -> Iterator[tuple[dict[str, Any], Vectors]]:
        """Go through the chunks that were there: what was told of each, and its vectors (rows, size)."""
        self._vectors.seek(0)
        for chunk in list(self.chunks):
            found = np.frombuffer(self._vectors.read(4 * self._size * chunk["rows"]), dtype="<f4")
            yield chunk, found.reshape(-1, self._size).astype(np.float32)
        self._vectors.seek(0, os.SEEK_END)

    def add(self, vectors: Vectors, totals: Mapping[str, Any]) -> None:
        """Keep one chunk more, on the disk before this returns."""
        self._vectors.write(vectors.astype("<f4").tobytes())
        self._vectors.flush()
        os.fsync(self._vectors.fileno())
        self._file.write(json.dumps({"rows": len(vectors), "totals": dict(totals)}).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def forget(self) -> None:
        """Remove what is kept: the output is whole, or will never be."""
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def kept_vectors(out: Path, size: int, settings: Mapping[str, str]) -> Iterator[KeptVectors | None]:
    """Open what a run with these settings kept beside its output; None where nothing can be kept.

    Nothing can be where the folder is read-only or another process is making the same output now.
    """
    told = json.dumps({**settings, "out": out.name, "size": str(size)}, sort_keys=True)
    folder = out.absolute().parent / f".anaume-{hashlib.sha256(told.encode()).hexdigest()[:16]}.part"
    files: list[BinaryIO] = []
    try:
        folder.mkdir(exist_ok=True)
        files = [open(folder / name, "a+b") for name in (_VECTORS, _CHUNKS)]  # noqa: SIM115  closed below
        _lock(files[1])
        kept = KeptVectors(folder, size, *files)
    except OSError:
        kept = None
    try:
        yield kept
    finally:
        for file in files:
            file.close()


def _lock(file: BinaryIO) -> None:
    """Raise OSError where another process holds it; where locks are unknown (Windows), nobody is looked for."""
    with suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _whole_lines(file: BinaryIO, rows: int) -> list[dict[str, Any]]:
    """Read the lines that are whole and whose vectors are there; leaves the file's place after the last of them."""
    file.seek(0)
    found: list[dict[str, Any]] = []
    end = 0
    for line in file:
        try:
            chunk = json.loads(line)
            rows -= chunk["rows"]
        except (ValueError, KeyError, TypeError):
            break
        if rows < 0 or not line.endswith(b"\n"):
            break
        found.append(chunk)
        end += len(line)
    file.seek(end)
    return found
