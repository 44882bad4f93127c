"""From labelled files and a bundle to a model of a task: several seeds are trained and told, the best is kept."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.bundle.files import sha256_of
from anaume.data import atomic_file
from anaume.data.labelled import Example
from anaume.engines import has_bfloat16, pick_device
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.logs import get_logger
from anaume.tasks.features import Features
from anaume.tasks.registry import AnyTask, fit_task, read_examples, task_named
from anaume.training.finetune_settings import FinetuneSettings
from anaume.training.folder import BUNDLE
from anaume.training.pretrain import stop_signals
from anaume.training.ranks import joined
from anaume.training.spread import Spread
from anaume.training.tuning import Material, SeedResult, planned_steps, tune

log = get_logger(__name__)

REPORT = "report.json"
EPOCHS, BATCH_ROWS = 3.0, 32
_SPLIT_SEED = 20181011  # of the dev split: the same rows whatever the run's seed
_CHUNK = 8192  # examples made into rows at once


@dataclass(frozen=True)
class FinetuneReport:
    """How a fine-tuning ended."""

    folder: Path
    task: str
    metric: str
    """The score that decided."""
    seeds: list[SeedResult]
    """One a seed, in order."""
    spread: Spread | None
    """Of the metric over the seeds; None where nothing was held out, or a seed is not finished."""
    best_seed: int | None
    """The seed whose weights are in folder/bundle; None while none is finished."""
    train_examples: int
    dev_examples: int
    dev_from: str
    """"file", "split" (of the training rows) or "none"."""
    truncated_share: float
    """The share of the training examples that were cut, 0 to 1."""
    unknown_share: float
    """The share of their pieces that the vocabulary does not hold, 0 to 1."""
    seconds: float
    """Training, all seeds and sittings."""

    @property
    def finished(self) -> bool:
        """Whether every seed is."""
        return all(seed.finished for seed in self.seeds)

    @property
    def bundle(self) -> Path:
        """The best seed's bundle."""
        return self.folder / BUNDLE


def finetune(
    task: str,
    train: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    bundle: Bundle,
    dev: str | Path | Sequence[str | Path] | None = None,
    settings: FinetuneSettings | None = None,
    seeds: int = 3,
    device: str = "auto",
    report: Callable[[int, dict[str, Any]], None] | None = None,
    begins: Callable[[FinetuneReport, FinetuneSettings], None] | None = None,
    **reading: Any,
) -> FinetuneReport:
    """Train a bundle for a task, with several seeds; `out` is the result, and a bundle that `anaume.load` opens.

    task     classification, pair-classification, multi-label, regression, ner, question-answering, multiple-choice
    train    labelled files; `reading` says how they are read, as the readers of `anaume.data.labelled` take it
    dev      held-out files; None = a part of the training rows is held out (data.dev_share)
    seeds    how many runs, with the seeds run.seed, run.seed + 1, ...: they differ in head, order and dropout
    report   gets (seed, each row of its metrics)
    begins   gets what is known before the first step

    The same call again goes on where it was stopped or killed, bit for bit. Ctrl-C and SIGTERM end it after the step it
    is at, saved. Raises SettingsError for settings that don't fit or differ from those in `out`, DataError for a file,
    a row, or a full disk.
    """
    kind = task_named(task)
    examples = read_examples(kind, train, labelled=True, **reading)
    if not examples:
        raise DataError(f"{_names(train)}: no examples to learn from")
    held_out = None
    if dev is not None:
        held_out = read_examples(kind, dev, labelled=True, **reading)
        if not held_out:
            raise DataError(f"{_names(dev)}: no examples to score on")
    paths = [*_paths(train), *([] if dev is None else _paths(dev))]
    return finetune_examples(
        task,
        examples,
        out,
        bundle=bundle,
        dev=held_out,
        settings=settings,
        seeds=seeds,
        device=device,
        report=report,
        begins=begins,
        read=[{"name": Path(path).name, "sha256": sha256_of(Path(path))} for path in paths],
    )


