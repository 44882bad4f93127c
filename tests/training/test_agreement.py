"""What the processes of one run must have in common; two threads stand for two processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.errors import DataError, SettingsError
from anaume.training.agreement import require_one_run, require_one_step
from anaume.training.folder import RESULT, begin_folder
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.ranks import Ranks
from anaume.training.state import Progress
from tiny_runs import tiny_settings

CPU = torch.device("cpu")
SOURCE: dict[str, Any] = {"corpus": "c1", "bundle": None, "new_heads": False, "replay": None, "ranks": 2}
SETTINGS = tiny_settings("run.steps=5")


@dataclass
class Meeting:
    """Where two threads tell each other what they have."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=10))
    told: list[tuple[float, bool]] = field(default_factory=lambda: [(0.0, False)] * 2)


@dataclass(frozen=True)
class Thread(Ranks):
    meeting: Meeting = field(default_factory=Meeting)

    def agree(self, value: float, wish: bool, device: torch.device) -> tuple[float, bool]:
        self.meeting.barrier.wait()
        self.meeting.told[self.rank] = (value, wish)
        self.meeting.barrier.wait()
        return self.meeting.told[0][0], any(wish for _, wish in self.meeting.told)


def together(do: Callable[[Ranks], None]) -> list[Exception | None]:
    """Do it as two ranks at once; what each of them raised."""
    meeting, raised = Meeting(), [None, None]  # type: tuple[Meeting, list[Exception | None]]

    def work(rank: int) -> None:
        try:
            do(Thread(rank, 2, meeting))
        except Exception as error:
            raised[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    return raised


def runs(
    folders: tuple[Path, Path],
    settings: tuple[PretrainSettings, PretrainSettings] = (SETTINGS, SETTINGS),
    change: dict[str, Any] | None = None,
) -> list[Exception | None]:
    """What two ranks say of their runs; `change` is what the second one's source has otherwise."""
    sources = (SOURCE, SOURCE | (change or {}))
    return together(
        lambda ranks: require_one_run(folders[ranks.rank], settings[ranks.rank], sources[ranks.rank], ranks, CPU)
    )


def test_the_same_run_is_taken_whatever_the_cores(tmp_path: Path) -> None:
    settings = (SETTINGS, SETTINGS.with_values(["run.threads=7"]))
    assert runs((tmp_path, tmp_path), settings, {"corpus_path": "elsewhere"}) == [None, None]


@pytest.mark.parametrize(
    ("change", "assignment", "said"),
    [
        ({"corpus": "c2"}, "run.seed=0", "the same run: another corpus. Every"),
        ({"bundle": "b1"}, "run.seed=0", "the same run: another starting bundle. Every"),
        ({}, "run.precision=bfloat16", r"the same run: run.precision. Every"),
        ({"new_heads": True}, "data.seq_len=24", r"the same run: new heads, data.seq_len. Every"),
    ],
)
def test_another_run_is_refused_by_all_of_them(
    tmp_path: Path, change: dict[str, Any], assignment: str, said: str
) -> None:
    first, second = runs((tmp_path, tmp_path), (SETTINGS, SETTINGS.with_values([assignment])), change)
    for error in (first, second):
        assert isinstance(error, SettingsError)
        assert said in str(error)


@pytest.mark.parametrize("finished", [False, True])
def test_a_folder_that_only_one_machine_sees_is_refused(tmp_path: Path, finished: bool) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    begin_folder(here, SETTINGS, SOURCE)
    if finished:
        begin_folder(there, SETTINGS, SOURCE)
        (here / RESULT).write_text("{}", "utf-8")
    for error in runs((here, there)):
        assert isinstance(error, SettingsError)
        assert "must lie on a disk that all see" in str(error)


def test_one_process_agrees_with_itself(tmp_path: Path) -> None:
    require_one_run(tmp_path, SETTINGS, SOURCE, Ranks(), CPU)
    require_one_step(Progress(step=3), Ranks(), CPU)


def test_another_checkpoint_is_refused_by_all_of_them() -> None:
    steps = (7, 4)
    first, second = together(lambda ranks: require_one_step(Progress(step=steps[ranks.rank]), ranks, CPU))
    assert isinstance(first, DataError)
    assert isinstance(second, DataError)
    assert "process 1 finds a checkpoint at step 4, the first one at 7" in str(second)
