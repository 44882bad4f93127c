"""Every check of a run's verification must be able to fail: here is one fault for each."""

from __future__ import annotations

import importlib
import itertools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from anaume.checks.report import VerifyReport
from anaume.checks.verify_run import verify_run
from anaume.cli import main
from anaume.errors import SettingsError
from anaume.training import loop, pretrain
from anaume.training.state import checkpoints
from tiny_corpora import make_corpus
from tiny_runs import tiny_settings

MODULE = importlib.import_module("anaume.checks.verify_run")  # the name is the function's too

KEPT = [
    "the last checkpoint is whole",
    "the journal has every step",
    "the bundle holds the weights of the last checkpoint",
    "its own first losses come again",
    "12 of its steps, killed and resumed",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


TIMED = tiny_settings("run.minutes=0.02", "data.pairing=nsp", "run.micro_rows=3", "data.long_seq_len=32")


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    result = pretrain(corpus, out, TIMED, device="cpu")
    assert result.steps > 12
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in this process, which is fast; a kill is an exception in the fifth step."""
    row = loop.Meter.row

    def finish(command: Sequence[str]) -> None:
        assert main(command[3:]) == 0

    def kill(command: Sequence[str], out: Path, count: int) -> int:
        def dying(meter: loop.Meter, run: loop.Run, *rest: Any) -> Any:
            if run.progress.step == 5:
                raise KeyboardInterrupt
            return row(meter, run, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(loop.Meter, "row", dying)
            assert main(command[3:]) == 130
        assert [path.name for path in checkpoints(out / "checkpoints")] == ["step-00000004.pt"]
        return 4

    monkeypatch.setattr(MODULE, "_finish", finish)
    monkeypatch.setattr(MODULE, "_kill", kill)


def statuses(report: VerifyReport) -> dict[str, str]:
    assert {row.promise for row in report.rows} == {3}
    return {row.what: row.status for row in report.rows}


@pytest.mark.usefixtures("here")
def test_a_run_that_is_as_it_was_keeps_the_promise(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    report = verify_run(run)
    assert statuses(report) == dict.fromkeys(KEPT, "ok")
    assert report.ok
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert "8 steps, 0 differ" in report.rows[3].measured


@pytest.mark.usefixtures("here")
def test_a_replay_is_verified_as_its_run_is(run: Path, corpus: Path, tmp_path: Path) -> None:
    settings = TIMED.with_values(["run.minutes=none"])  # which has no length but its journal's
    pretrain(corpus, tmp_path / "again", settings, device="cpu", replay=run / "journal.jsonl")
    assert statuses(verify_run(tmp_path / "again")) == dict.fromkeys(KEPT, "ok")


@pytest.mark.usefixtures("here")
def test_a_run_of_steps_is_verified(corpus: Path, tmp_path: Path) -> None:
    pretrain(corpus, tmp_path / "run", tiny_settings("run.steps=20"), device="cpu")
    assert statuses(verify_run(tmp_path / "run")) == dict.fromkeys([KEPT[0], *KEPT[2:]], "ok")


@pytest.mark.usefixtures("here")
def test_a_loss_that_does_not_come_again_is_found(run: Path) -> None:
    path = run / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[2]["loss"] *= 1 + 1e-15
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    report = verify_run(run)
    assert [row.what for row in report.rows if row.status == "failed"] == [KEPT[3]]
    assert "8 steps, 1 differ: step 3 " in report.rows[3].measured


@pytest.mark.usefixtures("here")
def test_a_resume_that_is_not_exact_is_found(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = itertools.count()
    monkeypatch.setattr(loop, "_dropout_seed", lambda *key: next(seeds))
    found = statuses(verify_run(run))
    assert [what for what in KEPT if found[what] == "failed"] == [KEPT[3], KEPT[4]]


@pytest.mark.usefixtures("here")
def test_files_that_were_changed_are_found(run: Path, corpus: Path, tmp_path: Path) -> None:
    pretrain(corpus, tmp_path / "other", tiny_settings("run.steps=2", "data.pairing=nsp", "run.seed=9"), device="cpu")
    shutil.rmtree(run / "bundle")
    shutil.copytree(tmp_path / "other" / "bundle", run / "bundle")
    journal = run / "journal.jsonl"
    journal.write_text("".join(journal.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    found = statuses(verify_run(run))
    assert [what for what in KEPT if found[what] == "failed"] == [KEPT[1], KEPT[2]]
    last = checkpoints(run / "checkpoints")[-1]
    last.write_bytes(last.read_bytes()[:-1])
    assert statuses(verify_run(run))[KEPT[0]] == "failed"


def test_what_can_not_be_checked_is_said(run: Path, corpus: Path, tmp_path: Path) -> None:
    source = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps(source | {"corpus_path": str(tmp_path / "gone")}), "utf-8")
    report = verify_run(run)
    assert statuses(report)[KEPT[4]] == "not checked"
    assert "what it was trained from is gone" in report.rows[-1].hint
    with pytest.raises(SettingsError, match="holds no run"):
        verify_run(corpus)


@pytest.mark.slow
def test_real_kills_through_the_command_line(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(trained), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["check"], row["status"]) for row in told["checks"]] == [(what, "ok") for what in KEPT]
