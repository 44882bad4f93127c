"""The bundle that Japanese tasks start from: minutes of masked words on Livedoor's news; and the same, untrained."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.data.corpus import open_corpus
from anaume.errors import SettingsError
from benchmarks.study import Row, Study

PRETRAINED, UNTRAINED = "japanese", "japanese, untrained"
MINUTES = 15
ROW = Row(
    name="pretraining",
    minutes=MINUTES,
    corpus="livedoor",
    tokenizer="own-12000",
    settings=(
        "model.dropout=0.0",
        "model.start=informed",
        "run.batch_rows=16",
        "optimizer.learning_rate=2e-3",
        "objective.mask_rate=0.3",
        "objective.units=words",
    ),
)
"""The recipe of the minutes table, with whole words masked: a vocabulary of MeCab words."""


def study() -> Study:
    """Return the study that trains it."""
    return Study("japanese-pretraining", [ROW], _scores)


@cache
def opened(name: str) -> Bundle:
    """Return one of the two bundles. Raises SettingsError where the trained one is not there yet."""
    if name == UNTRAINED:
        trained = opened(PRETRAINED)
        return Bundle.new(trained.tokenizer, trained.config, embedding=trained.embedding)
    path = study().bundle(ROW)
    if not path.exists():
        raise SettingsError(f"{path}: is not there: the row {ROW.name!r} makes it, on the machine that goes on from it")
    return Bundle.load(path, device="cpu")


def _scores(row: Row, bundle: Bundle, corpus: Path) -> dict[str, Any]:
    """Return what is known without further runs: the text it was made of (the losses are the row's curve)."""
    split = open_corpus(corpus).split("train")
    return {"vocabulary": bundle.tokenizer.vocab_size, "tokens": split.tokens}
