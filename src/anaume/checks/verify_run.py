"""Promise 3 on a run of the user's own: killed and resumed it ends bit for bit where the uninterrupted run ends."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anaume.bundle import Bundle
from anaume.checks.report import Check, VerifyReport, guarded, verdict
from anaume.errors import DataError, SettingsError
from anaume.logs import get_logger
from anaume.training import PretrainSettings
from anaume.training.folder import BUNDLE, SETTINGS, read_source
from anaume.training.pretraining.result import read_result, stored_settings
from anaume.training.records import JOURNAL, METRICS, read_journal, read_lines
from anaume.training.state import CHECKPOINTS, checkpoints, read_checkpoint

log = get_logger(__name__)

PROMISE = 3
FIRST, LAST = 8, 4
"""Steps of the run that are trained again: its beginning, and its end with the longer rows where it has them."""

_TRIES = 5
_HINT = "the same machine, torch and threads give the same bits: if they are the same, please report this"


@dataclasses.dataclass(frozen=True)
class _OwnRun:
    """What is known of the run that is verified."""

    folder: Path
    settings: PretrainSettings
    source: dict[str, Any]
    fractions: list[float]
    """Of the steps that are trained again."""


def verify_run(folder: str | Path) -> VerifyReport:
    """Check the files of a run, train a few of its steps again in a temporary folder, killed and not, and compare bits.

    The run itself is only read. Its corpus (and the bundle it began from) must still lie where they were. Raises
    SettingsError (a ValueError) for a folder that holds no run.
    """
    folder = Path(folder)
    settings = stored_settings(folder)
    if settings is None:
        raise SettingsError(f"{folder} holds no run ({SETTINGS})")
    source = read_source(folder)
    rows = list(guarded(PROMISE, "the files of the run", lambda: _check_files(folder, settings)))
    own = _OwnRun(folder, settings, source, _fractions(folder, settings))
    rows += guarded(PROMISE, "a few of its steps again", lambda: _check_steps(own))
    return VerifyReport(tuple(rows))


def _fractions(folder: Path, settings: PretrainSettings) -> list[float]:
    """Return the shares of the run that had passed at its first and its last steps."""
    if settings.run.steps is not None:
        whole = [step / settings.run.steps for step in range(settings.run.steps)]
    else:
        whole = read_journal(folder / JOURNAL)
    return whole if len(whole) <= FIRST + LAST else whole[:FIRST] + whole[-LAST:]


def _check_files(folder: Path, settings: PretrainSettings) -> Iterator[Check]:
    saved = checkpoints(folder / CHECKPOINTS)
    if not saved:
        yield Check(PROMISE, "the last checkpoint", "none yet", "whole", "not checked", "let the run go on")
        return
    what = "the last checkpoint is whole"
    try:
        content = read_checkpoint(saved[-1], torch.device("cpu"))
    except DataError as error:
        yield verdict(
            PROMISE, what, str(error), "its checksum is right", False, "delete it to go on from the one before"
        )
        return
    step = content["progress"]["step"]
    yield verdict(PROMISE, what, f"{saved[-1].name}, step {step}", "its checksum is right", True)
    if settings.run.steps is None:
        journal = len(read_journal(folder / JOURNAL))
        what = "the journal has every step"
        yield verdict(PROMISE, what, f"{journal} steps", f"at least {step}", journal >= step, "it was changed")
    if read_result(folder) is not None:
        bundle = Bundle.load(folder / BUNDLE, device="cpu").model.state_dict()
        differing = _differing(bundle, content["model"])
        what, bound = "the bundle holds the weights of the last checkpoint", "all equal bit for bit"
        hint = "the bundle was changed after training"
        yield verdict(PROMISE, what, _counted(differing, len(bundle)), bound, not differing, hint)


def _check_steps(own: _OwnRun) -> Iterator[Check]:
    count = len(own.fractions)
    what = f"{count} of its steps, killed and resumed"
    lost = [own.source[key] for key in ("corpus_path", "bundle_path") if own.source.get(key)]
    lost = [path for path in lost if not Path(path).exists()]
    if lost or (own.source["bundle"] and not own.source["bundle_path"]):
        hint = f"what it was trained from is gone: {', '.join(lost) or 'the starting bundle was never saved'}"
        yield Check(PROMISE, what, "", "bit for bit the uninterrupted", "not checked", hint)
        return
    log.info("training %d steps of the run again, twice: uninterrupted, and killed and resumed", count)
    with tempfile.TemporaryDirectory(prefix="anaume-verify-") as folder:
        whole = Path(folder) / "whole"
        _finish(_command(own, whole, each_step=False))
        yield _own_losses(own, whole)
        killed_at = None
        for trial in range(_TRIES):
            out = Path(folder) / f"killed-{trial}"
            killed_at = _kill(_command(own, out, each_step=True), out, count)
            if killed_at is not None:
                break
        if killed_at is None:
            hint = "the steps are so short that no kill came in time"
            yield Check(PROMISE, what, "", "bit for bit the uninterrupted", "not checked", hint)
            return
        _finish(_command(own, out, each_step=True))
        one, other = (
            read_checkpoint(checkpoints(each / CHECKPOINTS)[-1], torch.device("cpu")) for each in (whole, out)
        )
        tensors = [_tensors(content) for content in (one, other)]
        differing = _differing(*tensors)
        losses = [[row["loss"] for row in read_lines(each / METRICS)] for each in (whole, out)]
        told = f"killed after step {killed_at}: {_counted(differing, len(tensors[0]))}"
        told += "" if losses[0] == losses[1] else ", and losses differ"
        kept = not differing and losses[0] == losses[1]
        yield verdict(PROMISE, what, told, "weights, optimizer and losses equal bit for bit", kept, _HINT)


def _own_losses(own: _OwnRun, again: Path) -> Check:
    """Hold the losses the run wrote down against those of the same steps trained again."""
    what, bound = "its own first losses come again", "equal bit for bit"
    if own.source["ranks"] != 1:
        hint = f"it was trained by {own.source['ranks']} processes, and is verified by one"
        return Check(PROMISE, what, "", bound, "not checked", hint)
    there, here = (
        {row["step"]: row["loss"] for row in read_lines(folder / METRICS) if "loss" in row}
        for folder in (own.folder, again)
    )
    # A row that follows the row of the step before is of one step alone, and so is the first.
    steps = [step for step in sorted(there) if step in here and step <= FIRST and (step == 1 or step - 1 in there)]
    if not steps:
        return Check(PROMISE, what, "", bound, "not checked", "the run has no row of its first step yet")
    wrong = [step for step in steps if there[step] != here[step]]
    told = f"{len(steps)} steps, {len(wrong)} differ"
    told += f": step {wrong[0]} {there[wrong[0]]!r} then, {here[wrong[0]]!r} now" if wrong else ""
    return verdict(PROMISE, what, told, bound, not wrong, _HINT)


def _command(own: _OwnRun, out: Path, *, each_step: bool) -> list[str]:
    """Return the command line that trains the steps into `out`; with a checkpoint each step, or one at the end."""
    run = own.settings.run.model_copy(
        update={
            "steps": None,  # the journal below says how many
            "log_seconds": 0.0,
            "checkpoint_seconds": 1e-9 if each_step else 1e9,
            "keep_checkpoints": 1,
            "evaluations": 0,
            "curves": False,
            "tensorboard": False,
        }
    )
    config, journal = out.with_suffix(".toml"), out.with_suffix(".jsonl")
    config.write_text(own.settings.model_copy(update={"run": run}).to_toml(), encoding="utf-8")
    rows = [json.dumps({"step": step, "fraction": fraction}) + "\n" for step, fraction in enumerate(own.fractions)]
    journal.write_text("".join(rows), encoding="utf-8")
    source = own.source
    command = [sys.executable, "-m", "anaume", "pretrain", source["corpus_path"], "-o", str(out), "-q"]
    command += ["--config", str(config), "--replay", str(journal), "--device", source["device"]]
    command += ["--bundle", source["bundle_path"]] if source["bundle"] else []
    return command + (["--new-heads"] if source["new_heads"] else [])


def _finish(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DataError(f"training a few steps again failed: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _kill(command: Sequence[str], out: Path, count: int) -> int | None:
    """Begin the command and kill it at a step drawn by chance; return the last one written, None if it finished."""
    wanted = random.randint(1, max(1, count - 2))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and _last_step(out) < wanted:
                time.sleep(0.002)
        finally:
            process.kill()
    reached = _last_step(out)
    return reached if 0 < reached < count else None


def _last_step(out: Path) -> int:
    path = out / METRICS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _tensors(content: dict[str, Any]) -> dict[str, Tensor]:
    """Return every tensor of a checkpoint, weights and optimizer, by name."""
    found = {f"model.{name}": tensor for name, tensor in content["model"].items()}
    for number, state in content["optimizer"]["state"].items():
        found |= {f"optimizer.{number}.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
    return found


def _differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    return sorted(
        name
        for name in one.keys() | other.keys()
        if name not in one or name not in other or not torch.equal(one[name], other[name])
    )


def _counted(differing: Sequence[str], count: int) -> str:
    names = f": {', '.join(differing[:3])}" if differing else ""
    return f"{count} tensors, {len(differing)} differ{names}"
