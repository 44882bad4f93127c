"""Runs whose size and batch were left open: chosen once, written down, and exact from then on."""

from __future__ import annotations

import importlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.errors import SettingsError
from anaume.training import PretrainResult, PretrainSettings, pretrain
from anaume.training.pretraining.proposal import Proposal, Tried
from anaume.training.pretraining.result import stored_settings
from anaume.training.pretraining.start import with_start
from anaume.training.ranks import Ranks
from anaume.training.records import read_journal, read_lines
from anaume.training.state import checkpoints
from tiny_runs import PLAIN, last_state, run_differs, tiny_bundle, tiny_settings

SETUP = importlib.import_module("anaume.training.pretraining.pretrain")  # the name is the function's too

OPEN = tiny_settings("run.batch_rows=none", "run.minutes=0.05", "model.dropout=0.1", "run.checkpoint_seconds=1e-9")
"""Size given, batch open: three seconds."""


class Killed(BaseException):
    """Ends a run as a kill would: nothing more is written."""


class Settle:
    """Stands for the measuring: so many rows, and so long it took; counts how often it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: int = 6, seconds: float = 0.25) -> None:
        self.asked, self._rows, self._seconds = 0, rows, seconds
        monkeypatch.setattr(SETUP, "settle", self)

    def __call__(
        self, settings: PretrainSettings, *_: Any, bundle: Any, **__: Any
    ) -> tuple[PretrainSettings, Proposal]:
        self.asked += 1
        told = Tried("tiny", self._rows, 100.0, 1000.0, 3.0)
        proposal = Proposal(told, (told,), ("tiny",), (self._rows,), settings.run.minutes or 0.0, self._seconds)
        return with_start(settings, bundle, "tiny", self._rows), proposal


@pytest.fixture(autouse=True)
def _clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every look at the clock take 20 ms, so that a budget has as many steps on any machine."""
    if "real" in request.node.name:
        return
    looks = itertools.count()
    monkeypatch.setattr("anaume.training.clock.time.monotonic", lambda: 0.02 * next(looks))


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Settle:
    return Settle(monkeypatch)


def train(corpus: Path, out: Path, settings: PretrainSettings, **other: Any) -> PretrainResult:
    return pretrain(corpus, out, settings, device="cpu", **other)


def kill_at(step: int) -> Any:
    def report(row: dict[str, Any]) -> None:
        if row["step"] == step:
            raise Killed

    return report


def test_what_was_measured_is_written_down_and_its_time_counts(corpus: Path, tmp_path: Path, settle: Settle) -> None:
    out = tmp_path / "run"
    result = train(corpus, out, OPEN)
    there = stored_settings(out)
    assert there is not None
    assert "run.batch_rows: 6, there not given" in there.differences(OPEN)
    assert 0.25 / 3.0 <= read_journal(out / "journal.jsonl")[0] < 0.5 / 3.0
    assert 3.0 <= result.seconds < 3.5
    told = json.loads((out / "run.json").read_text("utf-8"))["proposal"]
    assert (told["chosen"]["rows"], told["seconds"]) == (6, 0.25)


def test_it_is_never_measured_again(corpus: Path, tmp_path: Path, settle: Settle) -> None:
    """The same line again goes on; killed and resumed, the run equals the replay of its journal."""
    out = tmp_path / "run"
    for step in (2, 5):
        with pytest.raises(Killed):
            train(corpus, out, OPEN, report=kill_at(step))
    assert train(corpus, out, OPEN).finished
    assert settle.asked == 1
    assert train(corpus, out, OPEN).finished_before
    train(corpus, tmp_path / "again", OPEN, replay=out / "journal.jsonl")
    assert settle.asked == 1
    assert stored_settings(tmp_path / "again") == stored_settings(out)
    assert run_differs(tmp_path / "again", out) == []
    explicit = OPEN.with_values(["run.batch_rows=6"])
    assert train(corpus, out, explicit).finished_before  # and said outright it is the same run
    train(corpus, tmp_path / "explicit", explicit, replay=out / "journal.jsonl")
    assert run_differs(tmp_path / "explicit", out) == []


def test_killed_before_the_first_checkpoint_the_measuring_still_counts(
    corpus: Path, tmp_path: Path, settle: Settle
) -> None:
    out, settings = tmp_path / "run", OPEN.with_values(["run.checkpoint_seconds=1000.0"])
    with pytest.raises(Killed):
        train(corpus, out, settings, report=kill_at(1))
    assert not checkpoints(out / "checkpoints")
    train(corpus, out, settings)
    assert settle.asked == 1
    assert read_journal(out / "journal.jsonl")[0] >= 0.25 / 3.0


def test_a_kill_while_it_measures_leaves_nothing(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SETUP, "settle", killed)
        with pytest.raises(Killed):
            train(corpus, tmp_path / "run", OPEN)
    assert not (tmp_path / "run").exists()
    settle = Settle(monkeypatch)
    assert train(corpus, tmp_path / "run", OPEN).finished
    assert settle.asked == 1


