"""The curves of a fine-tuning: every seed's losses, the score that decides and its best, and what is refused."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.data.pictures import save_figure
from anaume.errors import DataError
from anaume.training.finetuning.curves import curves, plot_curves
from tiny_runs import metrics, tiny_settings
from tiny_tuned import tiny_finetune, tuned_differ

pytest.importorskip("matplotlib")


def rows(scores: list[float], *, best: int) -> list[dict[str, Any]]:
    """A row of training each step, an evaluation after it; `best` is the place of the weights that were kept."""
    told: list[dict[str, Any]] = []
    for step, score in enumerate(scores, start=1):
        told.append({"step": step, "loss": 1.0 / step})
        told.append({"step": step, "dev_loss": 2.0 / step, "dev_macro_f1": score, "dev_accuracy": 0.5})
        told[-1]["best"] = step - 1 == best
    return told


def lines(axes: Any) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if len(line.get_xdata())]


def test_losses_and_scores_of_every_seed_and_the_best_are_drawn() -> None:
    figure = plot_curves({0: rows([0.1, 0.3, 0.2], best=1), 7: rows([0.4, 0.5], best=1)}, title="model")
    loss, score = figure.axes
    assert lines(loss) == [
        ([1, 2, 3], pytest.approx([1.0, 0.5, 1 / 3])),
        ([1, 2, 3], pytest.approx([2.0, 1.0, 2 / 3])),
        ([1, 2], [1.0, 0.5]),
        ([1, 2], [2.0, 1.0]),
    ]
    assert lines(score) == [([1, 2, 3], [0.1, 0.3, 0.2]), ([2], [0.3]), ([1, 2], [0.4, 0.5]), ([2], [0.5])]
    assert score.get_ylabel() == "macro_f1, held out"
    assert score.get_legend_handles_labels()[1] == ["seed 0: 0.3000", "seed 7: 0.5000"]
    assert figure.get_suptitle() == "model"
    assert loss.get_legend_handles_labels()[1] == ["training", "held out"]


def test_without_held_out_rows_losses_alone_are_drawn(tmp_path: Path) -> None:
    figure = plot_curves({0: [{"step": 1, "loss": 1.0}, {"step": 2, "loss": None}]}, title="model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layout that collapsed
        save_figure(figure, tmp_path / "model.png")
    loss, score = figure.axes
    np.testing.assert_equal(lines(loss), [([1, 2], [1.0, np.nan])])
    assert (lines(score), score.get_ylabel()) == ([], "nothing was held out")
    assert loss.get_legend_handles_labels()[1] == ["seed 0", "training", "held out"]


def test_they_are_drawn_at_the_end_and_change_nothing(tmp_path: Path) -> None:
    tiny_finetune(tmp_path, "drawn", "run.curves=true", "task.metric=macro_f1", seeds=2)
    tiny_finetune(tmp_path, "plain", "task.metric=macro_f1", seeds=2)
    assert (tmp_path / "drawn" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "plain" / "curves.png").exists()
    assert tuned_differ(tmp_path / "drawn", tmp_path / "plain") == []
    tiny_finetune(tmp_path, "drawn", "run.curves=false", "task.metric=macro_f1", seeds=2)  # goes on, with another one
    assert curves(tmp_path / "plain", tmp_path / "later.svg") == tmp_path / "later.svg"
    assert (tmp_path / "later.svg").read_text("utf-8").startswith("<?xml")


def test_the_score_that_decides_stands_first(tmp_path: Path) -> None:
    tiny_finetune(tmp_path, "m", "task.metric=macro_f1")
    (first, *_) = [row for row in metrics(tmp_path / "m" / "seed-0") if "dev_loss" in row]
    assert [name for name in first if name.startswith("dev_")][:2] == ["dev_loss", "dev_macro_f1"]


def test_where_matplotlib_is_missing_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with caplog.at_level("INFO", "anaume.training.drawing"):
        assert tiny_finetune(tmp_path, "m", "run.curves=true").finished
    (line,) = [record.getMessage() for record in caplog.records if record.name == "anaume.training.drawing"]
    assert line.endswith("pip install 'anaume[plots]'")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, "no step was trained"),
        ({"step": 1, "loss": "low"}, r"line 1: loss must be a number; got 'low'"),
        ({"loss": 1.0}, r"line 1: step must be a number; got None"),
        ({"step": 1, "dev_loss": 1.0, "dev_f1": "high"}, r"line 1: dev_f1 must be a number; got 'high'"),
    ],
)
def test_what_can_not_be_drawn_is_said(tmp_path: Path, told: dict[str, Any] | None, said: str) -> None:
    seed = tmp_path / "seed-0"
    seed.mkdir()
    (seed / "settings.toml").write_text("", "utf-8")
    if told is not None:
        (seed / "metrics.jsonl").write_text(json.dumps(told) + "\n", "utf-8")
    with pytest.raises(DataError, match=said):
        curves(tmp_path)
    assert not (tmp_path / "curves.png").exists()


def test_runs_of_pretraining_side_by_side_are_none_of_a_fine_tuning(tmp_path: Path) -> None:
    seed = tmp_path / "seed-0"
    seed.mkdir()
    (seed / "settings.toml").write_text(tiny_settings("run.steps=1").to_toml(), "utf-8")
    (seed / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 1.0, "token_loss": 1.0}) + "\n", "utf-8")
    with pytest.raises(DataError, match=r"is no fine-tuning .*; of a pretraining give its own folder"):
        curves(tmp_path)


def test_a_title_is_no_formula(tmp_path: Path) -> None:
    figure = plot_curves({0: rows([0.1], best=0)}, title="a$b^{$")
    save_figure(figure, tmp_path / "model.png")
    assert figure.get_suptitle() == "a$b^{$"


def test_a_run_says_nothing_of_its_folders_letters(tmp_path: Path) -> None:
    assert tiny_finetune(tmp_path, "m\U0010fffd", "run.curves=true").finished  # of private use: in no font
    assert (tmp_path / "m\U0010fffd" / "curves.png").exists()
