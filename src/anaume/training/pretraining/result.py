"""How a pretraining run ended: RUN/result.json, written last."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from anaume.errors import DataError
from anaume.training.folder import BUNDLE, RESULT, SETTINGS, write_json
from anaume.training.pretraining.settings import PretrainSettings


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended."""

    folder: Path
    finished: bool
    """False: it was asked to stop, saved, and goes on when the same call comes again."""
    steps: int
    seconds: float
    """Spent on it over all sittings."""
    tokens: int
    """Real tokens seen."""
    skipped: int
    """Steps not applied because something was not finite."""
    scores: dict[str, float | None]
    """Of the last evaluation: held_out_loss (nats a token; None where it is not finite), held_out_accuracy, ...; empty
    without held-out text."""
    scores_before: dict[str, float | None]
    """The same before the first step, of a run that continues from a bundle."""
    finished_before: bool = False
    """True: the folder held this very run, finished, and nothing was done."""

    @property
    def bundle(self) -> Path:
        """Where the trained bundle lies."""
        return self.folder / BUNDLE


def stored_settings(folder: Path) -> PretrainSettings | None:
    """Return the settings of the pretraining run in `folder`; None where there is no run yet."""
    return PretrainSettings.read(folder / SETTINGS) if (folder / SETTINGS).exists() else None


def read_result(folder: Path) -> PretrainResult | None:
    """Return how a finished run ended; None for one that is not finished."""
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        return PretrainResult(folder=folder, **json.loads(path.read_bytes()), finished_before=True)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: can't be read ({error}); delete it to have it made again") from error


def write_result(result: PretrainResult) -> None:
    """Say that the run is finished."""
    content = {key: value for key, value in asdict(result).items() if key not in ("folder", "finished_before")}
    write_json(result.folder / RESULT, content)
