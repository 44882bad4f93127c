"""From labelled files and a bundle to a model of a task: several seeds are trained and told, the best is kept."""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.bundle.embedding import told_of_vocabulary
from anaume.data import atomic_file
from anaume.data.labelled import Example, count_seen
from anaume.engines import pick_device
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.late_interaction import LateInteraction
from anaume.tasks.registry import read_examples, task_named
from anaume.tasks.similarity import Similarity
from anaume.tokenization import voicing_lost
from anaume.training.drawing import Picture
from anaume.training.finetuning.curves import curves
from anaume.training.finetuning.frozen import FrozenEncoder
from anaume.training.finetuning.linear import STRENGTHS, is_linear
from anaume.training.finetuning.probing import (
    FEATURES,
    check_probe,
    head_options,
    probed_files,
    probed_task,
    settings_for,
)
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.finetuning.similarity import can_be_scored, check_similarity, late_options, vector_options
from anaume.training.finetuning.spread import Spread
from anaume.training.finetuning.start import (
    VECTORS,
    begun_seeds,
    check_seeds,
    finished_seeds,
    fitted_on,
    hash_of_examples,
    hold_out,
    placed,
    require_targets,
    resolve,
    rows_of,
    seed_folder,
    stored_settings,
    told_of_files,
    with_length,
    with_seed,
)
from anaume.training.finetuning.teaching import taught
from anaume.training.finetuning.tuning import Material, SeedResult, tune
from anaume.training.folder import BUNDLE
from anaume.training.ranks import joined
from anaume.training.surroundings import stop_signals

REPORT = "report.json"
_SHARES = ("accuracy", "f1")  # what scores from 0 to 1 are called, or end in; correlations go down to -1

