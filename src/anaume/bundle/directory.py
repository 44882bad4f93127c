"""A directory that appears whole or not at all: written beside its place, flushed, and swapped in by renames.

    .anaume-new-HASH-RANDOM   being written; locked by its writer, so that a dead writer's can be told and removed
    .anaume-old-HASH-RANDOM   the old one, moved aside for the moment between two renames

HASH is made from the name, so that the siblings are found again and stay short. A kill leaves the place with the old
or the new directory, or (between the two renames) empty with the old one aside, whole: `recover` puts it back.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from anaume.bundle.files import read_object
from anaume.bundle.format import CARD, FILE
from anaume.errors import BundleError
from anaume.logs import get_logger

logger = get_logger(__name__)

_WAIT = 0.5  # seconds a reader grants a writer between its two renames, which take microseconds


def save_directory(path: str | Path, write: Callable[[Path], None]) -> None:
    """Call `write` with an empty directory to fill; it then takes the place of `path`.

    Missing parents are made; a link to a directory stays a link. After a kill at any instant `recover` finds the old
    or the new directory, whole; when anything raises, the old one is untouched.

    Raises BundleError for a place that is a file, a directory that is no bundle or that holds files the bundle did not
    write, a read-only or missing disk, and a full one.
    """
    place = _real(path)
    siblings = _Siblings(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        recover(place)
        check_place(place)
        siblings.remove_dead()
        temporary = siblings.new()
        temporary.mkdir()
    except OSError as error:
        raise BundleError(f"{path}: can't be saved: {_reason(error)}") from error
    with _lock(temporary):
        try:
            write(temporary)
            _flush(temporary)
            _swap_in(temporary, place, siblings)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise BundleError(
                f"{path}: can't be saved: {_reason(error)}; nothing was written and an older bundle there is untouched"
            ) from error
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    _sync(place.parent)
    for old in siblings.olds():
        shutil.rmtree(old, ignore_errors=True)


def check_place(place: Path) -> None:
    """Raise BundleError unless a bundle may be saved there: nothing, an empty directory, or a bundle and no more."""
    if not place.exists():
        return
    if not place.is_dir():
        raise BundleError(f"{place}: is a file; name a directory to save the bundle in")
    there = {file.relative_to(place).as_posix() for file in place.rglob("*") if not file.is_dir() or file.is_symlink()}
    if not there:
        return
    if FILE not in there:
        raise BundleError(
            f"{place}: holds {len(there)} files ({', '.join(sorted(there)[:3])} ...) and is no anaume bundle: it is "
            "not overwritten; save to another directory"
        )
    files = read_object(place / FILE).get("files")
    others = sorted(there - {FILE, CARD} - set(files if isinstance(files, dict) else {}))
    if others:
        raise BundleError(
            f"{place}: also holds {', '.join(others[:5])}{' ...' if len(others) > 5 else ''}, which saving would "
            "delete: move them away, or save to another directory"
        )


def recover(path: str | Path) -> Path:
    """Return where the directory can be read: `path`, after putting back what a killed writer had moved aside."""
    place = _real(path)
    siblings = _Siblings(place)
    deadline = time.monotonic() + _WAIT
    while not os.path.exists(place):  # unlike Path.exists, False for a name no file system takes
        olds = siblings.olds()
        if not olds:
            break
        if siblings.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
            continue
        newest = max(olds, key=lambda old: old.stat().st_mtime_ns)
        try:
            newest.rename(place)
            logger.info("%s: put back after an interrupted save", place)
        except OSError:  # read-only, or another process was faster
            return place if place.exists() else newest
    return place


def _real(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise BundleError(f"{str(path)[:200]!r} is no path: {error}") from error


class _Siblings:
    def __init__(self, place: Path) -> None:
        self._folder = place.parent
        self._hash = hashlib.sha256(place.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def new(self) -> Path:
        return self._folder / f".anaume-new-{self._hash}-{secrets.token_hex(4)}"

    def old(self) -> Path:
        return self._folder / f".anaume-old-{self._hash}-{secrets.token_hex(4)}"

    def olds(self) -> list[Path]:
        return self._found("old")

    def alive(self) -> bool:
        """Whether a writer is at work (always no where directories can't be locked)."""
        return any(_locked(new) for new in self._found("new"))

    def remove_dead(self) -> None:
        for new in self._found("new"):
            if _locked(new) is False:
                shutil.rmtree(new, ignore_errors=True)

    def _found(self, kind: str) -> list[Path]:
        try:
            return [
                Path(entry.path)
                for entry in os.scandir(self._folder)
                if entry.name.startswith(f".anaume-{kind}-{self._hash}-")
            ]
        except OSError:
            return []


def _swap_in(temporary: Path, place: Path, siblings: _Siblings) -> None:
    for _ in range(10):
        try:
            if place.exists():  # os.replace can't replace a directory that is not empty
                place.rename(siblings.old())
            temporary.rename(place)
            return
        except OSError as error:
            # Another process saved there, or put the old one back, between our two renames: once more.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) or not temporary.exists():
                raise
    raise BundleError(f"{place}: other processes keep saving there; nothing was written")


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    handle = _try_lock(directory)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _locked(directory: Path) -> bool | None:
    """Return whether a living writer holds the directory; None where that can't be known."""
    handle = _try_lock(directory)
    if handle is None:
        return True if _can_lock() else None
    os.close(handle)
    return False


def _can_lock() -> bool:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return False
    return True


def _try_lock(directory: Path) -> int | None:
    if not _can_lock():
        return None
    import fcntl

    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _flush(directory: Path) -> None:
    for folder, _, files in os.walk(directory, topdown=False):
        for name in files:
            handle = os.open(os.path.join(folder, name), os.O_RDWR)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _sync(Path(folder))


def _sync(folder: Path) -> None:
    with contextlib.suppress(OSError):  # Windows can't open a directory
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"
