"""Labelled texts a tiny model can learn from, and tiny fine-tunings of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from numpy.typing import NDArray

from anaume.data.labelled import TextExample
from anaume.training.finetuning.settings import FinetuneSettings

WORDS = "dog cat bank river cute open closed".split()  # noqa: SIM905

TINY_TUNING = (
    "optimizer.learning_rate=0.003",
    "run.batch_rows=8",
    "run.threads=1",
    "run.precision=float32",
    "run.log_seconds=0",
    "run.checkpoint_seconds=600",
    "run.curves=false",
)


def tuning_settings(*assignments: str) -> FinetuneSettings:
    """Settings of a run of milliseconds a step, a row of metrics each step."""
    return FinetuneSettings().with_values([*TINY_TUNING, *assignments])


def texts(count: int, seed: int = 0, *, longest: int = 9) -> list[str]:
    """Texts of 1 to `longest` words."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, longest))) for _ in range(count)]


def class_of(text: str) -> str:
    """ "animal" where one is spoken of, else "place"."""
    return "animal" if {"dog", "cat"} & set(text.split()) else "place"


def value_of(text: str) -> float:
    """How many animals and how many words: 1 to 5 or so."""
    words = text.split()
    return 1.0 + sum(word in ("dog", "cat") for word in words) + 0.1 * len(words)


def examples(count: int, seed: int = 0, **other: Any) -> list[TextExample]:
    """Examples with the class of each text."""
    return [
        TextExample(text=text, label=class_of(text), place=f"made: row {number}")
        for number, text in enumerate(texts(count, seed, **other), 1)
    ]


def write_table(path: Path, rows: Sequence[Sequence[object]], *header: str) -> Path:
    """Write a tsv with a header."""
    lines = ["\t".join(header), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def write_classes(path: Path, count: int, seed: int = 0) -> Path:
    """Write a tsv of texts and their classes."""
    return write_table(path, [(text, class_of(text)) for text in texts(count, seed)], "text", "label")


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a jsonl."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def logits(rows: Sequence[Sequence[float]]) -> list[NDArray[np.float32]]:
    """What a head would have said of rows."""
    return [np.array(row, dtype=np.float32) for row in rows]


def weights_of(bundle: Path) -> dict[str, Any]:
    """The tensors of a saved bundle, by the names they have there."""
    found: dict[str, Any] = safetensors.torch.load((bundle / "model.safetensors").read_bytes())
    return found