def finetune_examples(
    task: str,
    train: Sequence[Example],
    out: str | Path,
    *,
    bundle: Bundle,
    dev: Sequence[Example] | None = None,
    settings: FinetuneSettings | None = None,
    seeds: int = 3,
    device: str = "auto",
    report: Callable[[int, dict[str, Any]], None] | None = None,
    begins: Callable[[FinetuneReport, FinetuneSettings], None] | None = None,
    read: Sequence[Mapping[str, Any]] = (),
) -> FinetuneReport:
    """As `finetune`, of examples that are there already; `read` tells of the files they came from, for the record."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise SettingsError(f"seeds must be a whole number and at least 1; got {seeds!r}")
    settings = FinetuneSettings() if settings is None else settings
    kind = task_named(task)
    folder = Path(out)
    examples, held_out, dev_from = list(train), list(dev or ()), "none" if dev is None else "file"
    if dev is None and settings.data.dev_share > 0:
        from anaume.data.labelled import split_examples

        examples, held_out = split_examples(examples, settings.data.dev_share, _SPLIT_SEED)
        dev_from = "split" if held_out else "none"
    fitted = fit_task(kind, examples, settings.task.given())
    with joined(pick_device(device)) as (ranks, target):
        settings = _resolve(settings, bundle, target)
        assert settings.model.max_length is not None
        features = _features(fitted, examples, bundle, settings.model.max_length)
        if features.notes:
            warnings.warn("; ".join(features.told), AnaumeWarning, stacklevel=2)
        dev_features = _features(fitted, held_out, bundle, settings.model.max_length) if held_out else None
        settings = _with_length(settings, len(features), held_out=bool(held_out))
        material = Material(
            task=fitted,
            features=features,
            dev_examples=held_out,
            dev_features=dev_features,
            bundle=bundle,
            source={
                "data": _hash_of(read, [*examples, *held_out]),
                "bundle": bundle.fingerprint,
                "task": kind.name,
                "ranks": ranks.world,
                "device": target.type,
            },
            data=read,
        )
        results: list[SeedResult] = []
        about = {
            "folder": folder,
            "task": kind.name,
            "metric": fitted.main,
            "train_examples": len(examples),
            "dev_examples": len(held_out),
            "dev_from": dev_from,
            "truncated_share": features.cut / max(1, len(features.coverage)),
            "unknown_share": features.unknown / max(1, features.pieces),
        }
        if begins is not None and ranks.first:
            begins(_report(about, []), settings)
        with stop_signals() as asked:
            for seed in range(settings.run.seed, settings.run.seed + seeds):
                result = tune(
                    folder / f"seed-{seed}",
                    material,
                    _with_seed(settings, seed),
                    ranks=ranks,
                    device=target,
                    stop_asked=asked,
                    report=None if report is None else _told(report, seed),
                )
                results.append(result)
                if not result.finished:
                    break
        whole = _report(about, results)
        if ranks.first and whole.finished:
            _keep_best(whole)
        return whole


def _report(about: dict[str, Any], results: list[SeedResult]) -> FinetuneReport:
    metric = about["metric"]
    scores = [result.scores.get(metric) for result in results]
    known = [score for score in scores if isinstance(score, float)]
    done = bool(results) and all(result.finished for result in results)
    best = None
    if done:
        best = max(results, key=lambda result: result.scores.get(metric) or float("-inf")).seed
    return FinetuneReport(
        **about,
        seeds=results,
        spread=Spread.of(known) if done and len(known) == len(results) else None,
        best_seed=best,
        seconds=sum(result.seconds for result in results),
    )


def _keep_best(report: FinetuneReport) -> None:
    """Put the best seed's bundle where the result is looked for, and write the report."""
    if report.best_seed is None:
        return
    Bundle.load(report.folder / f"seed-{report.best_seed}" / BUNDLE, device="cpu").save(report.bundle)
    told = {**asdict(report), "folder": report.folder.name}
    with atomic_file(report.folder / REPORT) as file:
        file.write((json.dumps(told, indent=1) + "\n").encode())


def _hash_of(read: Sequence[Mapping[str, Any]], examples: Sequence[Example]) -> str:
    """Return a hash of the files, or of the examples where they came from none."""
    told = [one["sha256"] for one in read] if read else [repr(example) for example in examples]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _features(task: AnyTask, examples: Sequence[Example], bundle: Bundle, max_length: int) -> Features:
    """Return the rows of all examples, made part by part."""
    chunks = [examples[start : start + _CHUNK] for start in range(0, len(examples), _CHUNK)]
    return Features.joined([task.features(chunk, bundle.tokenizer, max_length, learn=True) for chunk in chunks])


def _resolve(settings: FinetuneSettings, bundle: Bundle, device: torch.device) -> FinetuneSettings:
    """Return the settings with what was left to machine and bundle written down."""
    run, longest = settings.run, bundle.config.max_position_embeddings
    max_length = settings.model.max_length or bundle.embedding.max_length
    if max_length > longest:
        raise SettingsError(f"model.max_length is {max_length}; the bundle takes {longest} tokens")
    values = [f"model.max_length={max_length}"]
    if run.precision == "auto":
        values.append(f"run.precision={'bfloat16' if has_bfloat16(device) else 'float32'}")
    if run.threads is None:
        values.append(f"run.threads={torch.get_num_threads()}")
    if run.batch_rows is None:
        values.append(f"run.batch_rows={BATCH_ROWS}")
    return settings.with_values(values)


def _with_length(settings: FinetuneSettings, units: int, *, held_out: bool) -> FinetuneSettings:
    """Return the settings with the number of steps and of evaluations written down."""
    run = settings.run
    if run.epochs is None and run.steps is None and run.minutes is None:
        settings = settings.with_values([f"run.epochs={EPOCHS}"])
    evaluations = run.evaluations
    if evaluations is None:
        rounds = settings.run.epochs or (settings.run.steps or 0) * (run.batch_rows or 1) / max(units, 1)
        evaluations = max(1, round(rounds)) if run.minutes is None else 5
    steps = planned_steps(settings, units)
    values = [f"run.evaluations={evaluations if held_out else 0}"]
    values += [] if steps is None else ["run.epochs=none", f"run.steps={steps}"]
    return settings.with_values(values)


def _with_seed(settings: FinetuneSettings, seed: int) -> FinetuneSettings:
    return settings.with_values([f"run.seed={seed}"])


def _told(report: Callable[[int, dict[str, Any]], None], seed: int) -> Callable[[dict[str, Any]], None]:
    return lambda row: report(seed, row)


def _paths(given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    return [given] if isinstance(given, str | Path) else list(given)


def _names(given: str | Path | Sequence[str | Path]) -> str:
    return ", ".join(map(str, _paths(given)))