Files = str | Path | Sequence[str | Path]


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
    dev_in_train: int
    """How many dev examples of a file train has too, as they stand (of questions: how many have their contexts)."""
    truncated_share: float
    """The share of the training examples that were cut, 0 to 1."""
    unknown_share: float
    """The share of their pieces that the vocabulary does not hold, 0 to 1."""
    seconds: float
    """Training, all seeds and sittings."""
    frozen: bool = False
    """Whether the encoder stayed as it was: then `bundle` makes the vectors of the starting bundle, and has their
    fingerprint."""

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
    train: Files,
    out: str | Path,
    *,
    bundle: Bundle,
    dev: Files | None = None,
    settings: FinetuneSettings | None = None,
    seeds: int = 3,
    device: str = "auto",
    report: Callable[[int, dict[str, Any]], None] | None = None,
    begins: Callable[[FinetuneReport, FinetuneSettings], None] | None = None,
    **reading: Any,
) -> FinetuneReport:
    """Train a bundle for a task, with several seeds; `out` is the result, and a bundle that `anaume.load` opens.

    task     classification, pair-classification, multi-label, regression, ner, question-answering, multiple-choice,
             ranking; similarity: the vectors of texts, or late-interaction: those of tokens (SimilaritySettings); or
             features: the encoder stays frozen, and a probe learns on it (see `probing.py`; ProbeSettings)
    train    labelled files; `reading` says how they are read, as the readers of `anaume.data.labelled` take it
    dev      held-out files; None = a part of the training rows is held out (data.dev_share)
    seeds    how many runs, with the seeds run.seed, run.seed + 1, ...: they differ in head, order and dropout. Those
             that are finished in `out` stay part of the result, and others can be added
    report   gets (seed, each row of its metrics)
    begins   gets what is known before the first step

    The same call again goes on where it was stopped or killed, bit for bit. Ctrl-C and SIGTERM end it after the step it
    is at, saved. Raises SettingsError for settings that don't fit or differ from those in `out`, DataError for a file,
    a row, or a full disk.
    """
    _require_bundle(bundle)
    begun_seeds(Path(out))  # refuses a folder of something else before anything is read
    settings = _settings(task, settings)
    kind = probed_files(settings.task.of, train, **reading) if task == FEATURES else task_named(task)
    examples = read_examples(kind, train, labelled=True, **reading)
    if not examples:
        raise DataError(f"{_names(train)}: no examples to learn from")
    held_out = None
    if dev is not None:
        held_out = read_examples(kind, dev, labelled=True, **reading)
        if not held_out:
            raise DataError(f"{_names(dev)}: no examples to score on")
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
        read=told_of_files([*_paths(train), *([] if dev is None else _paths(dev))]),
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
    vectors: str | Path | None = None,
) -> FinetuneReport:
    """As `finetune`, of examples that are there already; `read` tells of the files they came from, for the record.

    vectors  of `features`: where what the encoder gives is kept, for other probes of the same rows to find; None = in
             `out`, until it is finished
    """
    _require_bundle(bundle)
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise SettingsError(f"seeds must be a whole number and at least 1; got {seeds!r}")
    settings, probing, folder = _settings(task, settings), task == FEATURES, Path(out)
    kind = probed_task(settings.task.of, train) if probing else task_named(task)
    stored = stored_settings(folder)
    examples, held_out, dev_from = placed(train, "train"), placed(dev or (), "dev"), "none" if dev is None else "file"
    if not examples:
        raise DataError("no examples to learn from")
    if dev is None and settings.data.dev_share > 0 and can_be_scored(examples):
        examples, held_out = hold_out(examples, settings.data.dev_share)
        dev_from = "split"
    if kind is Similarity:
        options = vector_options(settings.task, bundle)
        if settings.task.teacher is not None:
            examples = taught(examples, Bundle.load(settings.task.teacher, device=device))
    elif kind is LateInteraction:
        options = late_options(settings.task, bundle)
    else:
        options = head_options(settings.task, kind) if probing else settings.task.given()
    fitted = fitted_on(kind, examples, held_out, options, split=dev_from == "split")
    solved = probing and is_linear(fitted.head)
    if solved:
        seeds = 1  # there is one solution, and nothing is drawn
    with joined(pick_device(device)) as (ranks, target):
        if probing:
            check_probe(fitted.head, bundle, ranks.world)
        if isinstance(fitted, Similarity):
            check_similarity(settings, bundle, fitted)
        settings = resolve(settings, bundle, target, stored)
        assert settings.model.max_length is not None
        features = rows_of(fitted, examples, bundle, settings.model.max_length)
        require_targets(features)
        voiced = voicing_lost(bundle.tokenizer, (text for example in examples for text in example.texts))
        fit = told_of_vocabulary(features.unknown, features.pieces, voiced, "the training rows' pieces")
        if told := [*features.told, *fit]:
            warnings.warn("; ".join(told), AnaumeWarning, stacklevel=2)
        dev_features = rows_of(fitted, held_out, bundle, settings.model.max_length) if held_out else None
        settings = with_length(settings, len(features), held_out=bool(held_out))
        states = folder / VECTORS if vectors is None else Path(vectors)
        material = Material(
            task=fitted,
            features=features,
            dev_examples=held_out,
            dev_features=dev_features,
            bundle=bundle,
            source={
                "data": hash_of_examples(examples, held_out),
                "bundle": bundle.fingerprint,
                "task": kind.name,
                "ranks": ranks.world,
                "device": target.type,
            },
            data=read,
            frozen=FrozenEncoder(bundle, fitted.head, features, dev_features, target, states) if probing else None,
            strengths=(settings.task.strengths or STRENGTHS) if solved else None,
        )
        check_seeds(folder, settings, material.source)
        about = {
            "folder": folder,
            "task": kind.name,
            "metric": fitted.main,
            "train_examples": len(examples),
            "dev_examples": len(held_out),
            "dev_from": dev_from,
            "dev_in_train": count_seen(examples, held_out) if dev_from == "file" else 0,
            "truncated_share": features.cut / max(1, len(features.coverage)),
            "unknown_share": features.unknown / max(1, features.pieces),
            "frozen": settings.model.frozen == "encoder",
        }
        if begins is not None and ranks.first:
            begins(_report(about, []), settings)
        results: list[SeedResult] = []
        wanted = range(settings.run.seed, settings.run.seed + seeds)
        with stop_signals() as asked:
            for seed in sorted({*finished_seeds(folder), *wanted}):
                result = tune(
                    seed_folder(folder, seed),
                    material,
                    with_seed(settings, seed),
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
            if settings.run.curves and not solved:
                Picture(lambda: curves(folder)).draw()
            if probing and vectors is None:
                shutil.rmtree(states, ignore_errors=True)
        return whole


def _require_bundle(bundle: Bundle) -> None:
    if not isinstance(bundle, Bundle):
        raise SettingsError(f"expected a Bundle to start from; got {bundle!r:.60}; anaume.load opens one")


def _settings(task: str, given: FinetuneSettings | None) -> FinetuneSettings:
    """Return the settings, or the defaults of the task."""
    kind = settings_for(task)
    if given is not None and type(given) is not kind:
        raise SettingsError(f"{task} takes {kind.__name__}; got {type(given).__name__}")
    return kind() if given is None else given


def _report(about: dict[str, Any], results: list[SeedResult]) -> FinetuneReport:
    metric = about["metric"]
    scores = [result.scores.get(metric) for result in results]
    known = [score for score in scores if isinstance(score, float)]
    done = bool(results) and all(result.finished for result in results)
    best = None
    if done:
        best = max(results, key=lambda result: _rank(result.scores.get(metric))).seed  # the first of equals
    return FinetuneReport(
        **about,
        seeds=results,
        spread=Spread.of(known, (0.0 if metric.endswith(_SHARES) else -1.0, 1.0))
        if done and len(known) == len(results)
        else None,
        best_seed=best,
        seconds=sum(result.seconds for result in results),
    )


def _rank(score: float | None) -> float:
    return -math.inf if score is None else score


def _keep_best(report: FinetuneReport) -> None:
    """Put the best seed's bundle where the result is looked for, and write the report."""
    if report.best_seed is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # what is to be said of it was said when the seed saved it
        Bundle.load(seed_folder(report.folder, report.best_seed) / BUNDLE, device="cpu").save(report.bundle)
    told = {**asdict(report), "folder": report.folder.name}
    with atomic_file(report.folder / REPORT) as file:
        file.write((json.dumps(told, indent=1) + "\n").encode())


def _told(report: Callable[[int, dict[str, Any]], None], seed: int) -> Callable[[dict[str, Any]], None]:
    return lambda row: report(seed, row)


def _paths(given: Files) -> list[str | Path]:
    return [given] if isinstance(given, str | Path) else list(given)


def _names(given: Files) -> str:
    return ", ".join(map(str, _paths(given)))
