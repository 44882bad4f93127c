"""The feature-based table: every row can be run, is kept, and the page says what is there and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.errors import SettingsError
from anaume.training.finetuning.linear import is_linear
from benchmarks import feature_based, feature_page, kept
from benchmarks.feature_page import LAYERS, PAPER, make_page
from benchmarks.feature_study import FeatureStudy, Row
from benchmarks.finetune_data import CORE
from benchmarks.finetune_sides import MADE, task_of

PLAN = feature_based.plan()
pytestmark = pytest.mark.filterwarnings("ignore:.*no Hugging Face class holds these heads")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept, feature_page):
        monkeypatch.setattr(module, "machine", lambda: "a machine")


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., FeatureStudy]:
    def make(*rows: Row) -> FeatureStudy:
        return FeatureStudy(rows, runs=tmp_path / "runs", kept=tmp_path / "rows")

    return make


def made(layers: Any, tagger: Any = "bilstm", seed: int = 0) -> Row:
    name = f"{tagger}-{layers}-s{seed}"
    return Row(name=name, layers=layers, tagger=tagger, seed=seed, data="made ner", bundle=MADE)


def line_of(row: Row, score: float) -> dict[str, Any]:
    scores = dict.fromkeys(("f1", "precision", "recall", "accuracy"), score)
    return {
        "row": row.definition, "steps": 500, "best_step": 400, "seconds": 90.0, "scores": scores,
        "shares": [0.25, 0.75] if row.layers.startswith("weighted") else None, "train": 1000, "dev": 1000,
        "sha256": "0", "date": "2030-01-02", "commit": "abc", "machine": "a machine", "versions": {},
    }  # fmt: skip


def test_the_rows_are_the_papers_and_each_can_be_run() -> None:
    assert set(PLAN["bilstm"]) == set(PLAN["linear"]) == set(LAYERS) == set(PAPER)
    assert len(PLAN["bilstm"]["last"]) == 3
    assert [len(PLAN["linear"][layers]) for layers in ("last", "last-four", "weighted-all")] == [1, 1, 3]
    rows = feature_based.in_order(PLAN)
    assert len({row.name for row in rows}) == len(rows) == 6 * 3 + 4 + 2 * 3
    assert [row.seed for row in rows] == sorted(row.seed for row in rows)
    for row in rows:
        settings = row.finetune_settings(threads=2)
        assert (settings.model.frozen, settings.task.layers, settings.task.tagger) == (
            "encoder",
            row.layers,
            row.tagger,
        )
        assert CORE[row.data].train == 1000
        assert CORE[row.data].dev == 1000


def test_a_row_is_run_once_and_kept(make_study: Callable[..., FeatureStudy], tmp_path: Path) -> None:
    row, other = made("weighted-all"), made("last", "linear")
    study = make_study(row, other)
    assert (study.state(row), study.minutes(row)) == ("missing", None)
    line = study.run(row, threads=1)
    assert line is not None
    assert study.state(row) == "done"
    assert study.minutes(row) is not None
    assert line["shares"] == [1.0]  # the made bundle has one layer
    examples = study.examples(row)
    assert examples is not None
    assert task_of(row).score_of(examples) == pytest.approx(line["scores"]["f1"], abs=1e-12)
    assert (tmp_path / "rows" / "feature-based" / f"{row.name}.npz").exists()
    assert not (tmp_path / "runs" / "feature-based" / row.name).exists()
    assert make_study(row).run(row) == line  # another process finds it

    solved = study.run(other, threads=1)
    assert solved is not None
    assert (solved["steps"], solved["shares"]) == (0, None)
    assert is_linear(task_of(other).head)
    study.forget(row.name)
    assert study.state(row) == "missing"
    assert study.examples(row) is None


def test_a_row_kept_under_another_definition_is_refused(make_study: Callable[..., FeatureStudy]) -> None:
    row = made("last")
    study = make_study(row)
    study.kept.put({**line_of(row, 0.5), "row": {**row.definition, "seed": 9}})
    assert study.state(row) == "changed"
    with pytest.raises(SettingsError, match="kept under another definition"):
        study.run(row)


def page_of(study: FeatureStudy, scores: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> str:
    plan: Any = {"bilstm": {layers: [made(layers, seed=seed) for seed in (0, 1)] for layers in scores}, "linear": {}}
    counts = {}
    for layers, rows in plan["bilstm"].items():
        for row in rows:
            study.kept.put(line_of(row, scores[layers]))
            right = np.arange(40) < round(40 * scores[layers])
            counts[row.name] = np.stack([right, np.ones(40), np.ones(40)], axis=1).astype(float)
    monkeypatch.setattr(study, "examples", lambda row: counts[row.name])
    return make_page(study, plan, resamples=50)


def test_the_papers_order_is_found(make_study: Callable[..., FeatureStudy], monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"embeddings": 0.2, "last": 0.5, "last-four": 0.9}
    page = page_of(make_study(), scores, monkeypatch)
    assert "The order is reproduced: 3 of 3 pairs stand as in the paper (Kendall's tau +1.00). 3 of them" in page
    assert "| last hidden | 94.9 | 50.0 ± 0.0 | not run yet |" in page
    assert "| last four, concatenated - embeddings only | +5.1 | +70.00" in page


def test_another_order_is_said(make_study: Callable[..., FeatureStudy], monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"embeddings": 0.2, "last": 0.9, "last-four": 0.5, "weighted-all": 0.5}
    page = page_of(make_study(), scores, monkeypatch)
    assert "The order is not reproduced as a whole: 3 of 6 pairs" in page
    assert "2 are clearly the other way round, 1 are open" in page
    assert "| bilstm, weighted sum of all layers | 0.25, 0.75 |" in page


def test_a_page_without_rows_says_so(make_study: Callable[..., FeatureStudy]) -> None:
    page = make_page(make_study(), PLAN)
    assert "Not run yet: 28 of 28 rows." in page
    assert "Not run yet: 6 of 6 rows." in page
