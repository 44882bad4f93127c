"""What a fine-tuning starts from: settings with nothing left open, rows of examples, and what decides a run."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from anaume.bundle import Bundle
from anaume.bundle.files import sha256_of
from anaume.data.labelled import Example, split_examples
from anaume.engines import has_bfloat16
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import IGNORED, Features, Ragged
from anaume.tasks.registry import AnyTask, fit_task
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.folder import RESULT, SETTINGS, check_folder

VECTORS = "vectors"
"""What a frozen encoder gives, in the folder until all seeds are finished."""
DECIDES = {
    "data": "other examples (files, columns, format)",
    "bundle": "another starting bundle",
    "task": "another task",
}
"""What of run.json must be the same to go on."""
_TIMED_EVALUATIONS = 5
_SPLIT_SEED = 20181011  # of the dev split: the same rows whatever the run's seed
_CHUNK = 8192  # examples made into rows at once
E = TypeVar("E", bound=Example)
_SEED = re.compile(r"seed-(\d+)")


def seed_folder(folder: Path, seed: int) -> Path:
    """Return where the run of one seed lies."""
    return folder / f"seed-{seed}"


def begun_seeds(folder: Path) -> list[int]:
    """Return the seeds that have a run in `folder`, lowest first.

    Raises SettingsError where it holds something else, so that nothing of the user's is written over.
    """
    if not folder.exists():
        return []
    if not folder.is_dir():
        raise SettingsError(f"{folder} is a file: give a folder that is new or holds this fine-tuning")
    entries = [path.name for path in folder.iterdir() if path.name != VECTORS]
    seeds = [int(found[1]) for name in entries if (found := _SEED.fullmatch(name))]
    if entries and not seeds:
        raise SettingsError(f"{folder} is not empty and holds no fine-tuning: give another folder")
    return sorted(seed for seed in seeds if (seed_folder(folder, seed) / SETTINGS).exists())


def finished_seeds(folder: Path) -> list[int]:
    """Return those of them whose run is finished."""
    return [seed for seed in begun_seeds(folder) if (seed_folder(folder, seed) / RESULT).exists()]


def stored_settings(folder: Path) -> FinetuneSettings | None:
    """Return the settings of the fine-tuning in `folder`, as its first seed has them; None where there is none."""
    for seed in begun_seeds(folder):
        return FinetuneSettings.read(seed_folder(folder, seed) / SETTINGS)
    return None


def check_seeds(folder: Path, settings: FinetuneSettings, source: Mapping[str, Any]) -> None:
    """Raise SettingsError where `folder` holds another fine-tuning: its seeds differ in nothing else."""
    for seed in begun_seeds(folder)[:1]:
        check_folder(seed_folder(folder, seed), with_seed(settings, seed), source, DECIDES)


def placed(examples: Sequence[E], name: str) -> list[E]:
    """Return examples that all have a place for messages: those handed over without one, their number in `name`.

    Raises DataError for what is no example.
    """
    made = []
    for number, example in enumerate(examples):
        if not isinstance(example, Example):
            raise DataError(
                f"{name}[{number}]: expected an example of anaume.data.labelled; got {type(example).__name__} "
                f"{example!r:.60}"
            )
        made.append(example if example.place else replace(example, place=f"{name}[{number}]"))
    return made


def hold_out(examples: Sequence[E], share: float) -> tuple[list[E], list[E]]:
    """Return (train, dev) of examples that come without a dev part. Raises DataError where they can't be split."""
    try:
        return split_examples(examples, share, _SPLIT_SEED)
    except DataError as error:
        raise DataError(f"nothing can be held out: {error}; give dev examples, or data.dev_share=0") from error


def fitted_on(
    kind: type[AnyTask], train: Sequence[Example], dev: Sequence[Example], options: Mapping[str, Any], *, split: bool
) -> AnyTask:
    """Return a task fitted to `train`, which knows all labels of `dev`; `split`: whether that was held out of `train`.

    Raises DataError and SettingsError for what can't be learned; `anaume check` asks here too.
    """
    try:
        fitted = fit_task(kind, train, options)
    except DataError as error:
        if not split:
            raise
        fit_task(kind, [*train, *dev], options)  # what all rows are refused for is no fault of the split
        raise DataError(
            f"{error}; {len(dev):,} of {len(train) + len(dev):,} rows were held out before: give dev examples, or "
            "data.dev_share=0"
        ) from error
    if options.get("metric") is None:
        fitted = fitted.judged_on(dev)
    fitted.check_labels(dev)
    return fitted


