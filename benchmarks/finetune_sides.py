"""A row of the fine-tuning benchmark, trained by its side, scored by our task, and timed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts, TaskEntry
from anaume.config import EmbeddingConfig
from anaume.engines import Precision
from anaume.tasks.features import Features
from anaume.tasks.registry import AnyTask
from anaume.tasks.similarity.task import TextVectors
from anaume.training.finetuning.finetune import finetune_examples
from anaume.training.finetuning.probing import settings_for
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.finetuning.tuned_model import as_dtype, tuned_model
from anaume.training.records import METRICS, read_lines
from benchmarks import finetune_made, finetune_trainer, japanese_bundle
from benchmarks.finetune_data import SETS, drawn, fitted
from benchmarks.finetune_trainer import Peer
from benchmarks.rates import WARM_UP

EPOCHS, BATCH = 3, 32
COMMON = (f"run.batch_rows={BATCH}", f"run.evaluations={EPOCHS}", "run.keep_checkpoints=1", "run.log_seconds=0")
MADE = "made"
PARTS = 10
"""The training loss is told as means over so many parts of a run."""

Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Its name is its folder, and decides nothing.

    data       one of `finetune_data.SETS`
    budget     "epochs"; or "trainer": as long as the Trainer in float32 takes for its epochs
    settings   what differs from `COMMON`, the data's settings and the defaults of `FinetuneSettings`
    """

    name: str
    data: str
    side: Literal["ours", "trainer"] = "ours"
    precision: Precision = "bfloat16"
    budget: Literal["epochs", "trainer"] = "epochs"
    seed: int = 0
    settings: tuple[str, ...] = ()
    bundle: str = "all-MiniLM-L6-v2"

    def finetune_settings(self, *, steps: int | None = None, threads: int | None = None) -> FinetuneSettings:
        """Return the whole settings; steps: in place of epochs. Raises SettingsError."""
        own = [f"run.epochs={EPOCHS}" if steps is None else f"run.steps={steps}", f"run.precision={self.precision}"]
        own += [f"run.seed={self.seed}", *([] if threads is None else [f"run.threads={threads}"])]
        start = settings_for(SETS[self.data].kind)()
        return start.with_values([*COMMON, *SETS[self.data].settings, *self.settings, *own])

    @property
    def definition(self) -> Line:
        """Everything that decides the result, as JSON has it."""
        settings = [*COMMON, f"run.epochs={EPOCHS}", *SETS[self.data].settings, *self.settings]
        return asdict(self) | {"settings": settings, "examples": SETS[self.data].definition}

    @property
    def pace(self) -> str:
        """What decides the seconds a step, in words: rows of one pace share a rate."""
        return f"{self.side} {self.precision}, {self.bundle}, {self.data}, {BATCH} rows of {SETS[self.data].length}"

    @property
    def evaluation_pace(self) -> str:
        """The same of the seconds that `BATCH` dev examples take."""
        return f"evaluation, {self.pace}"

    @property
    def trainer(self) -> Row:
        """The Trainer's row in float32, its default."""
        return replace(self, name="", side="trainer", precision="float32", budget="epochs", settings=())


class Tuned(Protocol):
    """What a row of any fine-tuning tells of itself."""

    @property
    def name(self) -> str: ...

    @property
    def data(self) -> str: ...

    def finetune_settings(self) -> FinetuneSettings: ...

    def __hash__(self) -> int: ...


def train(row: Row, folder: Path, settings: FinetuneSettings) -> Line | None:
    """Train, or go on training, and score; None if it was asked to stop.

    Returns steps, seconds, best_step, curve (the dev score at each evaluation), losses, cut, metric, scores, examples.
    """
    trained = (_train_ours if row.side == "ours" else _train_theirs)(row, folder, settings)
    if trained is None:
        return None
    task, examples, predictions = task_of(row), drawn(row.data).dev, trained.pop("predictions")
    scores = task.score(predictions, examples)
    return {
        **trained,
        "seconds": round(trained["seconds"], 1),
        "losses": _parts(trained["losses"], trained["steps"]),
        "metric": task.main,
        "scores": {name: value for name, value in scores.items() if isinstance(value, float)},
        "examples": task.example_scores(predictions, examples),
    }


