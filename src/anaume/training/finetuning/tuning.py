"""One fine-tuning with one seed: sets a run up or takes it up again, trains, keeps the best weights, saves."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch

from anaume import __version__
from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts, TaskEntry
from anaume.bundle.record import TrainingStage
from anaume.config import EmbeddingConfig
from anaume.data import atomic_file
from anaume.errors import DataError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.tasks.features import Features
from anaume.tasks.registry import AnyTask
from anaume.tasks.similarity import Similarity
from anaume.training.agreement import require_one_run, require_one_step, require_rows
from anaume.training.clock import Clock, Patience, StepClock, Stopwatch, WallClock
from anaume.training.finetuning.best import BestWeights
from anaume.training.finetuning.example_work import ExampleLoss, ExampleWork
from anaume.training.finetuning.frozen import FrozenEncoder, FrozenStates
from anaume.training.finetuning.linear import LinearProbe
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.finetuning.similarity import trained_embedding, without_heads
from anaume.training.finetuning.start import DECIDES
from anaume.training.finetuning.tuned_model import as_dtype, learning_scale, tuned_model
from anaume.training.folder import BUNDLE, RESULT, begin_folder, check_folder, locked
from anaume.training.loop import Run, train
from anaume.training.optimizer import build_optimizer
from anaume.training.ranks import Ranks
from anaume.training.records import Records
from anaume.training.state import CHECKPOINTS, Progress, checkpoints, load_checkpoint
from anaume.training.surroundings import computing

log = get_logger(__name__)


@dataclass(frozen=True)
class SeedResult:
    """How one seed ended."""

    seed: int
    finished: bool
    """False: it was asked to stop, saved, and goes on when the same call comes again."""
    steps: int
    """Steps trained; with patience, fewer than planned."""
    best_step: int | None
    """The step whose weights were kept; None = the last one, as nothing was held out."""
    seconds: float
    """Spent on it over all sittings, evaluations included."""
    skipped: int
    """Steps not applied because something was not finite."""
    scores: dict[str, Any]
    """Of the saved bundle on the dev examples, in float32; {} where nothing was held out."""
    calibrated: bool = False
    """Whether thresholds were set on the same dev examples, which flatters the scores a little."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """What all seeds share."""

    task: AnyTask
    features: Features
    """Of the training examples."""
    dev_examples: Sequence[Any]
    dev_features: Features | None
    """None = nothing is held out."""
    bundle: Bundle
    source: Mapping[str, Any]
    """What run.json says: hashes of data, bundle and task."""
    data: Sequence[Mapping[str, Any]]
    """What was read, for the training record."""
    frozen: FrozenEncoder | None = None
    """What the encoder makes of the rows, where it stays frozen and is run over them once; None = at each step."""
    strengths: Sequence[float] | None = None
    """Of a linear probe on it, which is solved instead of trained; None = it is trained."""


def tune(
    folder: Path,
    material: Material,
    settings: FinetuneSettings,
    *,
    ranks: Ranks,
    device: torch.device,
    stop_asked: Callable[[], bool],
    report: Callable[[dict[str, Any]], None] | None = None,
) -> SeedResult:
    """Train one seed (run.seed) in its folder; `settings` are resolved. See `finetune` for what is raised."""
    require_one_run(folder, settings, material.source, ranks, device, DECIDES)
    check_folder(folder, settings, material.source, DECIDES)
    if (done := _read_result(folder)) is not None:
        return done
    task, seed = material.task, settings.run.seed
    require_rows(settings.run, ranks)
    dtype = as_dtype(settings.run.precision)
    pad_id, frozen = material.bundle.tokenizer.pad_id, material.frozen
    with computing(settings, device):
        model, said = tuned_model(settings, material.bundle, task)
        model.to(device)
        optimizer = build_optimizer(
            model, settings.optimizer, scale=learning_scale(model, settings.optimizer.layer_decay)
        )
        dev = None
        if material.dev_features is not None:
            states = None if frozen is None else frozen.dev
            dev = HeldOutExamples(material.dev_examples, material.dev_features, pad_id, device, states)
        work = ExampleWork(
            settings=settings,
            task=task,
            features=material.features,
            loss=ranks.wrap(ExampleLoss(model, task)),
            dev=dev,
            folder=folder,
            device=device,
            pad_id=pad_id,
            frozen=None if frozen is None else frozen.train,
            evaluate_first=task.starts_scored,
            ranks=ranks,
        )
        ranks.wait()  # all have looked at the folder before the first one writes
        if ranks.first:
            begin_folder(folder, settings, material.source)
        with locked(folder) if ranks.first else nullcontext():
            if frozen is not None and material.strengths is not None:
                return _solve(folder, material, settings, model, frozen.train, dev)
            saved = checkpoints(folder / CHECKPOINTS)
            progress = load_checkpoint(saved[-1], model, optimizer, device) if saved else Progress()
            require_one_step(progress, ranks, device)
            if ranks.first:
                BestWeights(folder).remove_after(progress.step)
                told = f"goes on at step {progress.step:,}" if saved else "; ".join(said)
                log.info("seed %d: %s", seed, told)
            stopwatch = Stopwatch(progress.seconds)
            with Records(
                folder if ranks.first else None,
                metrics_size=progress.metrics_size,
                journal_size=progress.journal_size,
                timed=settings.run.minutes is not None,
                reports=[] if report is None else [report],
            ) as records:
                train(
                    Run(
                        settings=settings,
                        folder=folder,
                        model=model,
                        work=work,
                        optimizer=optimizer,
                        clock=_clock(settings, stopwatch, progress),
                        stopwatch=stopwatch,
                        progress=progress,
                        records=records,
                        device=device,
                        dtype=dtype,
                        ranks=ranks,
                        stop_asked=stop_asked,
                    )
                )
            if ranks.first and progress.best_step is not None:
                BestWeights(folder).load(model, progress.best_step)
            result = SeedResult(
                seed=seed,
                finished=progress.finished,
                steps=progress.step,
                best_step=progress.best_step,
                seconds=progress.seconds,
                skipped=progress.skipped,
                scores={},
            )
            if ranks.first and progress.finished:
                result = _finish(folder, material, settings, model, dev, result)
                for file in checkpoints(folder / CHECKPOINTS):
                    file.unlink(missing_ok=True)
                BestWeights(folder).remove()
            return result


def _solve(
    folder: Path,
    material: Material,
    settings: FinetuneSettings,
    model: Bert,
    states: FrozenStates,
    dev: HeldOutExamples | None,
) -> SeedResult:
    """Solve for the last layer at each strength, and finish with the one that is best on the dev examples."""
    assert material.strengths
    begun, task = time.monotonic(), material.task
    probe = LinearProbe(task, model, material.features, states)
    best, kept, highest = material.strengths[0], probe.solve(material.strengths[0]), -math.inf
    for strength in material.strengths if dev is not None else ():
        solved = kept if strength == best else probe.solve(strength)
        solved.put_into(model.heads[task.kind])
        assert dev is not None
        score = dev.score(model, task, torch.float32).scores[task.main]
        log.info("a linear probe of strength %g: dev %s %s", strength, task.main, score)
        if score is not None and score > highest:
            best, kept, highest = strength, solved, score
    kept.put_into(model.heads[task.kind])
    seconds = time.monotonic() - begun
    result = SeedResult(
        settings.run.seed, finished=True, steps=0, best_step=None, seconds=seconds, skipped=0, scores={}
    )
    return _finish(folder, material, settings, model, dev, result, strength=best)


def _finish(
    folder: Path,
    material: Material,
    settings: FinetuneSettings,
    model: Bert,
    dev: HeldOutExamples | None,
    result: SeedResult,
    **told: Any,
) -> SeedResult:
    """Calibrate, score once more in float32, as `anaume evaluate` will, and save; `told` goes into the record."""
    task = material.task.finished(model.heads[material.task.kind])
    scores: dict[str, Any] = {}
    if dev is not None:
        # The targets are of the task as it learned (a scaled regression); what is decoded is of the finished one.
        scored = dev.score(model, task, torch.float32)
        finished, task = task, task.calibrate(scored.logits, dev.features, dev.examples)
        predictions = task.decode(scored.logits, dev.features, dev.examples)
        scores = task.score(predictions, dev.examples)
        result = dataclasses.replace(result, scores=scores, calibrated=task is not finished)
    start = material.bundle
    stage = TrainingStage(
        objectives=(task.name,),
        data=tuple(material.data),
        settings={**settings.model_dump(exclude_none=True), "steps_done": result.steps, **told},
        scores={name: value for name, value in scores.items() if isinstance(value, float)},
        versions={"anaume": __version__, "torch": str(torch.__version__), "tokenizers": tokenizers.__version__},
    )
    assert settings.model.max_length is not None
    model, max_length = model.cpu().eval(), settings.model.max_length
    tasks: dict[str, TaskEntry] = {}
    if isinstance(task, Similarity):
        model, embedding = without_heads(model), trained_embedding(task, start.embedding, max_length)
    else:
        tasks[task.kind] = TaskEntry(task=task.name, max_length=max_length, settings=task.settings())
        # An encoder tuned for a task no longer makes the vectors it was trained for.
        frozen = settings.model.frozen == "encoder"
        embedding = start.embedding if frozen else EmbeddingConfig(max_length=start.embedding.max_length)
    parts = BundleParts(
        tokenizer=start.tokenizer,
        model=model,
        embedding=embedding,
        tasks=tasks,
        record=start.parts.record.then(stage),
    )
    Bundle(parts, device="cpu").save(folder / BUNDLE)
    with atomic_file(folder / RESULT) as file:
        file.write((json.dumps(asdict(result), indent=1) + "\n").encode())
    return result


def _clock(settings: FinetuneSettings, stopwatch: Stopwatch, progress: Progress) -> Clock:
    run = settings.run
    clock: Clock
    if run.minutes is not None:
        clock = WallClock(60.0 * run.minutes, stopwatch)
    else:
        assert run.steps is not None
        clock = StepClock(run.steps)
    patience = run.patience
    return clock if patience is None else Patience(clock, lambda: progress.since_best >= patience)


def _read_result(folder: Path) -> SeedResult | None:
    path = folder / RESULT
    if not path.exists():
        return None
    try:
        return SeedResult(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: can't be read ({error}); delete it to have it made again") from error
