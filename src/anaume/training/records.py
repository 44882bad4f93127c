"""What a run writes down as it goes: metrics.jsonl and the journal of a timed run; both cut back on resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anaume.data import atomic_file
from anaume.errors import DataError


class LineFile:
    """A JSONL file whose rows carry a step; on opening, rows after `step` are cut off.

    Rows go to the disk as they come, so that a reader sees them; a kill may leave a half-written last line, which the
    next opening cuts off too.
    """

    def __init__(self, path: Path, step: int) -> None:
        kept = [row for row in read_lines(path) if row["step"] <= step] if path.exists() else []
        with atomic_file(path) as file:
            file.writelines((json.dumps(row) + "\n").encode() for row in kept)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  open for the whole run

    def write(self, row: dict[str, Any]) -> None:
        """Append a row, which must hold "step"."""
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:
            raise DataError(f"{self._file.name}: can't be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file; a last line without its end is left out."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
