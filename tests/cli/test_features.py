"""`anaume finetune features`, and what its result is to the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import Run
from tiny_probes import TINY_PROBE, probed_bundle, write_texts, write_words

SET = [word for assignment in TINY_PROBE for word in ("--set", assignment)]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    probed_bundle().save(tmp_path / "b")
    return tmp_path / "b"


def test_a_probe_from_the_command_line(run: Run, tmp_path: Path, bundle: Path) -> None:
    train, dev = write_words(tmp_path / "train.conll", 40), write_words(tmp_path / "dev.conll", 12, seed=1)
    line = ("finetune", "features", train, "--dev", dev, "--bundle", bundle, "-o", tmp_path / "m", *SET)
    done = run(*line, "--set", "task.layers=last-four")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "encoder frozen: its vectors, and their fingerprint, are the starting bundle's" in said
    assert "running the frozen encoder once over 40 training rows" in done.err
    scores = json.loads(run("evaluate", tmp_path / "m", dev, "--json").out)
    assert scores["task"] == "ner"
    assert f"f1 {scores['f1']:.4f}" in said
    assert run("predict", tmp_path / "m", dev).code == 0
    again = run(*line, "--set", "task.layers=last-four", "--json")
    assert json.loads(again.out)["frozen"] is True
    assert "running the frozen encoder" not in again.err


def test_whose_labels_can_be_said(run: Run, tmp_path: Path, bundle: Path) -> None:
    train = write_texts(tmp_path / "train.tsv", 40)
    line = ("finetune", "features", train, "--bundle", bundle, "-o", tmp_path / "m", *SET)
    done = run(*line, "--set", "task.of=multiple-choice")
    assert done.code == 2
    assert "task.of must be one of classification, pair-classification, multi-label" in done.error()
    assert run(*line, "--set", "task.of=classification", "--set", "task.tagger=bilstm").code == 2
    assert run(*line, "--set", "task.of=classification").code == 0


def test_a_files_settings_are_those_of_a_probe(run: Run, tmp_path: Path, bundle: Path) -> None:
    train, config = write_words(tmp_path / "train.conll", 24), tmp_path / "probe.toml"
    config.write_text('[task]\nlayers = "weighted-all"\ntagger = "bilstm"\n[run]\nsteps = 2\n', "utf-8")
    line = ("finetune", "features", train, "--bundle", bundle, "-o", tmp_path / "m", "--config", config, *SET)
    done = run(*line, "--seeds", "2", "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert [seed["steps"] for seed in report["seeds"]] == [2, 2]
    assert 'frozen = "encoder"' in (tmp_path / "m" / "seed-0" / "settings.toml").read_text("utf-8")
