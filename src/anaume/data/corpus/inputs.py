"""Names a user gives (files, folders, globs, archives, stdin) -> the inputs they stand for, in a fixed order."""

from __future__ import annotations

import glob
import hashlib
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from anaume.data.files import STDIN, DecodeErrors, TextFile, open_text, open_text_stream, source_name
from anaume.data.records import FORMATS, Format
from anaume.data.rows import format_of
from anaume.errors import DataError, SettingsError, nearest

_BLOCK = 1 << 20
_ZIP = ".zip"


@dataclass(frozen=True, kw_only=True)
class Input:
    """One text or table: a file, a member of an archive, or stdin."""

    path: str
    member: str | None
    kind: Format
    name: str
    """How messages call it."""


class Opener:
    """Opens inputs as text; an archive stays open for its next member (opening one reads its whole list)."""

    def __init__(self, encoding: str, errors: DecodeErrors) -> None:
        self._encoding = encoding
        self._errors = errors
        self._path: str | None = None
        self._archive: zipfile.ZipFile | None = None

    @contextmanager
    def open(self, one: Input) -> Iterator[TextFile]:
        """Open an input. Raises DataError, SettingsError."""
        if one.member is None:
            with open_text(one.path, encoding=self._encoding, errors=self._errors) as file:
                yield file
            return
        try:
            with (
                self._archive_at(one.path).open(one.member) as stream,
                open_text_stream(
                    cast(BinaryIO, stream), one.name, encoding=self._encoding, errors=self._errors
                ) as file,
            ):
                yield file
        except (zipfile.BadZipFile, OSError, zlib.error, NotImplementedError) as error:
            raise DataError(f"{one.name}: can't be read further: {error}") from error
        except RuntimeError as error:  # how zipfile says that a password is needed
            raise DataError(f"{one.name}: {error}; unpack it first") from error

    def _archive_at(self, path: str) -> zipfile.ZipFile:
        if self._archive is None or self._path != path:
            self.close()
            self._archive, self._path = zipfile.ZipFile(path), path
        return self._archive

    def close(self) -> None:
        """Close the archive that is open."""
        if self._archive is not None:
            self._archive.close()
            self._archive = None


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the given names stand for."""

    inputs: tuple[Input, ...]
    files: tuple[str, ...]
    """The files they lie in, each once, in order; "-" is stdin."""
    notes: tuple[str, ...]
    """What was left out, with counts."""


def find_inputs(
    paths: str | Path | Sequence[str | Path], *, format: Format | None = None, without: Sequence[Path] = ()
) -> Inputs:
    """Find the inputs: files, folders (recursive, sorted by name), globs, the members of .zip files, "-" for stdin.

    format: of every input; without it the name's ending decides (a `.gz` after it is fine), and stdin is txt. In
    folders and archives what is hidden, or has an ending that tells no format, is left out and counted; a file given
    by its name must have one. A file that is named twice is read once.
    without: folders to pass by (an output that lies in an input folder).

    Raises:
        SettingsError: an unknown format.
        DataError: a file that is not there, a name that tells no format, a folder or archive without any text.
    """
    if format is not None and format not in FORMATS:
        raise SettingsError(f"unknown format {format!r}{nearest(format, FORMATS)}; known: {', '.join(FORMATS)}")
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SettingsError("expected at least one file or folder; none came")
    finder = _Finder(format, {os.path.realpath(folder) for folder in without})
    for path in given:
        finder.add(str(path))
    return Inputs(inputs=tuple(finder.inputs), files=tuple(finder.files), notes=tuple(finder.notes()))


def sha256_of(path: str) -> tuple[str, int]:
    """Return a file's sha256 (hex) and size in bytes. Raises DataError."""
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror}") from error
    return digest.hexdigest(), size


def spooled(inputs: Inputs, target: Path) -> Inputs:
    """Copy stdin to a file, because a corpus is read more than once, and return the inputs with that file instead.

    Raises DataError.
    """
    try:
        with open(target, "wb") as file:
            while block := sys.stdin.buffer.read(_BLOCK):
                file.write(block)
    except OSError as error:
        raise DataError(f"{target}: stdin can't be kept: {error.strerror}") from error
    path = str(target)
    moved = [replace(one, path=path) if one.path == STDIN else one for one in inputs.inputs]
    files = tuple(path if name == STDIN else name for name in inputs.files)
    return Inputs(inputs=tuple(moved), files=files, notes=inputs.notes)