def steps_of(row: Row) -> int:
    """Return the steps of a row's epochs. The last batch of the Trainer's epochs may be smaller; ours are all full."""
    rows = _rows(row.data, row.bundle)
    if row.side == "trainer":
        return EPOCHS * math.ceil(len(finetune_trainer.learned(rows)) / BATCH)
    return math.ceil(EPOCHS * len(rows) / BATCH)


@cache
def opened(name: str) -> Bundle:
    """Return the bundle that rows start from."""
    if name in (japanese_bundle.PRETRAINED, japanese_bundle.UNTRAINED):
        return japanese_bundle.opened(name)
    return finetune_made.bundle() if name == MADE else Bundle.load(name, device="cpu")


@cache
def task_of(row: Tuned) -> AnyTask:
    """Return the task of a row; the Trainer's learns numbers as they are, ours scaled."""
    task = fitted(row.data, row.finetune_settings().task.given())
    if isinstance(row, Row) and row.side == "trainer" and "spread" in task.settings():
        return type(task).restore(task.head, {**task.settings(), "mean": 0.0, "spread": 1.0})
    return task


def features_of(row: Row, examples: Sequence[Any]) -> Features:
    """Return the rows that both sides learn and score."""
    return task_of(row).features(examples, opened(row.bundle).tokenizer, SETS[row.data].length, learn=True)


@cache
def _rows(data: str, bundle: str) -> Features:
    return features_of(Row(name="", data=data, bundle=bundle), drawn(data).train)


def save_start(row: Row, path: Path) -> None:
    """Save the weights that both sides begin with, the new head included, as a bundle that transformers opens."""
    bundle, task, length = opened(row.bundle), task_of(row), SETS[row.data].length
    model, _ = tuned_model(row.finetune_settings(), bundle, task)
    parts = BundleParts(
        tokenizer=bundle.tokenizer,
        model=model.eval(),
        embedding=EmbeddingConfig(max_length=length),
        tasks={task.kind: TaskEntry(task=task.name, max_length=length, settings=task.settings())},
        record=bundle.parts.record,
    )
    Bundle(parts, device="cpu").save(path)


def peer_of(row: Row, start: Path) -> Peer:
    """Return what the Trainer trains; `start` is written where it is not there yet."""
    if not start.exists():
        save_start(row, start)
    own = drawn(row.data)
    return Peer(start, task_of(row), features_of(row, own.train), own.dev, features_of(row, own.dev))


def _train_ours(row: Row, folder: Path, settings: FinetuneSettings) -> Line | None:
    own, main = drawn(row.data), f"dev_{task_of(row).main}"
    report = finetune_examples(
        SETS[row.data].kind,
        own.train,
        folder,
        bundle=opened(row.bundle),
        dev=own.dev,
        settings=settings,
        seeds=1,
        device="cpu",
    )
    if not report.finished:
        return None
    seed, lines = report.seeds[0], read_lines(folder / f"seed-{row.seed}" / METRICS)
    return {
        "steps": seed.steps,
        "seconds": report.seconds,
        "best_step": seed.best_step,
        "curve": [{"step": line["step"], "main": line[main]} for line in lines if main in line],
        "losses": [line for line in lines if line.get("loss") is not None],
        "cut": round(report.truncated_share, 4),
        "predictions": _predicted(Bundle.load(report.bundle, device="cpu"), SETS[row.data].kind, own.dev),
    }


