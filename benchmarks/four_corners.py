"""The four corners: {causal, bidirectional} mask x {next, masked} token, all else the same, equal minutes' worth each.

What is measured: each corner's own loss over the run, on training and on held-out text, and what its frozen vectors
know (`probes.py`). Beside them stand an untrained model of the same shape and what needs no model.

    python -m benchmarks.four_corners --rates
    python -m benchmarks.four_corners -o docs/benchmarks/four-corners.md --ja docs/ja/four-corners.md

Equal minutes and not equal steps: a next-token step costs more, as every place is predicted. The steps are printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts
from anaume.config import EmbeddingConfig
from anaume.data import atomic_file
from anaume.data.corpus import open_corpus
from anaume.tokenization import Tokenizer
from anaume.training.pretraining.start import build_model, longest_row, resolve
from benchmarks import harness, sitting, study
from benchmarks.corner_page import BESIDE, CORNERS, beside, make_page, shared
from benchmarks.probes import FULL, QUICK, Scored, Size, baselines, probe
from benchmarks.rates import Rates
from benchmarks.study import Row, Study

MINUTES = 5.0
SHAPE: dict[str, Any] = {"layers": 2, "width": 128, "corpus": "reviews", "tokenizer": "own-8000"}
SETTINGS = (
    "model.dropout=0.0",
    "model.start=informed",
    "run.batch_rows=16",
    "run.evaluations=5",
    "run.evaluation_rows=512",
    "optimizer.learning_rate=1.5e-3",
)
"""The recipe of all four; the masked corners hide 15 % of the pieces, as published."""


def corners(minutes: float = MINUTES, settings: Sequence[str] = SETTINGS, **shape: Any) -> list[Row]:
    """Return a row for each corner; they differ in the two switches alone."""
    return [
        Row(name=name, minutes=minutes, settings=(*settings, *switches), **(SHAPE | shape))
        for name, switches in CORNERS.items()
    ]


def four_corners(rows: Sequence[Row], *, size: Size = FULL, kept: Path = study.ROWS, **other: Any) -> Study:
    """Return the study of these rows; `other` goes to `Study`."""
    return Study("four-corners", rows, partial(score, size, kept), kept=kept, **other)


def score(size: Size, kept: Path, row: Row, bundle: Bundle, corpus: Path) -> dict[str, Any]:
    """Probe a corner's bundle; before the first one, what all are compared with."""
    compared(row, corpus, size, kept)
    return {"probes": told(probe(bundle, size))}


def compared(row: Row, corpus: Path, size: Size, kept: Path) -> dict[str, Any]:
    """Return the probes of an untrained model and of what needs none; made once, kept in KEPT/four-corners-beside.json.

    The untrained model is the one every corner began as: their shape, vocabulary and seed.
    """
    about = {**shared(row), "size": asdict(size)}
    there = beside(row, kept)
    if there and there["about"] == about:
        return there
    made = {"about": about, "untrained": told(probe(untrained(row, corpus), size)), "baselines": told(baselines(size))}
    kept.mkdir(parents=True, exist_ok=True)
    with atomic_file(kept / BESIDE) as file:
        file.write((json.dumps(made) + "\n").encode())
    return made


def untrained(row: Row, corpus: Path) -> Bundle:
    """Return the bundle that a run of this row begins with, both sides visible."""
    tokenizer = Tokenizer.from_directory(open_corpus(corpus).tokenizer_directory)
    settings = row.pretrain_settings().with_values(["model.causal=false"])
    model = build_model(resolve(settings, torch.device("cpu"), None, None), tokenizer.vocab_size, None).eval()
    embedding = EmbeddingConfig(max_length=longest_row(settings))
    return Bundle(BundleParts.untrained(tokenizer, model, embedding), device="cpu")


def told(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Return scores as JSON has them: each [value, low, high]."""

    def numbers(scores: Mapping[str, Any]) -> dict[str, list[float]]:
        return {name: [round(one, 4) for one in (s.value, s.low, s.high)] for name, s in scores.items()}

    return [{"task": one.task, "by": one.by, "scores": numbers(one.scores)} for one in scored]


def quick() -> tuple[Study, sitting.Page]:
    """Return a study of a few steps, kept apart, and its page."""
    kept = harness.KEPT / "rows" / "quick"
    settings = (*SETTINGS, "run.batch_rows=4", "run.evaluation_rows=8", "run.log_seconds=0")
    rows = corners(1e-4, settings, layers=1, width=32, corpus="quick", tokenizer="own-2000")
    rates = Rates(kept / "rates.jsonl")
    return four_corners(rows, size=QUICK, kept=kept, rates=rates, runs=study.RUNS / "quick"), make_page


def main() -> None:
    japanese = partial(make_page, language="ja")
    sitting.main(__doc__, four_corners(corners()), make_page, quick=quick, others={"ja": japanese})


if __name__ == "__main__":
    main()
