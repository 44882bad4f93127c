"""The demo tells its nine stations, with numbers that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anaume.demo import run_demo
from helpers import wheel_checkpoint


@pytest.mark.real
def test_the_demo_runs_and_its_story_is_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel_checkpoint()
    assert run_demo(tmp_path, quick=True) == 0
    story = capsys.readouterr().out
    assert [int(number) for number in re.findall(r"^(\d)\. ", story, re.MULTILINE)] == list(range(1, 10))
    assert re.search(r"token +1\.000 +1\.000", story)
    alone = re.search(r"largest difference between alone and in the batch +(\S+)", story)
    assert alone is not None
    assert float(alone[1]) < 1e-5
    careless = re.search(r"cosine of the first text to itself +(\S+)", story)
    assert careless is not None
    assert float(careless[1]) < 0.9
    assert "Refused:" in story
    assert "the same tokens" in story
    assert "always the commonest pieces" in story
    assert (tmp_path / "report.md").read_text(encoding="utf-8").count("\n") > 60
    assert (tmp_path / "bank.png").read_bytes().startswith(b"\x89PNG")
