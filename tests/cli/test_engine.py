"""--engine, wherever a command runs a bundle over texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import Run
from tiny_graphs import needs
from tiny_tuned import tiny_finetune

COMMANDS = ("embed", "predict", "evaluate", "fill", "mine", "index build", "index migrate")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_runs_a_bundle_takes_an_engine(run: Run, command: str) -> None:
    done = run(*command.split(), "--help")
    assert done.code == 0, done.err
    assert "--engine" in done.out


@needs("openvino", "onnx")
def test_predictions_and_scores_are_the_same_by_either_engine(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAUME_CACHE", str(tmp_path / "cache"))
    tiny_finetune(tmp_path, "m")
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\nthe dog\ta\nthe cat plays\tb\n", "utf-8")
    found = {}
    for engine in ("torch", "openvino"):
        done = run("predict", tmp_path / "m", rows, "--engine", engine, "--device", "cpu")
        assert done.code == 0, done.err
        answers = [json.loads(line)["prediction"]["probabilities"] for line in done.out.splitlines()]
        found[engine] = np.array([[*one.values()] for one in answers])
    assert np.abs(found["torch"] - found["openvino"]).max() <= 1e-5
    assert (tmp_path / "cache" / "graphs").is_dir()
    done = run("predict", tmp_path / "m", rows, "--engine", "fast")
    assert (done.code, done.out) == (2, "")
