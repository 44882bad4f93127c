"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from anaume.errors import DataError

HALF_WRITTEN = ".anaume-*.tmp"
"""What a kill may leave of a file that was being written."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """Give a binary file to write; it takes the place of `path` when the block ends well.

    It is a temporary sibling, flushed to disk and then renamed over `path`. If the block raises, the temporary is
    removed and `path` is as it was; after a kill at any moment `path` is the old or the new file, whole (a hidden
    `.anaume-*.tmp` may be left beside it). The mode of a file that was there is kept, and a link stays a link.

    Raises:
        DataError: a missing or read-only folder, a target that is no regular file, or a full disk.
    """
    target = Path(os.path.realpath(path))
    mode = _writable_mode(path, target)
    # A short name of its own: the target's may already be as long as the file system allows.
    temporary = target.parent / f".anaume-{secrets.token_hex(8)}.tmp"
    try:
        file = open(temporary, "xb")  # noqa: SIM115  closed before the rename
    except OSError as error:
        raise DataError(f"{path}: can't be written: {error.strerror}") from error
    try:
        yield file
        file.flush()
        if mode is not None:
            os.chmod(temporary, mode)
        os.fsync(file.fileno())
        file.close()
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # closing tries to flush once more, in vain on a full disk
            file.close()
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno in _FULL:
            raise DataError(f"{path}: {error.strerror}; nothing was written and an older file is untouched") from error
        raise
    _sync_folder(target.parent)


@contextmanager
def atomic_text(path: str | Path) -> Iterator[TextIO]:
    """`atomic_file` for text: UTF-8 whatever the locale, and "\\n" written as it is."""
    with atomic_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError):
                text.detach()  # or its end would close the file before it is synced


def _writable_mode(path: str | Path, target: Path) -> int | None:
    """Refuse what can't be replaced by a file; return the permission bits of a file that is there."""
    if not target.parent.is_dir():
        raise DataError(f"{path}: the folder {target.parent} does not exist; make it first")
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: can't be written: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise DataError(f"{path}: is {kind}; name a file to write")
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where a folder can be opened (not on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
