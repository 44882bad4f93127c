from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.config import EncoderConfig
from anaume.training.pretraining import ceiling, progress
from anaume.training.pretraining.ceiling import Beginning, Ceiling
from anaume.training.pretraining.progress import Landmarks, describe, seconds_left, shown, stuck
from tiny_runs import tiny_settings

LANDMARKS = Landmarks(uniform=8.29, floor=6.22)
STEPS = tiny_settings("run.steps=100")
ROW: dict[str, Any] = {
    "step": 20,
    "fraction": 0.2,
    "seconds": 10.0,
    "loss": 6.5,
    "token_loss": 5.9,
    "accuracy": 0.081,
    "tokens_per_second": 12345.6,
    "skipped": 0,
}
CONFIG = EncoderConfig(vocab_size=4000, hidden_size=256, num_hidden_layers=4)
BEGINNING = Beginning(STEPS, CONFIG, torch.device("cpu"), 1)
HELD_OUT: dict[str, Any] = {"step": 20, "fraction": 0.2, "held_out_loss": 6.1, "held_out_accuracy": 0.05}


def test_a_row_is_told_beside_the_floor() -> None:
    expected = "step 20 of 100 (20%), loss 5.900 (floor 6.22), top-1 8.1%, 12,346 tokens/s, 40 s left"
    assert describe(ROW, LANDMARKS, STEPS) == expected
    pairs = describe(ROW | {"pair_accuracy": 0.61, "skipped": 3}, LANDMARKS, STEPS)
    assert "top-1 8.1%, pairs 61.0%, 12,346 tokens/s, 3 steps skipped" in pairs
    lost = describe(ROW | {"token_loss": None, "accuracy": None}, LANDMARKS, STEPS)
    assert "loss not finite (floor 6.22), 12,346 tokens/s" in lost
    assert describe(HELD_OUT, LANDMARKS, STEPS) == "step 20 of 100, held-out loss 6.100 (floor 6.22), top-1 5.0%"
    assert "pairs 70.0%" in describe(HELD_OUT | {"held_out_pair_accuracy": 0.7}, LANDMARKS, STEPS)


def test_the_time_left_is_that_of_the_clock_or_of_the_steps() -> None:
    assert seconds_left(ROW, tiny_settings("run.minutes=0.5")) == 20.0
    assert seconds_left(ROW | {"seconds": 99.0}, tiny_settings("run.minutes=0.5")) == 0.0
    assert seconds_left(ROW | {"step": 1}, STEPS) is None  # the first step warms up
    assert seconds_left(ROW, tiny_settings()) is None
    assert "left" not in describe(ROW, LANDMARKS, tiny_settings())


def test_landmarks_are_those_of_the_corpus(corpus: Path) -> None:
    found = Landmarks.of_corpus(corpus)
    assert found.uniform == pytest.approx(math.log(47))
    assert 3.0 < found.floor < math.log(42)
    assert f"{found.uniform:.2f}" in found.line()


def rows(losses: list[float | None]) -> list[dict[str, Any]]:
    count = len(losses)
    return [
        ROW | {"step": step + 1, "fraction": step / count, "token_loss": loss} for step, loss in enumerate(losses)
    ] + [HELD_OUT | {"step": count}]


@pytest.mark.parametrize(
    ("losses", "at_floor"),
    [
        ([8.3, 7.0, 6.3, 6.2, 6.25, 6.21, 6.2, 6.2], True),
        ([8.3, 8.2, 8.2, 8.2], True),
        ([8.3, 7.0, 6.3, 6.2, 6.2, 6.2, 5.9, 5.8], False),
        ([8.3, 7.0, 6.3, 6.2, 6.2, 6.2, None, 6.2], True),
        ([None, None, None, None], False),
        ([], False),
    ],
)
def test_a_loss_that_stays_at_the_floor_is_said(losses: list[float | None], at_floor: bool) -> None:
    said = stuck(rows(losses), LANDMARKS, STEPS)
    assert (said is not None) == at_floor
    if said is not None:
        for part in ("stayed at the floor", "too few steps", "learning_rate = 0.01", "warmup = 0.06", "8 rows of 16"):
            assert part in said


def test_weights_that_were_lost_are_said() -> None:
    lost = [*rows([6.1, 5.0]), HELD_OUT | {"step": 2, "held_out_loss": None}]
    said = stuck(lost, LANDMARKS, STEPS)
    assert said is not None
    assert "not finite, so the weights are of no use" in said
    assert "a lower optimizer.learning_rate (0.01 here)" in said
    assert stuck([*lost, HELD_OUT], LANDMARKS, STEPS) is None  # those of the end are what is kept


def test_lines_come_every_ten_seconds_and_for_each_evaluation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ceiling, "matrix_rate", lambda precision: 100.0)
    with caplog.at_level("INFO", "anaume"), shown(LANDMARKS, bar=False) as display:
        assert display is not None
        display.begins(BEGINNING)
        for step in range(1, 26):
            now[0] += 1.0
            display(ROW | {"step": step})
        display(HELD_OUT)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == [LANDMARKS.line(), Ceiling(BEGINNING, 100.0).line()]
    assert [line.split(",")[0].split(" (")[0] for line in lines[2:]] == [
        "step 1 of 100",
        "step 11 of 100",
        "step 21 of 100",
        "step 20 of 100",
    ]
    assert all("% of the matrix rate)" in line for line in lines[2:5])


def test_quiet_shows_nothing() -> None:
    with shown(LANDMARKS, quiet=True) as display:
        assert display is None


def test_a_terminal_gets_a_bar_on_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(ceiling, "matrix_rate", lambda precision: 100.0)
    with shown(LANDMARKS, bar=True) as display:
        assert display is not None
        display.begins(BEGINNING)
        display(ROW)
        display(HELD_OUT)
    out, err = capsys.readouterr()
    assert out == ""
    assert "held-out loss 6.100 (floor 6.22)" in err
    assert Ceiling(BEGINNING, 100.0).line() in err
    assert sys.stderr is not None
