"""What a run must remember to go on as if nothing had happened, in one file a checkpoint.

Weights, optimizer, step, place in the data, seconds spent, lengths of the record files. Learning rate, masks and
dropout are functions of these and of the settings, so that no generator's state need be kept: masks are keyed by (seed,
step, row, place), and the device's default generator, which dropout draws from, is seeded anew at each step from (seed,
step, rank).
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from anaume.data import atomic_file
from anaume.data.corpus.stream import Position
from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert

log = get_logger(__name__)

CHECKPOINTS = "checkpoints"
"""Where they lie in the folder of a run."""
_NAME = re.compile(r"step-(\d{8,})\.pt")


@dataclass
class Progress:
    """How far a run is."""

    step: int = 0
    seconds: float = 0.0
    """Spent training, over all sittings; the time between a kill and the resume is not in it."""
    tokens: int = 0
    """Real tokens seen."""
    skipped: int = 0
    """Steps not applied because something was not finite."""
    skipped_in_a_row: int = 0
    """Those since the last step that was applied."""
    evaluated: int = 0
    """How many of the run's evaluations are behind it."""
    evaluated_at: int | None = None
    """The step of the last one: weights are not scored twice; None before the first."""
    long: bool = False
    """Whether the last part, with longer rows, has begun."""
    finished: bool = False
    """Whether the run is over."""
    position: Position = field(default_factory=Position)
    """The next row."""
    best_score: float | None = None
    """The best main score on held-out examples so far; None without any."""
    best_loss: float | None = None
    """The held-out loss of the same weights, which decides between equal scores."""
    best_step: int | None = None
    """The step whose weights had it."""
    since_best: int = 0
    """Evaluations since then."""
    metrics_size: int = 0
    """Bytes of metrics.jsonl at this point."""
    journal_size: int = 0
    """Bytes of journal.jsonl at this point."""


def save_checkpoint(folder: Path, progress: Progress, model: Bert, optimizer: torch.optim.Optimizer, keep: int) -> Path:
    """Write a checkpoint whole or not at all, then remove all but the last `keep`. Raises DataError on a full disk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{progress.step:08d}.pt"
    content = {
        "progress": asdict(progress),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    with atomic_file(path) as file:
        _save(content, file)
    for old in checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)
    log.debug("checkpoint %s", path)
    return path


def load_checkpoint(path: Path, model: Bert, optimizer: torch.optim.Optimizer, device: torch.device) -> Progress:
    """Put everything back as it was when `path` was written. Raises DataError for a damaged file or another model's."""
    content = read_checkpoint(path, device)
    try:
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        told = content["progress"]
        return Progress(**{**told, "position": Position(**told["position"])})
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise _refused(path, error) from error


def read_checkpoint(path: Path, device: torch.device) -> dict[str, Any]:
    """Return what a checkpoint holds: "progress", "model" and "optimizer". Raises DataError for a damaged file."""
    try:
        return _load(path, device)
    except Exception as error:  # whatever torch makes of bytes that are no checkpoint
        raise _refused(path, error) from error


def _refused(path: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        f"{path}: not a checkpoint of this run, or damaged ({reason}): delete it to go on from the one before"
    )


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=step_of)


def step_of(path: Path) -> int:
    """Return the step a checkpoint was written at."""
    found = _NAME.fullmatch(path.name)
    assert found is not None
    return int(found[1])


# The file is torch's own and its sha256 after it: torch does not notice a changed bit in a tensor. Its reader, and
# anybody's, opens the file with the digest in place.
_DIGEST = hashlib.sha256().digest_size


def _save(content: dict[str, Any], file: BinaryIO) -> None:
    writer = _Writer(file)
    try:
        torch.save(content, cast(BinaryIO, writer))
    except RuntimeError:
        if writer.error is not None:  # torch tells of a full disk as of a wrong position in its file
            raise writer.error from None
        raise
    file.write(writer.digest.digest())


def _load(path: Path, device: torch.device) -> dict[str, Any]:
    with open(path, "rb") as file:
        whole = os.fstat(file.fileno()).st_size - _DIGEST
        digest, left = hashlib.sha256(), whole
        while left > 0 and (piece := file.read(min(left, 1 << 22))):
            digest.update(piece)
            left -= len(piece)
        if left != 0 or file.read() != digest.digest():
            raise ValueError("its checksum is wrong")
    content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return content


class _Writer(io.RawIOBase):
    """Hashes what goes through it, and remembers why it could not be written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            count = self._file.write(data)
        except OSError as error:
            self.error = error
            raise
        self.digest.update(data)
        return count
