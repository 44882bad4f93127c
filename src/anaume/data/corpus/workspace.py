"""Where a corpus is made: a folder beside the finished one, a journal of what is done, and the swap at the end."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from anaume.data.atomic import atomic_file
from anaume.data.corpus.shards import PARTIAL, RECORD
from anaume.errors import DataError, SettingsError

JOURNAL, MADE_FROM, LOCK = "journal.jsonl", "made_from.json", "lock"
ADVICE = "overwrite=True (--overwrite) replaces it"


class Workspace:
    """The folder OUT.partial while a corpus is being made; only one run at a time may have it.

    journal holds what earlier runs finished, one mapping an entry.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = Path(f"{out}{PARTIAL}")
        self.journal: list[dict[str, Any]] = []
        self._lock: int | None = None
        parent = out.absolute().parent
        if not parent.is_dir():
            raise SettingsError(f"{out}: the folder {parent} does not exist; make it first")
        if out.exists() and not out.is_dir():
            raise SettingsError(f"{out} is a file; name a folder for the corpus")
        if out.is_dir() and not (out / RECORD).is_file() and any(out.iterdir()):
            raise SettingsError(f"{out} holds something that is no corpus; name another folder")
        self.new = not self.folder.exists()
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.folder}: can't be made: {error.strerror}") from error
        self._take_lock()

    def _take_lock(self) -> None:
        handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl
        except ImportError:  # Windows: nobody watches there
            os.close(handle)
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise DataError(f"{self.folder}: another run is making this corpus; wait for it, or stop it") from None
        self._lock = handle

    def start(self, made_from: Mapping[str, Any], *, replace: bool) -> None:
        """Begin, or go on where an earlier run with the same sources and settings stopped.

        What was begun from others is removed with `replace`, and else refused (DataError).
        """
        noted = self.folder / MADE_FROM
        before = _read_json(noted) if noted.exists() else None
        if before is not None:
            changes = _changes(before, made_from)
            if not changes:
                self.journal = self._read_journal()
                return
            if not replace:
                raise DataError(f"{self.folder} was begun otherwise: {', '.join(changes)}; {ADVICE}")
        self.clear()
        with atomic_file(noted) as file:
            file.write(_json(made_from))

    def clear(self) -> None:
        """Remove everything made so far, the spooled stdin apart."""
        for path in self.folder.iterdir():
            if path.name in (LOCK, "stdin"):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _read_journal(self) -> list[dict[str, Any]]:
        """Read the entries; the last line may be half written, and is then cut off."""
        path = self.folder / JOURNAL
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            with open(path, "r+b") as file:
                file.truncate(len(whole))
        return [json.loads(line) for line in whole.splitlines()]

    def note(self, entry: Mapping[str, Any]) -> None:
        """Add an entry to the journal, durably."""
        with open(self.folder / JOURNAL, "ab") as file:
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def finish(self, record: Mapping[str, Any], passing: set[str]) -> None:
        """Write the record and put the folder in its place; an older corpus is replaced whole.

        passing: names of work files that are not part of the corpus.
        """
        for name in passing | {JOURNAL, MADE_FROM, LOCK}:
            with suppress(FileNotFoundError):
                (self.folder / name).unlink()
        with atomic_file(self.folder / RECORD) as file:
            file.write(_json(record) + b"\n")
        old = None
        if self.out.exists() and any(self.out.iterdir()):
            old = self.out.with_name(f".anaume-{secrets.token_hex(8)}.old")
            os.replace(self.out, old)
        os.replace(self.folder, self.out)
        if old is not None:
            shutil.rmtree(old)

    def release(self, *, keep: bool) -> None:
        """Let go of the folder; without `keep`, remove it if it is still there."""
        if not keep and self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def refuse_other(place: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise DataError for a finished corpus, naming every setting and source that differs."""
    if changes := _changes(before, now):
        raise DataError(f"{place} exists and was made otherwise: {', '.join(changes)}; {ADVICE}")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    was, asked = before["settings"], now["settings"]
    changes = [
        f"{name} {_short(was.get(name))} is now {_short(asked.get(name))}"
        for name in dict.fromkeys([*was, *asked])
        if was.get(name) != asked.get(name)
    ]
    return changes + _source_changes(before["sources"], now["sources"])


def _source_changes(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    if [_content(source) for source in before] == [_content(source) for source in now]:
        return []
    if len(before) != len(now):
        return [f"the sources were {len(before)} files and are now {len(now)}"]
    other = [new["name"] for old, new in zip(before, now, strict=True) if _content(old) != _content(new)]
    return [f"{len(other)} of {len(now)} sources have other content ({', '.join(other[:3])})"]


def _content(source: dict[str, Any]) -> tuple[Any, ...]:
    return source["sha256"], source["kind"]


def _short(value: object) -> str:
    text = "unset" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: can't be read: {error}; {ADVICE}") from error


def _json(content: Mapping[str, Any]) -> bytes:
    # What UTF-8 can't hold (parts of a file's name, that is not in it) is written as JSON escapes it.
    return json.dumps(content, ensure_ascii=False, indent=1).encode(errors="backslashreplace")
