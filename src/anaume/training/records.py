"""What a run writes down as it goes: metrics.jsonl, and the journal of a timed run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anaume.errors import DataError

METRICS, JOURNAL = "metrics.jsonl", "journal.jsonl"


class LineFile:
    """A JSONL file that is cut back to `size` bytes when it is opened, and then grows row by row.

    A checkpoint knows how long the file was; what came after, a half-written last line included, belongs to steps that
    will be done again. Raises DataError for a file that is shorter than that, or can't be written.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        try:
            self._file = open(path, "ab")  # noqa: SIM115  open for the whole run
            there = self._file.seek(0, os.SEEK_END)
            if there < size:
                self._file.close()
                raise DataError(
                    f"{path}: has {there:,} bytes, and {size:,} at the checkpoint: it was changed. Put it back, or "
                    "begin again in another folder"
                )
            self._file.truncate(size)
        except OSError as error:
            raise self._trouble(error) from error
        self.size = size

    def write(self, row: dict[str, Any]) -> None:
        """Append a row; readers of the file see it at once."""
        line = (json.dumps(row, allow_nan=False) + "\n").encode()
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._trouble(error) from error
        self.size += len(line)

    def sync(self) -> None:
        """Make the rows written so far survive a power cut."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._trouble(error) from error

    def close(self) -> None:
        """Close the file; what a full disk kept back was told of before."""
        with suppress(OSError):
            self._file.close()

    def _trouble(self, error: OSError) -> DataError:
        return DataError(f"{self._path}: can't be written: {error.strerror}")


class Records:
    """The files of a run, written by one rank; on the others (`folder` None) nothing happens.

    timed    whether the run has a journal, as those without given steps have: the share of its time that had passed at
             each step
    reports  each gets every row of the metrics once it is written: a progress display, a picture
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        metrics_size: int,
        journal_size: int,
        timed: bool,
        reports: Sequence[Callable[[dict[str, Any]], None]] = (),
    ) -> None:
        self._metrics = None if folder is None else LineFile(folder / METRICS, metrics_size)
        self._journal = None if folder is None or not timed else LineFile(folder / JOURNAL, journal_size)
        self._reports = reports

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._metrics, self._journal):
            if file is not None:
                file.close()

    def metrics(self, row: dict[str, Any]) -> None:
        """Write a row of metrics.jsonl, and report it."""
        if self._metrics is not None:
            self._metrics.write(row)
            for report in self._reports:
                report(row)

    def journal(self, step: int, fraction: float) -> None:
        """Write which share of the run had passed before step `step`."""
        if self._journal is not None:
            self._journal.write({"step": step, "fraction": fraction})

    def sync(self) -> tuple[int, int]:
        """Make everything durable; return the sizes of metrics and journal, for the checkpoint."""
        files = (self._metrics, self._journal)
        for file in files:
            if file is not None:
                file.sync()
        metrics, journal = (0 if file is None else file.size for file in files)
        return metrics, journal


def json_number(value: float) -> float | None:
    """Return a value as JSON can hold it: None for one that is not finite."""
    return value if math.isfinite(value) else None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file; a last line without its end is left out. Raises DataError for other lines."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror}") from error
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: expected an object; got {line[:60].decode('utf-8', 'replace')}")
        rows.append(row)
    return rows


def read_journal(path: Path) -> list[float]:
    """Return the fractions of a journal, step 0 first. Raises DataError for a gap or what is no journal."""
    fractions = []
    for number, row in enumerate(read_lines(path)):
        fraction = row.get("fraction")
        if row.get("step") != number or not isinstance(fraction, float) or not 0.0 <= fraction < 1.0:
            raise DataError(f"{path}, line {number + 1}: expected step {number} and its fraction; got {row}")
        fractions.append(fraction)
    if not fractions:
        raise DataError(f"{path}: holds no step")
    return fractions