def _predicted(bundle: Bundle, kind: str, examples: Sequence[Any]) -> list[Any]:
    """Return what a tuned bundle says of each example; of similarity, the vectors of its two texts."""
    if kind != "similarity":
        return list(bundle.predict_report(examples, warn=False).predictions)
    vectors = bundle.embed([text for example in examples for text in example.texts])
    return [TextVectors(coverage=1.0, vectors=both) for both in vectors.reshape(len(examples), 2, -1)]


def _train_theirs(row: Row, folder: Path, settings: FinetuneSettings) -> Line | None:
    peer = peer_of(row, folder / "start")
    trained = finetune_trainer.train(peer, folder, settings)
    if trained is None:
        return None
    logits = trained.pop("logits")
    task = peer.task.calibrate(logits, peer.dev_features, peer.dev_examples)  # as our runs end
    cut = round(peer.features.cut / len(peer.features.coverage), 4)
    return {**trained, "cut": cut, "predictions": task.decode(logits, peer.dev_features, peer.dev_examples)}


def _parts(lines: Iterable[Line], steps: int) -> list[float]:
    """Return the mean training loss over each of `PARTS` equal parts of a run."""
    found: list[list[float]] = [[] for _ in range(PARTS)]
    for line in lines:
        found[min(PARTS - 1, (line["step"] - 1) * PARTS // steps)].append(line["loss"])
    return [round(sum(own) / len(own), 4) for own in found if own]


# -- times ------------------------------------------------------------------------------------------------------------


def seconds_a_step(row: Row, steps: int, folder: Path) -> float:
    """Train a row for a few steps and return the mean seconds of a step, the first `WARM_UP` left out."""
    settings = row.finetune_settings(steps=steps).with_values(["run.evaluations=0"])
    if row.side == "trainer":
        return finetune_trainer.seconds_a_step(peer_of(row, folder / "start"), folder, settings, leave_out=WARM_UP)
    told: list[Line] = []
    report = finetune_examples(
        SETS[row.data].kind,
        drawn(row.data).train,
        folder,
        bundle=opened(row.bundle),
        settings=settings.with_values(["run.checkpoint_seconds=1e9", "data.dev_share=0.0"]),
        seeds=1,
        device="cpu",
        report=lambda seed, line: told.append(line),
    )
    if not report.finished:
        raise KeyboardInterrupt  # it was asked for, and what trains made an orderly end of it
    return float(told[-1]["seconds"] - told[WARM_UP - 1]["seconds"]) / (steps - WARM_UP)


def seconds_an_evaluation(row: Row, batches: int, folder: Path) -> float:
    """Score as many dev examples as fill so many batches, and return the mean seconds of `BATCH` examples.

    The first `WARM_UP` batches are scored beforehand, and don't count.
    """
    dev, ready = drawn(row.data).dev, _evaluates_ours if row.side == "ours" else _evaluates_theirs
    ready(row, folder, dev[: BATCH * WARM_UP])()
    examples = dev[: BATCH * (batches - WARM_UP)]
    score = ready(row, folder, examples)
    begun = time.perf_counter()
    score()
    return (time.perf_counter() - begun) * BATCH / len(examples)


def _evaluates_ours(row: Row, folder: Path, examples: Sequence[Any]) -> Callable[[], object]:
    bundle, task, settings = opened(row.bundle), task_of(row), row.finetune_settings()
    model, _ = tuned_model(settings, bundle, task)
    held_out = HeldOutExamples(examples, features_of(row, examples), bundle.tokenizer.pad_id, torch.device("cpu"))
    return lambda: held_out.score(model, task, as_dtype(settings.run.precision))


def _evaluates_theirs(row: Row, folder: Path, examples: Sequence[Any]) -> Callable[[], object]:
    start = folder / "start"
    if not start.exists():
        save_start(row, start)
    rows = features_of(row, examples)
    evaluate: Callable[[], object] = finetune_trainer.build(
        Peer(start, task_of(row), rows, examples, rows), folder, row.finetune_settings()
    ).evaluate
    return evaluate
