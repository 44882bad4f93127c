"""`anaume doctor`: tables for people, one object for programs, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anaume.checks import doctor
from commands import Run
from tiny_corpora import make_corpus
from tiny_runs import TINY

SETS = [part for assignment in TINY for part in ("--set", assignment)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure briefly: what is found is looked at elsewhere."""
    monkeypatch.setattr(doctor, "matrix_rates", lambda precisions, seconds: dict.fromkeys(precisions, 100.0))
    monkeypatch.setattr("anaume.training.pretraining.measuring.SECONDS", 0.0)
    monkeypatch.setattr("anaume.training.pretraining.measuring.LEAST", 1)


def test_the_machine_alone(run: Run, tmp_path: Path) -> None:
    done = run("doctor", "-o", tmp_path / "run")
    assert (done.code, done.err) == (0, "")
    assert f"free at {tmp_path / 'run'}" in done.out
    assert "tokens a second" not in done.out
    as_json = run("doctor", "--json")
    record = json.loads(as_json.out)
    assert record["forecast"] is None
    assert {"what", "found", "standing", "verdict"} == set(record["machine"][0])


def test_a_forecast_for_a_corpus(run: Run, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = run("doctor", corpus, "--steps", 40, *SETS)
    assert done.code == 0, done.err
    assert "40 steps take about" in done.out
    assert "times through the corpus" in done.out
    record = json.loads(run("doctor", corpus, "--minutes", "0.5", *SETS, "--json", "-q").out)["forecast"]
    assert record["seconds"] == 30.0
    assert record["steps"] == pytest.approx(30.0 / record["paces"][0]["seconds"])
    assert record["epochs"] > 0
    assert record["settings"]["run"]["batch_rows"] == 8
    assert sorted(tmp_path.rglob("*")) == before


def test_a_forecast_is_of_the_objective_asked_for(run: Run, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    told = json.loads(run("doctor", corpus, "--steps", 4, "--objective", "mlm+nsp", *SETS, "--json", "-q").out)
    assert told["forecast"]["settings"]["data"]["pairing"] == "nsp"
    clm = json.loads(run("doctor", "--objective", "clm", *SETS, "--vocab-size", 60, "--json", "-q").out)
    assert clm["forecast"]["settings"]["objective"]["target"] == "next"


def test_a_forecast_without_a_corpus(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("[run]\nsteps = 7\n", "utf-8")
    done = run("doctor", "--config", config, *SETS, "--vocab-size", 60)
    assert done.code == 0, done.err
    assert "vocabulary 60" in done.out
    assert "7 steps take about" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "2", "--minutes", "1"], "run: give steps or minutes, not both"),
        (["--set", "run.sed=1"], "no setting run.sed (did you mean 'seed'?)"),
        (["corpus", "--vocab-size", "60"], "SHARDS bring their own vocabulary"),
    ],
)
def test_wrong_use_is_told_before_anything_is_measured(run: Run, arguments: list[str], said: str) -> None:
    done = run("doctor", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.error()


def test_what_is_found_out_later_is_one_line_too(run: Run, tmp_path: Path) -> None:
    assert "no size is called 'minni'" in run("doctor", "--size", "minni", "-q").error()
    done = run("doctor", tmp_path / "nothing", "-q")
    assert (done.code, "make a corpus with `anaume prepare" in done.error()) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--device", "nonsense"], 2, "nonsense"),
        (["nowhere"], 1, "no such folder"),
        (["--vocab-size", "0"], 2, "a vocabulary has at least 16 entries; got 0"),
    ],
)
def test_what_can_not_be_used_is_told_before_anything_is_measured(
    run: Run, arguments: list[str], code: int, said: str
) -> None:
    done = run("doctor", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
