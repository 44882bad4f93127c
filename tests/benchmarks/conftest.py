"""A small corpus for the benchmarks of pretraining, and a study of tiny rows on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import corpora, kept, rates, scores
from benchmarks.corpora import Text
from benchmarks.rates import Rates
from benchmarks.study import Row, Study
from tiny_studies import documents


@pytest.fixture
def small_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus "made", below tmp_path."""
    monkeypatch.setattr(corpora, "CORPORA", tmp_path / "corpora")
    monkeypatch.setattr(corpora, "EVALUATION", {})
    monkeypatch.setitem(corpora.TEXTS, "made", Text({"all": lambda tell: iter(documents(60))}, held_out=0.2))
    for module in (kept, rates):
        monkeypatch.setattr(module, "machine", lambda: "a machine")


@pytest.fixture
def make_study(small_corpus: None, tmp_path: Path) -> Callable[..., Study]:
    """Make a study of rows whose paces are known; `scored` of it lists the rows that were scored."""

    def make(*rows: Row, known: bool = True) -> Study:
        def score(row: Row, bundle: object, corpus: Path) -> dict[str, float]:
            made.scored.append(row.name)  # type: ignore[attr-defined]
            return {"held_out_loss": scores.held_out(bundle, corpus).loss}  # type: ignore[arg-type]

        kept = Rates(tmp_path / "rates.jsonl")
        if known:
            kept._lines = {row.pace: {"pace": row.pace, "seconds": 2.0} for row in rows}
        made = Study("test", rows, score, rates=kept, runs=tmp_path / "runs", kept=tmp_path / "rows")
        made.scored = []  # type: ignore[attr-defined]
        return made

    return make