def resolve(
    settings: FinetuneSettings, bundle: Bundle, device: torch.device, stored: FinetuneSettings | None
) -> FinetuneSettings:
    """Return the settings with what was left to machine and bundle written down.

    stored  of the fine-tuning that goes on: what was left to the machine then stays as it was found

    Raises SettingsError for rows longer than the bundle takes.
    """
    run, longest = settings.run, bundle.config.max_position_embeddings
    max_length = settings.model.max_length or bundle.embedding.max_length
    if max_length > longest:
        raise SettingsError(f"model.max_length is {max_length}; the bundle takes {longest} tokens")
    values = [f"model.max_length={max_length}"]
    if run.precision == "auto":
        own = "bfloat16" if has_bfloat16(device) else "float32"
        values.append(f"run.precision={own if stored is None else stored.run.precision}")
    if run.threads is None:
        values.append(f"run.threads={torch.get_num_threads() if stored is None else stored.run.threads}")
    return settings.with_values(values)


def with_length(settings: FinetuneSettings, units: int, *, held_out: bool) -> FinetuneSettings:
    """Return resolved settings with batch, steps and evaluations written down.

    units  what an epoch goes through: fewer than a batch make a batch of their own, so that an epoch is a step at least
    """
    if settings.run.batch_rows is None:
        settings = settings.with_values([f"run.batch_rows={min(settings.rows, max(units, 1))}"])
    run = settings.run
    assert run.batch_rows is not None
    epochs, steps = run.epochs, run.steps
    if epochs is None and steps is None and run.minutes is None:
        epochs = settings.epochs
    if epochs is not None:
        steps = max(1, math.ceil(epochs * units / run.batch_rows))
    evaluations = run.evaluations
    if evaluations is None and steps is not None:
        evaluations = max(1, round(steps * run.batch_rows / units if epochs is None else epochs))
    elif evaluations is None:
        evaluations = _TIMED_EVALUATIONS
    values = [f"run.evaluations={evaluations if held_out else 0}", "run.epochs=none"]
    return settings.with_values([*values, *([] if steps is None else [f"run.steps={steps}"])])


def with_seed(settings: FinetuneSettings, seed: int) -> FinetuneSettings:
    """Return the settings of one seed's run."""
    return settings.with_values([f"run.seed={seed}"])


def rows_of(task: AnyTask, examples: Sequence[Example], bundle: Bundle, max_length: int) -> Features:
    """Return the rows of all examples, made part by part."""
    chunks = [examples[start : start + _CHUNK] for start in range(0, len(examples), _CHUNK)]
    return Features.joined([task.features(chunk, bundle.tokenizer, max_length, learn=True) for chunk in chunks])


def require_targets(features: Features) -> None:
    """Raise DataError where no example can be learned from: each of their targets is to be ignored."""
    for target in features.targets.values():
        values = target.values if isinstance(target, Ragged) else target
        if values.size and np.issubdtype(values.dtype, np.integer) and bool((values == IGNORED).all()):
            told = f": {'; '.join(features.told)}" if features.told else ""
            raise DataError(f"none of the {len(features.coverage):,} training examples can be learned from{told}")


def hash_of_examples(*parts: Sequence[Example]) -> str:
    """Return a hash of what is learned and what is scored, wherever it was read from."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)} examples".encode())
        for example in part:
            digest.update(repr(replace(example, place="", fields={})).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:16]


def told_of_files(paths: Sequence[str | Path]) -> list[dict[str, str]]:
    """Return what the training record says of the files: names, and sha256 where they can be read once more."""
    return [
        {"name": Path(path).name, "sha256": sha256_of(Path(path))} if Path(path).is_file() else {"name": "stdin"}
        for path in paths
    ]
