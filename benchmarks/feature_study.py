"""Probes of frozen layers: what a row is, how it is run and scored, where its result is kept.

The encoder is run over the sentences once for all rows. No times are compared: rows can be run niced, on one thread,
beside other work.

    out/benchmarks/runs/feature-based/vectors/    what the encoder gives, a file a layer
    out/benchmarks/runs/feature-based/ROW/        the run, while it runs
    docs/benchmarks/rows/feature-based            its results (`kept.py`)
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.bundle import Bundle
from anaume.config import HeadLayers
from anaume.training.finetuning.finetune import finetune_examples
from anaume.training.finetuning.frozen import FrozenEncoder
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.settings import ProbeSettings
from benchmarks.finetune_data import SETS, drawn
from benchmarks.finetune_sides import Line, opened
from benchmarks.kept import KeptRows, circumstances, refuse_changed
from benchmarks.study import ROWS, RUNS

NAME = "feature-based"
COMMON = (
    "run.batch_rows=32",
    "run.micro_tokens=512",
    "run.evaluations=8",
    "run.precision=bfloat16",
    "run.keep_checkpoints=1",
    "run.log_seconds=5",
)
TRAINED = {
    "bilstm": ("run.epochs=8", "optimizer.learning_rate=2e-3"),
    "linear": ("run.epochs=24", "optimizer.learning_rate=1e-2"),
}
"""By gradient, one recipe a tagger for all layers. A linear probe of layers that are not weighted is solved instead."""

Tagger = Literal["bilstm", "linear"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. Its name is its folder, and decides nothing."""

    name: str
    layers: HeadLayers
    tagger: Tagger
    seed: int = 0
    data: str = "CoNLL-2003"
    """One of `finetune_data.SETS`."""
    bundle: str = "all-MiniLM-L6-v2"

    def finetune_settings(self, *, threads: int | None = None) -> ProbeSettings:
        """Return the whole settings. Raises SettingsError."""
        own = [f"run.seed={self.seed}", *([] if threads is None else [f"run.threads={threads}"])]
        return ProbeSettings().with_values([*self._settings, *own])

    @property
    def definition(self) -> Line:
        """Everything that decides the result, as JSON has it."""
        return asdict(self) | {"settings": list(self._settings), "examples": SETS[self.data].definition}

    @property
    def _settings(self) -> tuple[str, ...]:
        length = f"model.max_length={SETS[self.data].length}"
        return (*COMMON, *TRAINED[self.tagger], length, f"task.layers={self.layers}", f"task.tagger={self.tagger}")


class FeatureStudy:
    """Rows, and their results as far as they are there."""

    def __init__(self, rows: Sequence[Row], *, runs: Path = RUNS, kept: Path = ROWS) -> None:
        self.rows = tuple(rows)
        self.kept = KeptRows(kept / f"{NAME}.jsonl")
        self._runs = runs / NAME

    def result(self, row: Row) -> Line | None:
        """Return what is kept of a row as it is defined now; None where there is nothing."""
        return self.kept.result(row)

    def state(self, row: Row) -> str:
        """Return "done", "changed" (kept under another definition), "begun" or "missing"."""
        if row.name in self.kept:
            return "done" if self.result(row) else "changed"
        return "begun" if (self._runs / row.name).exists() else "missing"

    def minutes(self, row: Row) -> float | None:
        """Return the minutes that rows of this kind took, whatever else the machine did; None where none was run."""
        kind = (row.layers, row.tagger)
        lines = [self.result(other) for other in self.rows if (other.layers, other.tagger) == kind]
        seconds = [line["seconds"] for line in lines if line is not None]
        return statistics.median(seconds) / 60 if seconds else None

    def forget(self, name: str) -> None:
        """Forget a row's result and its run."""
        self.kept.forget(name)
        shutil.rmtree(self._runs / name, ignore_errors=True)

    def measure_rates(self, rows: Sequence[Row], *, rounds: int, seconds: float, fresh: bool = False) -> None:
        """Do nothing: no row goes by the clock."""

    def run(self, row: Row, *, threads: int | None = None) -> Line | None:
        """Train a row to its end, or go on with it, and score it; None if it was asked to stop (nothing is lost).

        Raises SettingsError for a row kept or begun under another definition.
        """
        if self.state(row) == "changed":
            raise refuse_changed(row)
        if (done := self.result(row)) is not None:
            return done
        folder, own = self._runs / row.name, drawn(row.data)
        report = finetune_examples(
            "features",
            own.train,
            folder / "run",
            bundle=opened(row.bundle),
            dev=own.dev,
            settings=row.finetune_settings(threads=threads),
            seeds=1,
            device="cpu",
            vectors=self._vectors,
        )
        if not report.finished:
            return None
        (seed,) = report.seeds
        scores, examples = self._scored(report.bundle, row)
        assert scores["f1"] == seed.scores["f1"], "the bundle that was saved is not the one that was scored"
        self.kept.put_examples(row.name, examples)
        line = {
            "row": row.definition,
            "steps": seed.steps,
            "best_step": seed.best_step,
            "seconds": round(report.seconds, 1),
            "scores": {name: value for name, value in scores.items() if isinstance(value, float)},
            "shares": shares(Bundle.load(report.bundle, device="cpu"), row),
            "train": len(own.train),
            "dev": len(own.dev),
            "sha256": own.sha256,
            **circumstances(),
        }
        self.kept.put(line)
        shutil.rmtree(folder)  # weights of every row would fill the disk
        return line

    def examples(self, row: Row) -> NDArray[np.float64] | None:
        """Return the scores of the dev examples, as `Task.example_scores` has them."""
        return self.kept.examples(row)

    @property
    def _vectors(self) -> Path:
        return self._runs / "vectors"

    def _scored(self, bundle: Path, row: Row) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """Return the scores of a saved bundle, all and of each dev example, over the vectors that are there."""
        model, dev, cpu = Bundle.load(bundle, device="cpu"), drawn(row.data).dev, torch.device("cpu")
        task = model.task
        features = task.features(dev, model.tokenizer, model.task_length, learn=True)
        states = FrozenEncoder(model, task.head, features, None, cpu, self._vectors).train
        held = HeldOutExamples(dev, features, model.tokenizer.pad_id, cpu, states)
        predictions = task.decode(held.score(model.model, task, torch.float32).logits, features, dev)
        return task.score(predictions, dev), task.example_scores(predictions, dev)


def shares(bundle: Bundle, row: Row) -> list[float] | None:
    """Return what each layer counts in a learned sum, lowest first; None where nothing is weighted."""
    weights = dict(bundle.model.heads["token-classification"].named_parameters()).get("mix.weights")
    return None if weights is None else [round(share, 4) for share in weights.detach().softmax(dim=0).tolist()]
