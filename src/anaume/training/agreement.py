"""What all processes of a run must have in common: the same line, the same corpus, the same checkpoint.

On one machine it comes by itself. On several, a copy of the corpus may be an older one, a processor may lack bfloat16,
the run's folder may be each machine's own; the numbers of such a run would be nobody's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from anaume.errors import DataError, SettingsError
from anaume.training.folder import DECIDES, RESULT, SETTINGS
from anaume.training.ranks import Ranks
from anaume.training.sections import CommonRun, SettingsTables
from anaume.training.state import Progress

_OF_A_MACHINE = "run.threads"  # how many cores it has changes no number of the run


def require_one_run(
    folder: Path,
    settings: SettingsTables,
    source: Mapping[str, Any],
    ranks: Ranks,
    device: torch.device,
    decides: Mapping[str, str] = DECIDES,
) -> None:
    """Raise SettingsError in every process when one of them was given another run than the first.

    settings  resolved, so that what a machine decided by itself is compared too
    source    what run.json will say
    decides   what of it must be the same, and how a difference is called
    """
    if ranks.world == 1:
        return
    held = [(folder / name).exists() for name in (SETTINGS, RESULT)]
    if ranks.differ(_number(held), device):
        raise SettingsError(f"{folder} is not the same folder for all processes: it must lie on a disk that all see")
    given: dict[str, Any] = {what: source[key] for key, what in decides.items()}
    for section, values in settings.model_dump().items():
        given |= {f"{section}.{key}": value for key, value in values.items()}
    del given[_OF_A_MACHINE]
    differ = [what for what, value in given.items() if ranks.differ(_number(value), device)]
    if differ:
        raise SettingsError(
            f"the processes were not all given the same run: {', '.join(differ)}. Every machine needs the same line "
            "and the same data; what was left to the machines (run.precision) can be given"
        )


def require_rows(run: CommonRun, ranks: Ranks) -> None:
    """Raise SettingsError for batches of fewer rows than processes."""
    assert run.batch_rows is not None
    if run.batch_rows < ranks.world:
        raise SettingsError(f"run.batch_rows is {run.batch_rows}, fewer than the {ranks.world} processes")


def require_one_step(progress: Progress, ranks: Ranks, device: torch.device) -> None:
    """Raise DataError in every process when one of them found another checkpoint than the first."""
    step, _ = ranks.agree(float(progress.step), False, device)
    if ranks.differ(progress.step, device):
        raise DataError(
            f"process {ranks.rank} finds a checkpoint at step {progress.step}, the first one at {step:.0f}: the run's "
            "folder must lie on a disk that all machines see"
        )


def _number(value: Any) -> int:
    """Return a number that stands for a value of JSON, small enough for a float64 to hold."""
    return int.from_bytes(hashlib.sha256(json.dumps(value).encode()).digest()[:6], "big")
