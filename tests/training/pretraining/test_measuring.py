"""What is left open under a time budget: measured by real steps, within its share, and never again."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.config import EncoderConfig
from anaume.data.corpus import open_corpus
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from anaume.training import PretrainSettings
from anaume.training.pretraining import measuring
from anaume.training.pretraining.forecast import Forecast, Pace
from anaume.training.pretraining.measuring import BUDGET_SHARE, activation_bytes, forecast_run, settle
from anaume.training.pretraining.start import drawn_config, resolve, with_start
from anaume.training.pretraining.trial import NoRoom, matrices
from anaume.training.pretraining.trial_text import TrialText
from anaume.training.ranks import Ranks
from tiny_runs import tiny_bundle

CPU = torch.device("cpu")
OPEN = PretrainSettings().with_values(["run.minutes=15", "run.threads=1", "run.precision=float32"])
TEXT = TrialText.made_up(1000)


class Steps:
    """Stands for the steps: seconds each, by size and rows; keeps what was asked, and moves the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str | None, float]) -> None:
        self.asked: list[PretrainSettings] = []
        self.most: list[float] = []
        self.now, self._seconds = 0.0, seconds
        monkeypatch.setattr(measuring, "measure", self)
        monkeypatch.setattr(measuring.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(measuring, "free_memory", lambda device: 2**34)

    def __call__(self, settings: PretrainSettings, text: TrialText, *_: Any, **other: Any) -> Forecast:
        self.asked.append(settings)
        self.most.append(other["seconds"])
        rows, seq_len = settings.run.batch_rows or 0, settings.data.seq_len
        seconds = self._seconds[settings.model.size] * rows / 16
        self.now += max(other["seconds"], (2 + other["least"]) * seconds)
        pace = Pace(rows, seq_len, seconds, rows * (seq_len - 1.0), rows * (seq_len - 3.0), 3)
        return Forecast(settings, EncoderConfig(vocab_size=1000), 1000, None, (pace,), 500_000)


def open_settings(*assignments: str) -> PretrainSettings:
    return resolve(OPEN.with_values(assignments), CPU, None, None)


def test_size_and_batch_are_measured_and_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {"tiny": 0.05, "mini": 0.2, "small": 0.7})
    given = open_settings("data.long_seq_len=512", "run.compile=true")
    settings, proposal = settle(given, TEXT, CPU, Ranks())
    assert proposal is not None
    assert (settings.model.size, settings.run.batch_rows) == (proposal.size, proposal.rows) == ("mini", 16)
    assert settings == with_start(given, None, "mini", 16)
    assert [(one.model.size, one.run.batch_rows) for one in steps.asked] == [
        ("tiny", 16), ("mini", 16), ("small", 16), ("mini", 32)
    ]  # fmt: skip
    assert all(one.data.long_seq_len is None and not one.run.compile for one in steps.asked)
    assert proposal.chosen is not None
    assert proposal.chosen.steps == pytest.approx(4500)
    assert proposal.chosen.epochs == pytest.approx(4500 * 16 * 125 / 500_000)
    assert proposal.seconds == pytest.approx(steps.now)
    assert proposal.seconds < BUDGET_SHARE * 900


@pytest.mark.parametrize("minutes", [0.3, 1, 5, 15, 60, 600])
@pytest.mark.parametrize("slow", [0.1, 1.0, 10.0, 60.0])
def test_it_takes_its_share_of_the_budget_at_most(monkeypatch: pytest.MonkeyPatch, minutes: float, slow: float) -> None:
    """But for the first trial, which is as slow as the machine: nothing is known before it."""
    steps = Steps(monkeypatch, {"tiny": 0.05 * slow, "mini": 0.25 * slow, "small": 1.0 * slow})
    _, proposal = settle(open_settings(f"run.minutes={minutes}"), TEXT, CPU, Ranks())
    assert proposal is not None
    assert proposal.seconds <= max(BUDGET_SHARE * 60 * minutes, 4 * 0.05 * slow) + 1e-3
    assert all(seconds <= 1.0 for seconds in steps.most)


def test_a_budget_too_short_to_measure_in_gets_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {})
    settings, proposal = settle(open_settings("run.minutes=0.1"), TEXT, CPU, Ranks())
    assert (settings.model.size, settings.run.batch_rows, steps.asked) == ("tiny", 16, [])
    assert proposal is not None
    assert proposal.chosen is None


def test_what_was_given_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {"tiny": 0.05, "mini": 0.2, "small": 0.7, "base": 0.01})
    settings, _ = settle(open_settings("model.size=base"), TEXT, CPU, Ranks())
    assert (settings.model.size, {one.model.size for one in steps.asked}) == ("base", {"base"})
    steps.asked.clear()
    settings, _ = settle(open_settings("run.batch_rows=7"), TEXT, CPU, Ranks())
    assert (settings.run.batch_rows, {one.run.batch_rows for one in steps.asked}) == (7, {7})


