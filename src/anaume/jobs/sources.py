"""Input files before they are read: what they hold, as a hash, and about how many rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data import STDIN
from anaume.errors import DataError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Sources:
    """Files as an input."""

    fingerprint: str
    """sha256 (hex) over the contents in order, names apart; "" where one can't be read twice (stdin, a pipe)."""
    lines: int | None
    """Line ends in them: about the number of rows. None where nobody can tell before."""


def scan_sources(paths: Sequence[str | Path]) -> Sources:
    """Hash files and count their lines. Raises DataError for one that can't be read."""
    digest, lines = hashlib.sha256(), 0
    countable = True
    for path in paths:
        if str(path) == STDIN or (os.path.exists(path) and not os.path.isfile(path)):
            return Sources("", None)
        content = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    content.update(block)
                    lines += block.count(b"\n")
        except OSError as error:
            raise DataError(f"{path}: can't be read: {error.strerror}") from error
        digest.update(content.digest())
        countable = countable and Path(path).suffix.lower() not in (".gz", ".parquet")
    return Sources(digest.hexdigest(), lines if countable else None)
