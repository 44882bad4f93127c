"""TensorBoard reads back what metrics.jsonl says, after a kill too; and the run is the same run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from anaume.errors import MissingExtra
from anaume.training import pretrain
from anaume.training.records import read_lines
from anaume.training.tensorboard import TAGS, TENSORBOARD, EventsFile
from tiny_runs import run_differs, tiny_settings

pytest.importorskip("tensorboard")


def charts(run: Path) -> dict[str, dict[int, float]]:
    """Chart -> step -> value, as TensorBoard reads a run's events; no step may come twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / TENSORBOARD))
    events.Reload()
    found: dict[str, dict[int, float]] = {}
    for tag in events.Tags()["scalars"]:
        told = events.Scalars(tag)
        found[tag] = {event.step: event.value for event in told}
        assert len(found[tag]) == len(told), f"{tag}: a step comes twice"
    return found


def expected(run: Path) -> dict[str, dict[int, float]]:
    """The same of metrics.jsonl."""
    found: dict[str, dict[int, float]] = {}
    for row in read_lines(run / "metrics.jsonl"):
        for key, tag in TAGS.items():
            if row.get(key) is not None:
                found.setdefault(tag, {})[row["step"]] = pytest.approx(row[key], rel=1e-6)
    return found


def row(step: int, **other: Any) -> dict[str, Any]:
    return {"step": step, "token_loss": 8.0 - step, "accuracy": None, "learning_rate": 1e-3, **other}


def test_a_run_writes_its_metrics_as_events_and_is_the_same_run(corpus: Path, tmp_path: Path) -> None:
    common = ("run.steps=6", "run.evaluations=2", "data.pairing=nsp", "model.dropout=0.1")
    pretrain(corpus, tmp_path / "charted", tiny_settings(*common, "run.tensorboard=true"), device="cpu")
    pretrain(corpus, tmp_path / "plain", tiny_settings(*common), device="cpu")
    assert charts(tmp_path / "charted") == expected(tmp_path / "charted")
    assert charts(tmp_path / "charted").keys() == set(TAGS.values())
    assert not (tmp_path / "plain" / TENSORBOARD).exists()
    assert run_differs(tmp_path / "charted", tmp_path / "plain") == []


def test_events_after_the_checkpoint_are_purged_when_the_run_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny_settings("run.steps=8", "run.tensorboard=true", "run.checkpoint_seconds=1e-9")

    class Killed(BaseException):
        pass

    def dies(told: dict[str, Any]) -> None:
        if told["step"] == 5:
            raise Killed

    out = tmp_path / "run"
    with pytest.raises(Killed):
        pretrain(corpus, out, settings, device="cpu", report=dies)
    with EventsFile(out, 4) as left_behind:  # what a kill after the checkpoint of step 4 leaves
        left_behind(row(5, token_loss=99.0))
        left_behind(row(70, token_loss=99.0))
    assert charts(out)["loss/training"][70] == 99.0
    assert pretrain(corpus, out, settings, device="cpu").finished
    assert charts(out) == expected(out)


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path: Path) -> None:
    for loss in (7.0, 6.0):
        with EventsFile(tmp_path, None) as events:
            events(row(0, token_loss=loss))
            events(row(1, token_loss=loss))
    assert charts(tmp_path)["loss/training"] == {0: 6.0, 1: 6.0}


def test_rows_can_be_read_while_they_are_written_and_what_is_not_finite_has_no_event(tmp_path: Path) -> None:
    with EventsFile(tmp_path, None) as events:
        events(row(1))
        events(row(2, token_loss=None))
        assert charts(tmp_path) == {
            "loss/training": {1: 7.0},
            "run/learning_rate": {1: pytest.approx(1e-3), 2: pytest.approx(1e-3)},
        }


def test_events_that_can_not_be_written_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from torch.utils.tensorboard import SummaryWriter

    def full(*_: object) -> None:
        raise OSError("no space left")

    with EventsFile(tmp_path, None) as events:
        monkeypatch.setattr(SummaryWriter, "flush", full)
        events(row(1))
        events(row(2))
        monkeypatch.undo()
    assert [record.getMessage() for record in caplog.records] == [
        "no more TensorBoard events from step 1 on: no space left"
    ]


def test_without_the_package_the_run_does_not_begin(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"run\.tensorboard needs .* pip install 'anaume\[tensorboard\]'"):
        pretrain(corpus, tmp_path / "run", tiny_settings("run.steps=2", "run.tensorboard=true"), device="cpu")
    assert not (tmp_path / "run").exists()