def test_other_open_values_are_other_settings(corpus: Path, tmp_path: Path, settle: Settle) -> None:
    out = tmp_path / "run"
    train(corpus, out, OPEN)
    with pytest.raises(SettingsError, match=r"run\.batch_rows: 7, there 6\."):
        train(corpus, out, OPEN.with_values(["run.batch_rows=7"]))
    with pytest.raises(SettingsError, match=r"run\.minutes: 0\.5, there 0\.05\."):
        train(corpus, out, OPEN.with_values(["run.minutes=0.5"]))
    assert settle.asked == 1


def test_a_folder_that_is_refused_is_refused_before_anything_is_measured(
    corpus: Path, tmp_path: Path, settle: Settle
) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(SettingsError, match="is not empty"):
        train(corpus, tmp_path, OPEN)
    assert settle.asked == 0


def test_a_run_of_given_steps_measures_nothing(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither size nor batch is given: the model is mini, and a step has 32 rows."""

    def measured(*_: Any, **__: Any) -> Any:
        pytest.fail("measured")

    monkeypatch.setattr(SETUP, "settle", measured)
    monkeypatch.setattr("anaume.training.pretraining.measuring.measure", measured)
    monkeypatch.setattr("anaume.training.pretraining.trial.measure", measured)
    settings = tiny_settings(*PLAIN, "run.batch_rows=none", "run.steps=2")
    train(corpus, tmp_path / "run", settings)
    there = stored_settings(tmp_path / "run")
    assert there is not None
    assert (there.model.size, there.run.batch_rows) == ("mini", 32)
    assert json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))["proposal"] is None
    assert train(corpus, tmp_path / "run", settings).finished_before
    other = tmp_path / "tiny"
    train(corpus, other, settings.with_values(["model.size=tiny"]))
    with pytest.raises(SettingsError, match=r"model\.size: 'mini', there 'tiny'"):
        train(corpus, other, settings)


def test_of_a_bundle_the_batch_is_chosen(corpus: Path, tmp_path: Path, settle: Settle) -> None:
    first = tmp_path / "first"
    train(corpus, first, tiny_settings("run.steps=2"))
    from anaume.bundle import Bundle

    bundle = Bundle.load(first / "bundle", device="cpu")
    settings = tiny_settings(*PLAIN, "run.batch_rows=none", "run.minutes=0.01")
    for _ in range(2):
        result = train(corpus, tmp_path / "run", settings, bundle=bundle)
    there = stored_settings(tmp_path / "run")
    assert there is not None
    assert (result.finished_before, there.model.size, there.run.batch_rows, settle.asked) == (True, None, 6, 1)


def test_a_replay_measures_nothing(corpus: Path, tmp_path: Path, settle: Settle) -> None:
    train(corpus, tmp_path / "run", OPEN)
    journal = tmp_path / "elsewhere.jsonl"
    journal.write_bytes((tmp_path / "run" / "journal.jsonl").read_bytes())
    with pytest.raises(SettingsError, match=r"a replay measures nothing: give model.size and run.batch_rows"):
        train(corpus, tmp_path / "again", OPEN, replay=journal)
    assert not (tmp_path / "again").exists()
    train(corpus, tmp_path / "again", OPEN.with_values(["run.batch_rows=6"]), replay=journal)
    assert run_differs(tmp_path / "again", tmp_path / "run") == []
    assert settle.asked == 1


def test_it_is_real(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real measuring, of tiny alone, in a budget made long enough: what it trains is what it says."""
    monkeypatch.setattr("anaume.training.pretraining.measuring.SIZES", ("tiny",))
    monkeypatch.setattr("anaume.training.pretraining.measuring.TOO_SHORT", 0.0)
    monkeypatch.setattr("anaume.training.pretraining.proposal.BATCH_TOKENS", (64, 128))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    settings = tiny_settings(*PLAIN, "run.batch_rows=none", "run.minutes=0.04")
    result = train(corpus, tmp_path / "run", settings)
    assert torch.equal(torch.get_rng_state(), before)
    there = stored_settings(tmp_path / "run")
    assert there is not None
    assert there.model.size == "tiny"
    assert there.run.batch_rows in (4, 8)
    assert math.isfinite(read_lines(tmp_path / "run" / "metrics.jsonl")[-1]["loss"])
    assert last_state(tmp_path / "run")["model"]["embeddings.token_embeddings.weight"].shape[1] == 128
    assert result.finished
    again = train(corpus, tmp_path / "again", settings, replay=tmp_path / "run" / "journal.jsonl")
    assert again.steps == result.steps
    assert run_differs(tmp_path / "again", tmp_path / "run") == []


def test_many_processes_are_told(tmp_path: Path) -> None:
    from anaume.training.pretraining.measuring import settle
    from anaume.training.pretraining.trial_text import TrialText

    bundle = tiny_bundle("mlm")
    settings, proposal = settle(OPEN, TrialText.made_up(40), torch.device("cpu"), Ranks(0, 2), bundle=bundle)
    assert (settings.run.batch_rows, settings.model.size, proposal) == (32, "custom", None)
