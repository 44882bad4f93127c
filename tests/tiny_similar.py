"""Texts a tiny model can learn to bring together, and tiny trainings for similarity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anaume.data.labelled import SimilarityExample
from anaume.training.finetuning.finetune import FinetuneReport, finetune
from anaume.training.finetuning.settings import SimilaritySettings
from tiny_labels import TINY_TUNING, class_of, texts, write_table
from tiny_runs import tiny_bundle


def similar_settings(*assignments: str) -> SimilaritySettings:
    """Settings of a run of milliseconds a step."""
    return SimilaritySettings().with_values([*TINY_TUNING, *assignments])


def pairs(count: int, seed: int = 0) -> list[SimilarityExample]:
    """Texts, each with its words in order and taken once; no two of the same words."""
    found = {" ".join(sorted(set(text.split()))): text for text in texts(20 * count, seed)}
    return [
        SimilarityExample(text=text, positives=(words,), place=f"made: row {number}")
        for number, (words, text) in enumerate(list(found.items())[:count], 1)
    ]


def write_scored(path: Path, count: int, seed: int = 0) -> Path:
    """Write pairs as STS-B has them: 5 where both speak of animals or both of places, else 0."""
    one, other = texts(count, seed), texts(count, seed + 100)
    rows = [(a, b, 5.0 * (class_of(a) == class_of(b))) for a, b in zip(one, other, strict=True)]
    return write_table(path, rows, "sentence1", "sentence2", "score")


def tiny_similarity(folder: Path, out: str, *assignments: str, seeds: int = 1, **other: Any) -> FinetuneReport:
    """Train a tiny bundle on 40 scored pairs (dev: 30), written to `folder` where they are not yet."""
    train, dev = folder / "scored.tsv", folder / "scored-dev.tsv"
    if not train.exists():
        write_scored(train, 40)
        write_scored(dev, 30, seed=7)
    given: dict[str, Any] = {"train": train, "dev": dev, "bundle": tiny_bundle("mlm", pooler=True)}
    given |= {"settings": similar_settings("run.steps=9", "run.evaluations=3", *assignments), **other}
    return finetune("similarity", out=folder / out, seeds=seeds, device="cpu", **given)
