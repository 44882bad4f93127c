"""The directory or bucket an index lies in: LanceDB's tables, which of them is the index, and who may write.

    IDX/
      current.lance      one row: which table is the index (LanceDB can't rename), written anew in one commit
      passages_1.lance   a row a passage, see table.py; passages_2, ... after a migration
      lock               held by the process that writes (on local disks)

Every write is one commit of LanceDB's: after a kill at any moment a table holds exactly the commits that were made.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from anaume.errors import AnaumeError, AnaumeWarning, DataError, MissingExtra, SettingsError

CURRENT, PASSAGES, LOCK = "current", "passages_", "lock"
_UNREACHED = ("RetryError", "NoSuchBucket", "Generic {", "Credential")
_DAMAGED = ("LanceError(IO)", "was not found", "Not found: ", "Corrupt")
_RUST = re.compile(r"lance error: |LanceError\(IO\): |, /\S+\.rs:\d+:\d+")  # where in its sources: of no use here
_FULL = ("No space left", "os error 28", "File too large", "os error 27", "Disk quota", "os error 122")


@dataclass(frozen=True, kw_only=True)
class Current:
    """What `current` says."""

    table: str
    """The table that is the index."""
    sources: str = ""
    """sha256 of the files it was built from; "" where that can't be told again."""
    building: bool = False
    """Whether the build that made it has not come to its end."""
    probes: int = 0
    """How many parts of the vectors a search looks through; 0 = all vectors, exactly (see tuning.py)."""

    @property
    def number(self) -> int:
        """The table's number: 1, and one more with every migration."""
        return number_of(self.table)


def number_of(table: str) -> int:
    """Return the number of a table of passages."""
    return int(table.removeprefix(PASSAGES))


class Store:
    """Where an index lies. Raises DataError for what can't be read or written, in one line."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.local = "://" not in self.path
        self._connection: Any = None

    def exists(self) -> bool:
        """Whether an index is there."""
        return self.current() is not None

    def current(self) -> Current | None:
        """Return which table is the index; None where there is none."""
        if self.local:
            there = (Path(self.path) / f"{CURRENT}.lance").is_dir()
        else:
            there = CURRENT in self.names()
        if not there:
            return None
        with said(self.path):
            row = self.connection.open_table(CURRENT).to_arrow().to_pylist()[0]
        try:
            return Current(**json.loads(row["record"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(f"{self.path}: what says which table is the index can't be read: {error!r}") from error

    def point(self, current: Current) -> None:
        """Make another table the index, in one commit: whoever opens it sees the one or the other."""
        import pyarrow as pa

        record = json.dumps(dataclasses.asdict(current))
        with said(self.path):
            self.connection.create_table(CURRENT, pa.table({"record": [record]}), mode=self._mode(CURRENT))

    def names(self) -> list[str]:
        """Return the tables that are there."""
        with said(self.path):
            found, token = [], None
            while True:
                answer = self.connection.list_tables(page_token=token)
                found += answer.tables
                token = answer.page_token
                if not token:
                    return found

    def passages(self) -> list[str]:
        """Return the tables of passages that are there, the latest last."""
        return sorted((name for name in self.names() if name.startswith(PASSAGES)), key=number_of)

    def table(self, name: str) -> Any:
        """Open a table at its latest version."""
        with said(self.path):
            return self.connection.open_table(name)

    def create(self, name: str, schema: Any) -> Any:
        """Make an empty table, in place of one of this name that was left unfinished."""
        with said(self.path):
            return self.connection.create_table(name, schema=schema, mode=self._mode(name))

    def _mode(self, name: str) -> str:
        return "overwrite" if name in self.names() else "create"  # overwriting nothing is warned about

    def drop(self, name: str) -> None:
        """Remove a table."""
        with said(self.path):
            self.connection.drop_table(name)

    @property
    def connection(self) -> Any:
        """LanceDB's connection, opened once."""
        if self._connection is None:
            self._connection = lancedb().connect(self.path)
        return self._connection

    def check_place(self) -> None:
        """Raise SettingsError where an index can't be, whatever is written: a file, or a folder of something else."""
        folder = Path(self.path)
        if not self.local or not folder.exists():
            return
        if not folder.is_dir():
            raise SettingsError(f"{self.path} is a file; name a folder for the index")
        if any(entry.name != LOCK and entry.suffix != ".lance" for entry in folder.iterdir()):
            raise SettingsError(f"{self.path} holds something that is no index; name another folder")

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Keep other writers out, on a local disk. Raises DataError while another process writes.

        In a bucket nobody is kept out: commits stay whole there, but two writers may each add the same id.
        """
        if not self.local:
            yield self
            return
        self.check_place()
        handle = self._lock()
        try:
            yield self
        finally:
            if handle is not None:
                os.close(handle)

    def _lock(self) -> int | None:
        try:
            import fcntl
        except ImportError:  # Windows
            return None
        try:
            os.makedirs(self.path, exist_ok=True)
            handle = os.open(Path(self.path) / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise DataError(f"{self.path}: can't be written: {error.strerror}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise DataError(f"{self.path}: another process is writing to this index; wait for it, or stop it") from None
        except OSError as error:  # some disks of clusters
            warnings.warn(
                f"{self.path}: its disk has no locks ({error.strerror}); see to it that one process at a time writes",
                AnaumeWarning,
                stacklevel=5,
            )
        return handle


def lancedb() -> Any:
    """Return the library. Raises MissingExtra."""
    try:
        import lancedb
    except ImportError:
        raise MissingExtra("an index", "search") from None
    return lancedb


@contextmanager
def said(where: str) -> Iterator[None]:
    """Turn LanceDB's errors, which carry whole Rust traces, into DataErrors of one line."""
    try:
        yield
    except AnaumeError:
        raise
    except Exception as error:  # ValueError, RuntimeError, OSError, ...: it depends on the version
        if not _of_lance(error):
            raise
        text = " ".join(str(error).split())
        if any(mark in text for mark in _FULL):
            raise DataError(f"{where}: the disk is full; what was committed before is kept") from error
        if "://" in where and any(mark in text for mark in _UNREACHED):
            raise DataError(
                f"{where}: the bucket can't be reached: see to its name, and to address and keys in the environment "
                f"(AWS_ENDPOINT, AWS_REGION, AWS_ACCESS_KEY_ID, ...): {text[:200]}"
            ) from error
        bare = _RUST.sub("", text)
        if any(mark in text for mark in _DAMAGED):
            raise DataError(
                f"{where}: files of the index are missing or damaged: bring back a copy, or build it again with "
                f"--overwrite ({bare[:200]})"
            ) from error
        raise DataError(f"{where}: {bare[:300]}") from error


def _of_lance(error: Exception) -> bool:
    """Whether an error came out of LanceDB, and is no slip of ours."""
    trace = error.__traceback__
    module = ""
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next
    return module.startswith(("lancedb", "lance", "pyarrow", "asyncio")) or isinstance(error, OSError)
