"""The curves of a run: what is drawn, when, and that nothing about it stops a run."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.data.pictures import save_figure
from anaume.errors import DataError, MissingExtra
from anaume.training import pretrain
from anaume.training.pretraining import curves as module
from anaume.training.pretraining.curves import curves, plot_curves
from anaume.training.pretraining.progress import Landmarks
from anaume.training.records import read_lines
from tiny_runs import run_differs, tiny_settings

pytest.importorskip("matplotlib")

LANDMARKS = Landmarks(uniform=8.29, floor=6.22)


def rows(losses: list[float | None], *, pairs: bool = False) -> list[dict[str, Any]]:
    """A row every 10 steps and 3 seconds; an evaluation after the second and the last."""
    told: list[dict[str, Any]] = []
    for number, loss in enumerate(losses, start=1):
        row = {"step": 10 * number, "fraction": number / len(losses), "seconds": 3.0 * number, "tokens": 640 * number}
        told.append(row | {"token_loss": loss, "accuracy": 0.1, "learning_rate": 1e-3 / number})
        if number in (2, len(losses)):
            told.append({"step": 10 * number, "held_out_loss": 6.5, "held_out_accuracy": 0.2})
        if pairs:
            told[-1]["held_out_pair_accuracy" if "held_out_loss" in told[-1] else "pair_accuracy"] = 0.7
    return told


def lines(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def texts(axes: Any) -> str:
    return " ".join(text.get_text() for text in axes.texts)


def test_loss_accuracy_and_rate_are_drawn_over_steps() -> None:
    figure = plot_curves(rows([8.0, 7.0, None, 6.0]), LANDMARKS, by_time=False, title="run")
    loss, accuracy, rate = figure.axes
    assert lines(loss)["training"][0] == [10, 20, 30, 40]
    np.testing.assert_equal(lines(loss)["training"][1], [8.0, 7.0, np.nan, 6.0])
    assert lines(loss)["held-out"] == ([20, 40], [6.5, 6.5])
    assert lines(accuracy)["top-1, training"][1] == [10.0] * 4
    assert lines(accuracy)["top-1, held-out"][1] == [20.0] * 2
    assert [list(line.get_ydata()) for line in rate.lines] == [[1e-3, 5e-4, 1e-3 / 3, 2.5e-4]]
    assert rate.get_xlabel() == "steps"
    assert figure.get_suptitle() == "run: 40 steps, 2,560 tokens, 12 s"
    assert "6.50" in texts(loss)


def test_a_timed_run_is_drawn_over_minutes_and_pairs_where_there_are_some() -> None:
    figure = plot_curves(rows([8.0, 7.0, 6.0], pairs=True), None, by_time=True, title="run")
    loss, accuracy, rate = figure.axes
    assert lines(loss)["training"][0] == pytest.approx([0.05, 0.1, 0.15])
    assert lines(loss)["held-out"][0] == pytest.approx([0.1, 0.15])
    assert {"pairs, training", "pairs, held-out"} <= lines(accuracy).keys()
    assert rate.get_xlabel() == "minutes"


def test_a_run_that_was_never_finite_is_drawn_too(tmp_path: Path) -> None:
    save_figure(plot_curves(rows([None, None]), LANDMARKS, by_time=True, title="run"), tmp_path / "run.png")


def test_landmarks_are_labelled_lines_or_named_where_the_loss_is_far_below() -> None:
    near = plot_curves(rows([8.0, 7.0, 6.0]), LANDMARKS, by_time=False, title="run").axes[0]
    levels = [line.get_ydata()[0] for line in near.lines if line.get_linestyle() == ":"]
    assert levels == [8.29, 6.22]
    assert "ln V = 8.29" in texts(near)
    assert "floor 6.22" in texts(near)
    below = rows([2.2, 2.1, 2.0])
    for row in below:
        row |= {"held_out_loss": 2.1} if "held_out_loss" in row else {}
    far = plot_curves(below, LANDMARKS, by_time=False, title="run").axes[0]
    assert far.get_ylim()[1] < 2.5
    assert "floor 6.22" in texts(far)


def test_many_rows_are_drawn_with_their_mean() -> None:
    noise = np.random.default_rng(0).normal(size=1000)
    loss = plot_curves(rows([5.0 + each for each in noise]), None, by_time=False, title="run").axes[0]
    mean = np.array(lines(loss)["training"][1])
    assert len(mean) == 1000
    assert abs(mean - 5.0).max() < 1.0 < abs(noise).max()
    np.testing.assert_allclose(mean[500], 5.0 + noise[490:511].mean())
    np.testing.assert_allclose(mean[0], 5.0 + noise[:11].mean())


def test_a_run_is_drawn_as_it_goes_and_at_its_end(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    inner = plot_curves

    def watched(told: Any, landmarks: Landmarks | None, **other: Any) -> Any:
        seen.append((told[-1]["step"], landmarks, other))
        return inner(told, landmarks, **other)

    monkeypatch.setattr(module, "plot_curves", watched)
    settings = tiny_settings("run.steps=6", "run.evaluations=2", "run.curves=true", "model.dropout=0.1")
    pretrain(corpus, tmp_path / "drawn", settings, device="cpu")
    assert (tmp_path / "drawn" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert seen == [(step, Landmarks.of_corpus(corpus), {"by_time": False, "title": "drawn"}) for step in (4, 6)]
    pretrain(
        corpus, tmp_path / "plain", tiny_settings("run.steps=6", "run.evaluations=2", "model.dropout=0.1"), device="cpu"
    )
    assert not (tmp_path / "plain" / "curves.png").exists()
    assert run_differs(tmp_path / "drawn", tmp_path / "plain") == []


def test_any_run_can_be_drawn_later(corpus: Path, tmp_path: Path) -> None:
    pretrain(corpus, tmp_path / "run", tiny_settings("run.steps=3"), device="cpu")
    assert curves(tmp_path / "run", tmp_path / "later.svg") == tmp_path / "later.svg"
    picture = (tmp_path / "later.svg").read_text("utf-8")
    assert picture.startswith("<?xml")
    bare = tmp_path / "bare"  # the metrics alone are enough, less what they do not know
    bare.mkdir()
    (bare / "metrics.jsonl").write_bytes((tmp_path / "run" / "metrics.jsonl").read_bytes())
    assert curves(bare) == bare / "curves.png"
    assert (bare / "curves.png").exists()


def test_where_there_is_nothing_to_draw_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no metrics\.jsonl; give the folder of a run"):
        curves(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(rows([8.0, 7.0])[2]) + "\n", "utf-8")
    with pytest.raises(DataError, match="no step was trained yet"):
        curves(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(rows([8.0, 7.0])[0]) + "\n", "utf-8")
    (tmp_path / "settings.toml").write_text("[task]\nmetric = 'f1'\n", "utf-8")  # of a fine-tuning
    with pytest.raises(
        DataError, match=r"not that of a pretraining .* of a fine-tuning give the folder that holds its seeds"
    ):
        curves(tmp_path)
    assert not (tmp_path / "curves.png").exists()


@pytest.mark.parametrize("why", ["no matplotlib", "it fails"])
def test_a_picture_that_can_not_be_drawn_stops_nothing_and_is_said_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    if why == "it fails":
        monkeypatch.setattr(module, "save_figure", lambda *_: 1 / 0)
    else:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    settings = tiny_settings("run.steps=6", "run.evaluations=3", "run.curves=true")
    with caplog.at_level("INFO", "anaume.training.drawing"):
        result = pretrain(corpus, tmp_path / "run", settings, device="cpu")
    assert result.finished
    assert len([row for row in read_lines(tmp_path / "run" / "metrics.jsonl") if "held_out_loss" in row]) == 3
    (record,) = caplog.records
    if why == "it fails":
        assert (record.levelname, record.getMessage()) == ("WARNING", "curves.png was not drawn: division by zero")
    else:
        assert record.levelname == "INFO"
        assert record.getMessage().endswith("pip install 'anaume[plots]'")
        with pytest.raises(MissingExtra):
            curves(tmp_path / "run")


def test_an_evaluation_behind_the_last_training_row_is_inside_the_picture(tmp_path: Path) -> None:
    told = [*rows([8.0])[:1], {"step": 60, "held_out_loss": 6.5, "held_out_accuracy": 0.2}]
    figure = plot_curves(told, LANDMARKS, by_time=False, title="run")
    assert figure.axes[0].get_xlim() == (0.0, 60.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a layout that collapsed
        save_figure(figure, tmp_path / "run.png")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tokens": None}, r"line 1: tokens must be a number; got None"),
        ({"seconds": "3"}, r"line 1: seconds must be a number; got '3'"),
        ({"step": None}, r"line 1: step must be a number"),
        ({"learning_rate": None}, r"line 1: learning_rate must be a number"),
        ({"token_loss": "low"}, r"line 1: token_loss must be a number; got 'low'"),
        ({"accuracy": [1]}, r"line 1: accuracy must be a number; got \[1\]"),
    ],
)
def test_damaged_metrics_are_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(json.dumps(rows([8.0])[0] | change) + "\n", "utf-8")
    with pytest.raises(DataError, match=said):
        curves(tmp_path)


@pytest.mark.parametrize("landmarks", [3, {"x": 1}, {"uniform": "a", "floor": 1.0}, {"uniform": 1.0}])
def test_damaged_landmarks_are_named(tmp_path: Path, landmarks: object) -> None:
    (tmp_path / "metrics.jsonl").write_text(json.dumps(rows([8.0])[0]) + "\n", "utf-8")
    (tmp_path / "run.json").write_text(json.dumps({"landmarks": landmarks}), "utf-8")
    with pytest.raises(DataError, match=r"run\.json: landmarks must be the numbers uniform and floor"):
        curves(tmp_path)
