"""The doctor: a plain verdict on everything, and no system that can make it stumble."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.checks import describe_forecast, doctor, examine_machine
from anaume.checks.doctor import EXTRAS, LIBRARIES, NOT_TOLD, Finding
from anaume.config import EncoderConfig
from anaume.errors import MissingExtra
from anaume.training.pretraining.forecast import Forecast, Pace
from anaume.training.pretraining.start import resolve
from tiny_runs import tiny_settings

ROOT = Path(__file__).resolve().parents[2]


def by_name(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    found = {finding.what: finding for finding in findings}
    assert len(found) == len(findings)
    return found


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise error

    return fails


def test_this_machine_is_looked_at_and_nothing_is_written(tmp_path: Path) -> None:
    found = by_name(examine_machine(tmp_path / "not" / "yet", seconds=0.01))
    assert "GFLOP/s in float32" in found["matrix products"].found
    assert found["disk"].standing in ("ok", "note")
    assert found["disk"].found.endswith(f"free at {tmp_path / 'not' / 'yet'}")
    assert found["libraries"].standing == "ok"
    assert f"torch {torch.__version__}" in found["engines"].found
    assert {"processor", "threads", "memory", "MeCab dictionary", *(f"extra {name}" for name in EXTRAS)} <= set(found)
    assert list(tmp_path.iterdir()) == []


def test_a_system_that_tells_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc, no MeCab, no disk, whatever: each is one row, and the rest goes on."""
    for name in ("processor_name", "matrix_rates", "usable_cores", "_version", "MecabWords"):
        monkeypatch.setattr(doctor, name, raising(OSError("no")))
    monkeypatch.setattr(doctor, "processor_instructions", lambda: ())
    monkeypatch.setattr(doctor, "system_memory", lambda: (None, None))
    monkeypatch.setattr(doctor.shutil, "disk_usage", raising(PermissionError("not yours")))
    monkeypatch.setattr(torch.cuda, "is_available", raising(RuntimeError("driver\ntoo old")))
    found = by_name(examine_machine(seconds=0.01))
    untold = {name for name, finding in found.items() if finding.standing == "not told"}
    assert untold == set(found) - {"bfloat16", "engines", "python"}
    assert all(found[name].found == NOT_TOLD for name in untold)
    assert found["disk"].verdict == "PermissionError: not yours"
    assert found["accelerator"].verdict == "RuntimeError: driver"
    assert found["bfloat16"].verdict == "not measured"


def test_what_is_not_installed_comes_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MecabWords", raising(MissingExtra("words='mecab'", "ja")))
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("fugashi", "rensa", "numpy") else "1.0")
    found = by_name(examine_machine(seconds=0.01))
    missing = {name: finding for name, finding in found.items() if finding.standing == "missing"}
    assert set(missing) == {"MeCab dictionary", "extra ja", "extra dedup", "libraries"}
    assert missing["MeCab dictionary"].verdict == "Japanese words need it: pip install 'anaume[ja]'"
    assert missing["extra dedup"].verdict == "optional: pip install 'anaume[dedup]'"
    assert missing["extra ja"].found == "unidic-lite 1.0"
    assert "numpy missing" in missing["libraries"].found


def test_extras_and_libraries_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        name: tuple(re.split(r"[\[><=]", requirement)[0] for requirement in requirements)
        for name, requirements in project["optional-dependencies"].items()
        if name not in ("all", "dev", "bench")
    }
    assert extras == EXTRAS
    assert set(LIBRARIES) <= {re.split("[><=]", requirement)[0] for requirement in project["dependencies"]}


@pytest.mark.parametrize(
    ("in_hardware", "rates", "standing", "said"),
    [
        (True, (100.0, 250.0), "ok", "training takes it"),
        (True, (100.0, 110.0), "note", "float32 may do as well"),
        (False, (100.0, 20.0), "ok", "training takes float32"),
        (False, (100.0, 150.0), "note", "worth a try"),
    ],
)
def test_bfloat16_is_judged_by_hardware_and_by_the_clock(
    in_hardware: bool, rates: tuple[float, float], standing: str, said: str
) -> None:
    found = doctor._bfloat16(in_hardware, {"float32": rates[0], "bfloat16": rates[1]})
    assert (found.standing, said in found.verdict) == (standing, True)
    assert f"{rates[1] / rates[0]:.1f} x" in found.found


@pytest.mark.parametrize(("threads", "cores", "standing"), [(2, 2, "ok"), (1, 2, "note"), (4, 2, "note")])
def test_threads_are_held_against_cores(threads: int, cores: int, standing: str) -> None:
    found = doctor._threads(threads, cores)
    assert found.standing == standing
    assert standing == "ok" or f"OMP_NUM_THREADS={cores}" in found.verdict


def test_little_memory_is_said() -> None:
    assert doctor._memory(8 * 2**30, 2**29).standing == "note"
    assert doctor._memory(8 * 2**30, 2**31) == Finding("memory", "2.0 GiB free of 8.0 GiB", "ok")
    assert doctor._memory(8 * 2**30, None).found == f"8.0 GiB; what is free is {NOT_TOLD}"


def told(*assignments: str, corpus_tokens: int | None = 10_000) -> Forecast:
    settings = resolve(tiny_settings(*assignments), torch.device("cpu"), None, None)
    pace = Pace(rows=8, seq_len=16, seconds=0.5, tokens=120.0, pieces=100.0, steps=9)
    config = EncoderConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1)
    return Forecast(settings, config, 1_000_000, 500 * 2**20, (pace,), corpus_tokens)


def test_a_forecast_says_how_long_and_how_often() -> None:
    steps = by_name(describe_forecast(told("run.steps=200")))
    assert steps["time"].found == "200 steps take about 1 min 40 s, 2 times through the corpus"
    assert steps["tokens a second"].found == "240"
    assert steps["a step"].found == "8 rows of 16 in 0.5 s, float32, 1 thread"
    assert steps["model"].found == "custom: 1 layers x 16, vocabulary 40, 1.0 M parameters"
    minutes = by_name(describe_forecast(told("run.minutes=15.0", corpus_tokens=None)))
    assert minutes["time"].found == "15 min 0 s are about 1,800 steps"
    assert "made-up rows" in minutes["a step"].verdict
    neither = by_name(describe_forecast(told()))
    assert neither["time"].found == "an hour is about 7,200 steps, once through the corpus about 50 s"


def test_a_forecast_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anaume.checks.forecast.free_disk", lambda path: 2**30)
    found = by_name(describe_forecast(told("run.steps=200"), "there"))
    assert found["memory"].found == "15 MiB of weights, gradients and AdamW's moments; 500 MiB in use at most"
    assert found["disk"].found == "42 MiB at most: 2 checkpoints of 11 MiB, the bundle"
    assert found["disk"].standing == "ok"
    monkeypatch.setattr("anaume.checks.forecast.free_disk", lambda path: 2**20)
    assert by_name(describe_forecast(told("run.steps=200")))["disk"].standing == "note"
    monkeypatch.setattr("anaume.checks.forecast.free_disk", raising(OSError("no")))
    untold = by_name(describe_forecast(replace(told("run.steps=200"), peak_bytes=None)))
    assert (untold["memory"].standing, untold["disk"].standing) == ("not told", "not told")
    assert untold["memory"].found.startswith("15 MiB of weights")
