"""What a run must remember to go on as if nothing had happened, in one file a checkpoint.

Weights, optimizer, step, place in the data, every random generator, seconds spent. The learning rate, the mask rate and
the masks are functions of these and of the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from anaume.data import atomic_file
from anaume.data.stream import Position
from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert

log = get_logger(__name__)

_NAME = re.compile(r"step-(\d{8})\.pt")


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
    long: bool = False
    """Whether the last part, with longer rows, has begun."""
    position: Position = field(default_factory=Position)
    """The next row."""


def save_checkpoint(
    folder: Path, progress: Progress, model: Bert, optimizer: torch.optim.Optimizer, device: torch.device, keep: int
) -> Path:
    """Write a checkpoint whole or not at all, then remove all but the last `keep`. Raises DataError on a full disk."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{progress.step:08d}.pt"
    content = {
        "progress": asdict(progress),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generators": _generators(device),
    }
    with atomic_file(path) as file:
        torch.save(content, file)
    for old in checkpoints(folder)[:-keep]:
        old.unlink(missing_ok=True)
    log.debug("checkpoint %s", path)
    return path


def load_checkpoint(path: Path, model: Bert, optimizer: torch.optim.Optimizer, device: torch.device) -> Progress:
    """Put everything back as it was when `path` was written. Raises DataError for a damaged file."""
    try:
        content = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        _set_generators(content["generators"], device)
        told = content["progress"]
        return Progress(**{**told, "position": Position(**told["position"])})
    except (RuntimeError, KeyError, TypeError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path}: not a checkpoint of this run, or damaged ({reason}): delete it to use the one before"
        ) from error


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def _generators(device: torch.device) -> dict[str, Any]:
    # Dropout draws from the device's default generator; it takes no other.
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device).cpu()
    if device.type == "mps":
        states["mps"] = torch.mps.get_rng_state().cpu()
    return states


def _set_generators(states: Mapping[str, torch.Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"].cpu(), device)
    if device.type == "mps":
        torch.mps.set_rng_state(states["mps"].cpu())
