"""Trials: the loop's own steps, measured, and nothing left of them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.data.corpus import open_corpus
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from anaume.training import PretrainSettings
from anaume.training.loop import Run, StepDone
from anaume.training.pretraining import trial
from anaume.training.pretraining.forecast import Forecast
from anaume.training.pretraining.start import build_model, resolve
from anaume.training.pretraining.trial import NoRoom, matrices, measure
from anaume.training.pretraining.trial_text import TrialText
from tiny_runs import PLAIN, tiny_bundle, tiny_settings

CPU = torch.device("cpu")


def text_of(corpus: Path) -> TrialText:
    opened = open_corpus(corpus)
    return TrialText.of_corpus(opened, Tokenizer.from_directory(opened.tokenizer_directory))


def briefly(settings: PretrainSettings, corpus: Path | None = None, **other: Any) -> Forecast:
    """Measure a few steps, on made-up rows where there is no corpus."""
    text = TrialText.made_up(40) if corpus is None else text_of(corpus)
    return measure(resolve(settings, CPU, None, None), text, CPU, **{"seconds": 0.0, "least": 3, **other})


class Clock:
    """Steps that take given times; nothing else takes any."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *durations: float) -> None:
        self.now, self._left = 0.0, list(durations)
        self.fractions: list[float] = []
        monkeypatch.setattr(trial.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(trial, "train_step", self.step)

    def step(self, run: Run, batch: Any, fraction: float) -> StepDone:
        self.now += self._left.pop(0)
        self.fractions.append(fraction)
        return StepDone(torch.zeros(4), torch.tensor([1.0, 0.0, float(batch.tokens)]), 1.0, applied=True)


def test_the_first_steps_are_dropped_and_the_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 9.0, 8.0, 1.0, 2.0, 6.0)
    told = briefly(tiny_settings("run.steps=5"))
    (pace,) = told.paces
    assert (pace.seconds, pace.steps, clock.now) == (2.0, 3, 26.0)
    assert told.tokens_per_second == pytest.approx(pace.tokens / 2.0)
    clock = Clock(monkeypatch, *[1.0] * 20)
    (pace,) = briefly(tiny_settings("run.steps=5"), seconds=12.0).paces
    assert (pace.steps, clock.now) == (10, 12.0)


def test_it_does_the_loops_own_steps(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, int, tuple[int, ...]]] = []
    inner = trial.train_step

    def watched(run: Run, batch: Any, fraction: float) -> StepDone:
        before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
        done = inner(run, batch, fraction)
        assert done.applied
        assert all((tensor - before[name]).abs().max() < 1e-9 for name, tensor in run.model.state_dict().items())
        seen.append((fraction, run.progress.step, batch.token_ids.shape))
        return done

    monkeypatch.setattr(trial, "train_step", watched)
    settings = tiny_settings("run.steps=5", "data.long_seq_len=32", "data.long_share=0.2", "data.pairing=nsp")
    told = briefly(settings, corpus)
    first, last = told.paces
    assert seen == [(0.4, step, (8, 16)) for step in range(5)] + [(0.9, step, (4, 32)) for step in range(5, 10)]
    assert ((first.rows, first.seq_len), (last.rows, last.seq_len)) == ((8, 16), (4, 32))
    assert first.seconds > 0
    assert 0 < first.pieces < first.tokens <= 8 * 16


def test_tokens_and_epochs_are_those_of_the_corpus(corpus: Path) -> None:
    told = briefly(tiny_settings("run.steps=5", "run.batch_rows=4"), corpus)
    split = open_corpus(corpus).split("train")
    rows = text_of(corpus).stream(tiny_settings(), 16).rows_in_epoch()
    assert told.corpus_tokens == split.tokens
    assert told.epochs(rows / 4) == pytest.approx(1.0, rel=0.1)
    assert briefly(tiny_settings("run.steps=5")).epochs(100) is None


@pytest.mark.parametrize("assignment", ["data.pairing=nsp", "data.pairing=sop", "objective.target=next", "run.seed=3"])
def test_made_up_rows_do_for_every_objective(assignment: str) -> None:
    settings = resolve(tiny_settings("run.steps=5", assignment), CPU, None, None)
    told = briefly(settings)
    model = build_model(settings, 40, None)
    assert told.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert 0.7 * told.parameters < matrices(model.config) < told.parameters
    assert told.state_bytes == 16 * told.parameters
    assert told.checkpoint_bytes == 12 * told.parameters
    assert told.paces[0].tokens > 0.7 * 8 * 16
    assert told.settings == settings


def test_nothing_is_left_of_it(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    files = {path: path.stat().st_mtime_ns for path in corpus.rglob("*")}
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        briefly(tiny_settings("run.steps=5", f"run.threads={threads + 1}", "model.dropout=0.2"), corpus)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert list(tmp_path.iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in corpus.rglob("*")} == files


def test_a_bundle_is_measured_and_not_changed() -> None:
    bundle = tiny_bundle("mlm", "classification")
    before = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    settings = resolve(tiny_settings(*PLAIN, "data.pairing=nsp"), CPU, bundle, None)
    text = TrialText.made_up(bundle.tokenizer.vocab_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = measure(settings, text, CPU, bundle=bundle, new_heads=True, seconds=0.0, least=1)
    assert told.parameters > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in bundle.model.state_dict().items())
    with pytest.raises(SettingsError, match="the bundle has no nsp, which"):
        measure(settings, text, CPU, bundle=bundle, seconds=0.0, least=1)


FULL = [MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory: 9 bytes")]


@pytest.mark.parametrize("error", FULL, ids=repr)
def test_what_does_not_fit_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def full(*_: Any) -> StepDone:
        raise error

    monkeypatch.setattr(trial, "train_step", full)
    with pytest.raises(NoRoom, match=r"does not fit into the memory \(a smaller model.size.*memory"):
        briefly(tiny_settings("run.steps=5"))


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> StepDone:
        raise RuntimeError("shapes")

    monkeypatch.setattr(trial, "train_step", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        briefly(tiny_settings("run.steps=5"))


def test_a_model_larger_than_the_memory_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "free_memory", lambda device: 2**30)
    large = PretrainSettings().with_values(["model.size=large", "run.steps=5"])
    with pytest.raises(NoRoom, match=r"does not fit .* take 4\.5 GiB, .* 1\.0 GiB is free on cpu"):
        briefly(large)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="no size is called 'minni'"):
        briefly(tiny_settings(*PLAIN, "model.size=minni", "run.steps=5"))
    with pytest.raises(SettingsError, match="at least 16 entries; got 3"):
        TrialText.made_up(3)


def test_the_peak_is_told_where_the_system_tells() -> None:
    told = briefly(tiny_settings("run.steps=5"))
    assert told.peak_bytes is None or told.peak_bytes > told.state_bytes
    assert math.isfinite(told.tokens_per_second)
