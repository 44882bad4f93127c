"""Labelled files a probe of a tiny bundle can learn from, and settings of runs of milliseconds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig, HeadConfig
from anaume.training.finetuning.settings import ProbeSettings
from tiny_bundles import tiny_parts

ANIMALS, PLACES = ("dog", "cat"), ("bank", "river")
TAGS = {"dog": "B-ANIMAL", "cat": "B-ANIMAL", "bank": "B-PLACE", "river": "B-PLACE"}
TINY_PROBE = ("run.batch_rows=8", "run.threads=1", "run.precision=float32", "run.log_seconds=0")


def probe_settings(*assignments: str) -> ProbeSettings:
    """Settings of a run of milliseconds a step, a row of metrics each step."""
    return ProbeSettings().with_values([*TINY_PROBE, *assignments])


def probed_bundle(heads: dict[str, HeadConfig] | None = None, **other: Any) -> Bundle:
    """A tiny bundle of four layers, whose vectors have a pooling."""
    embedding = EmbeddingConfig(pooling="mean", normalize=True, max_length=32)
    return Bundle(tiny_parts(heads, embedding=embedding, num_hidden_layers=4, **other), device="cpu")


def sentences(count: int, seed: int = 0) -> list[list[str]]:
    """Sentences that speak of one animal or one place."""
    chance = random.Random(seed)
    words = ["the", "a", "my", "your"]
    return [
        [chance.choice(words), chance.choice([*ANIMALS, *PLACES]), *chance.choice([["is", "cute"], ["was", "open"]])]
        for _ in range(count)
    ]


def write_texts(path: Path, count: int, seed: int = 0) -> Path:
    """Write a tsv: is it an animal or a place?"""
    rows = [f"{' '.join(own)}\t{'animal' if own[1] in ANIMALS else 'place'}\n" for own in sentences(count, seed)]
    path.write_text("text\tlabel\n" + "".join(rows), "utf-8")
    return path


def write_pairs(path: Path, count: int, seed: int = 0) -> Path:
    """Write a tsv: do both speak of an animal, or both of a place?"""
    pairs = zip(sentences(count, seed), sentences(count, seed + 1000), strict=True)
    rows = [
        f"{' '.join(one)}\t{' '.join(two)}\t{'same' if (one[1] in ANIMALS) == (two[1] in ANIMALS) else 'other'}\n"
        for one, two in pairs
    ]
    path.write_text("text\tpair\tlabel\n" + "".join(rows), "utf-8")
    return path


def write_words(path: Path, count: int, seed: int = 0) -> Path:
    """Write CoNLL columns: animals and places."""
    lines = ("".join(f"{word} {TAGS.get(word, 'O')}\n" for word in own) + "\n" for own in sentences(count, seed))
    path.write_text("".join(lines), "utf-8")
    return path