def test_of_a_bundle_only_the_batch_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tiny_bundle("mlm")
    steps = Steps(monkeypatch, {None: 0.01})
    given = resolve(OPEN.with_values(["data.seq_len=32"]), CPU, bundle, None)
    settings, proposal = settle(given, TEXT, CPU, Ranks(), bundle=bundle)
    assert (settings.model.size, settings.run.batch_rows) == (None, 64)
    assert {one.model.size for one in steps.asked} == {None}
    assert proposal is not None
    assert proposal.lines()[0].startswith("proposed for 15 min: 64 rows a step")


def test_what_has_no_room_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {"tiny": 1e-3, "mini": 2e-3, "small": 3e-3})
    monkeypatch.setattr(measuring, "free_memory", lambda device: 2**29)
    settings, _ = settle(open_settings(), TEXT, CPU, Ranks())
    assert settings.model.size == "mini"
    assert all(one.model.size != "small" for one in steps.asked)
    monkeypatch.setattr(measuring, "free_memory", lambda device: None)
    assert settle(open_settings(), TEXT, CPU, Ranks())[0].model.size == "small"


def test_what_turns_out_to_have_no_room_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, {"tiny": 1e-3, "mini": 2e-3, "small": 3e-3})

    def full(settings: PretrainSettings, *given: Any, **other: Any) -> Forecast:
        if settings.model.size != "tiny":
            raise NoRoom("full")
        return steps(settings, *given, **other)

    monkeypatch.setattr(measuring, "measure", full)
    assert settle(open_settings(), TEXT, CPU, Ranks())[0].model.size == "tiny"


def test_rows_in_memory_at_once_decide_what_has_room() -> None:
    config = drawn_config(with_start(open_settings(), None, "small", 64), 1000)
    whole = activation_bytes(config, 64, 128, 0.15 * 64 * 128)
    assert whole == pytest.approx(4 * activation_bytes(config, 16, 128, 0.15 * 16 * 128))
    assert whole > 16 * matrices(config)


def test_wrong_settings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    Steps(monkeypatch, {})
    with pytest.raises(SettingsError, match=r'go with model\.size = "custom"'):
        settle(open_settings("model.hidden_size=64"), TEXT, CPU, Ranks())


def test_many_processes_measure_nothing_and_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    steps = Steps(monkeypatch, {})
    with caplog.at_level("INFO", "anaume"):
        settings, proposal = settle(open_settings(), TEXT, CPU, Ranks(0, 2))
        settle(open_settings(), TEXT, CPU, Ranks(1, 2))
    assert (settings.model.size, settings.run.batch_rows, proposal, steps.asked) == ("mini", 32, None, [])
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "with 2 processes nothing is measured: where they are not given, size mini and 32 rows a step"


def test_real_steps_are_measured(
    corpus: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing made up: a real corpus, real steps, and a clock that runs."""
    monkeypatch.setattr(measuring, "SIZES", ("tiny",))
    monkeypatch.setattr("anaume.training.pretraining.proposal.BATCH_TOKENS", (64, 128))
    opened = open_corpus(corpus)
    text = TrialText.of_corpus(opened, Tokenizer.from_directory(opened.tokenizer_directory))
    begun = time.monotonic()
    with caplog.at_level("INFO", "anaume"):
        settings, proposal = settle(open_settings("data.seq_len=16", "run.minutes=0.5"), text, CPU, Ranks())
    assert proposal is not None
    assert proposal.chosen in proposal.tried
    assert 0 < proposal.seconds <= time.monotonic() - begun
    assert settings.model.size == "tiny"
    assert settings.run.batch_rows in (4, 8)
    assert [record.getMessage() for record in caplog.records] == proposal.lines()


def test_a_forecast_chooses_as_the_run_would(monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    steps = Steps(monkeypatch, {"tiny": 0.05, "mini": 0.2, "small": 0.7})
    told = forecast_run(OPEN, corpus, device="cpu")
    assert (told.settings.model.size, told.settings.run.batch_rows) == ("mini", 16)
    assert steps.asked[-1] == told.settings
    steps.asked.clear()
    for assignments in (["run.minutes=none", "run.steps=5"], ["run.minutes=none"]):
        told = forecast_run(OPEN.with_values(assignments), device="cpu", vocab_size=60)
        assert (told.settings.model.size, told.settings.run.batch_rows) == ("mini", 32)
    assert len(steps.asked) == 2
    assert replace(told, parameters=0).parameters == 0
