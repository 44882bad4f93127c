"""The share of the matrix rate, and that measuring it changes nothing of a run."""

from __future__ import annotations

import dataclasses
import functools
import time
from pathlib import Path

import pytest
import torch

from anaume.config import EncoderConfig
from anaume.engines import matrix_rate
from anaume.model import training_flops
from anaume.training import pretrain
from anaume.training.pretraining import ceiling
from anaume.training.pretraining.ceiling import Beginning, Ceiling
from tiny_runs import run_differs, tiny_settings

CONFIG = EncoderConfig(vocab_size=4000, hidden_size=64, num_hidden_layers=2)


def beginning(*assignments: str, ranks: int = 1, device: str = "cpu") -> Beginning:
    return Beginning(tiny_settings(*assignments), CONFIG, torch.device(device), ranks)


@pytest.mark.parametrize(
    ("assignments", "fraction", "predicted", "seq_len"),
    [
        ([], 0.0, 0.15, 16),
        (["objective.mask_rate=0.3", "objective.mask_rate_end=0.1"], 0.5, 0.2, 16),
        (["objective.target=next"], 0.5, 1.0, 16),
        (["data.long_seq_len=32", "data.long_share=0.2"], 0.7, 0.15, 16),
        (["data.long_seq_len=32", "data.long_share=0.2"], 0.9, 0.15, 32),
    ],
)
def test_the_share_is_the_useful_work_of_a_second_over_the_rate(
    assignments: list[str], fraction: float, predicted: float, seq_len: int
) -> None:
    found = Ceiling(beginning(*assignments), 50.0).share({"tokens_per_second": 20_000.0, "fraction": fraction})
    work = training_flops(CONFIG, tokens=20_000, places=20_000 * predicted, seq_len=seq_len)
    assert found == pytest.approx(work / 50e9)


def test_the_rate_is_that_of_the_runs_precision_and_of_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceiling, "matrix_rate", {"float32": 100.0, "bfloat16": 300.0}.__getitem__)
    one = Ceiling.measured(beginning("run.precision=bfloat16"))
    four = Ceiling.measured(beginning(ranks=4))
    assert one is not None
    assert four is not None
    assert (one.rate, four.rate) == (300.0, 400.0)
    assert "300 GFLOP/s (bfloat16, 1 thread)" in one.line()
    assert "4 processes of 1 thread" in four.line()
    assert Ceiling.measured(beginning(device="cuda")) is None


def test_a_shown_run_is_the_run_that_is_not_shown(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceiling, "matrix_rate", functools.partial(matrix_rate, seconds=1e-9))
    settings = tiny_settings("run.steps=5", "model.dropout=0.1", "run.evaluations=1")
    told = []
    pretrain(corpus, tmp_path / "plain", settings, device="cpu")

    def measures(given: Beginning) -> None:
        told.append(given)
        assert Ceiling.measured(given) is not None

    pretrain(corpus, tmp_path / "shown", settings, device="cpu", begins=measures)
    assert run_differs(tmp_path / "plain", tmp_path / "shown") == []
    (given,) = told
    assert (given.config.hidden_size, given.ranks, given.settings.run.threads) == (16, 1, 1)


def test_what_happens_as_a_run_begins_is_not_in_its_time(corpus: Path, tmp_path: Path) -> None:
    settings = tiny_settings("run.minutes=0.005")
    result = pretrain(corpus, tmp_path / "run", settings, device="cpu", begins=lambda _: time.sleep(0.4))
    assert result.finished
    assert result.steps >= 1  # none, had the 0.4 of its 0.3 seconds counted
    again = pretrain(corpus, tmp_path / "run", settings, device="cpu", begins=lambda _: pytest.fail("it is over"))
    assert again == dataclasses.replace(result, finished_before=True)