class _Finder:
    def __init__(self, format: Format | None, without: set[str]) -> None:
        self.format = format
        self.without = without
        self.inputs: list[Input] = []
        self.files: list[str] = []
        self._seen: set[str] = set()
        self._twice = 0
        self._skipped: dict[str, list[str]] = {}

    def add(self, path: str) -> None:
        if path == STDIN:
            self._file(path)
        elif os.path.isdir(path):
            self._folder(path)
        elif os.path.exists(path):
            self._file(path)
        elif glob.has_magic(path):
            found = sorted(name for name in glob.glob(path, recursive=True) if not self._outside(name))
            if not found:
                raise DataError(f"{path}: no file matches")
            for name in found:
                self.add(name)
        else:
            raise DataError(f"{path}: no such file")

    def _folder(self, folder: str) -> None:
        before = len(self.inputs) + self._twice
        for root, folders, names in os.walk(folder, onerror=_unreadable):
            folders[:] = sorted(name for name in folders if self._entered(root, name))
            for name in sorted(names):
                path = os.path.join(root, name)
                if name.startswith(".") or not self._known(name, archives=True):
                    self._skipped.setdefault(folder, []).append(name)
                elif os.path.isfile(path):
                    self._file(path)
        if len(self.inputs) + self._twice == before:
            raise DataError(f"{folder}: no text in it: expected files ending in {_endings()}{self._seen_there(folder)}")

    def _file(self, path: str) -> None:
        real = path if path == STDIN else os.path.realpath(path)
        if real in self._seen:
            self._twice += 1
            return
        self._seen.add(real)
        if path != STDIN and not os.path.isfile(path):
            raise DataError(f"{path}: is no regular file; a corpus is read more than once: pipe it to stdin, named -")
        if path != STDIN and path.lower().endswith(_ZIP):
            self._archive(path)
        else:
            kind = self.format or format_of(path)
            self.inputs.append(Input(path=path, member=None, kind=kind, name=source_name(path)))
        self.files.append(path)

    def _archive(self, path: str) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                members = [info.filename for info in archive.infolist() if not info.is_dir()]
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(f"{path}: can't be read as a zip file: {error}") from error
        before = len(self.inputs)
        for member in members:
            parts = member.split("/")
            hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
            if hidden or not self._known(member, archives=False):
                self._skipped.setdefault(path, []).append(parts[-1])
                continue
            name, kind = f"{path}/{member}", self.format or format_of(member)
            if kind == "parquet":
                raise DataError(f"{name}: Parquet can't be read inside an archive; unpack it first")
            self.inputs.append(Input(path=path, member=member, kind=kind, name=name))
        if len(self.inputs) == before:
            raise DataError(f"{path}: no text in it: expected files ending in {_endings()}{self._seen_there(path)}")

    def _entered(self, root: str, name: str) -> bool:
        return not name.startswith(".") and not self._outside(os.path.join(root, name))

    def _outside(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(real == folder or real.startswith(folder + os.sep) for folder in self.without)

    def _known(self, name: str, *, archives: bool) -> bool:
        if archives and name.lower().endswith(_ZIP):
            return True
        try:
            format_of(name)
        except DataError:
            return self.format is not None and not name.lower().endswith(_ZIP)
        return True

    def _seen_there(self, place: str) -> str:
        names = self._skipped.get(place, [])
        return f"; it has {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}" if names else ""

    def notes(self) -> Iterator[str]:
        for place, names in self._skipped.items():
            some = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
            yield f"{place}: files left out because they are hidden or of no known ending: {len(names):,} ({some})"
        if self._twice:
            yield f"files named more than once and read once: {self._twice:,}"


def _unreadable(error: OSError) -> None:
    raise DataError(f"{error.filename}: can't be read: {error.strerror}") from error


def _endings() -> str:
    return ".txt, .csv, .tsv, .jsonl, .ndjson, .parquet (also with .gz)"
