from __future__ import annotations

import dataclasses
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from anaume.data import atomic_file
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.training.folder import RESULT, begin_folder, check_folder, locked
from anaume.training.pretraining.result import PretrainResult, read_result, write_result
from tiny_runs import tiny_settings

SOURCE: dict[str, Any] = {"corpus": "c1", "bundle": None, "new_heads": False, "replay": None, "ranks": 2}
SETTINGS = tiny_settings("run.steps=5")


def test_a_new_folder_is_taken_and_becomes_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    check_folder(folder, SETTINGS, SOURCE)
    begin_folder(folder, SETTINGS, SOURCE)
    check_folder(folder, SETTINGS, SOURCE)
    assert sorted(path.name for path in folder.iterdir()) == ["run.json", "settings.toml"]


def test_a_kill_before_the_settings_are_written_is_no_hindrance(tmp_path: Path) -> None:
    begin_folder(tmp_path, SETTINGS, SOURCE)
    (tmp_path / "settings.toml").unlink()
    check_folder(tmp_path, SETTINGS, SOURCE)
    for name in ("run.json", "settings.toml"):
        with atomic_file(tmp_path / name) as file:
            file.write(b"{")
            shutil.copy(next(tmp_path.glob(".*.tmp")), tmp_path.parent / "half")
        (tmp_path / name).unlink()
        shutil.move(tmp_path.parent / "half", tmp_path / f".anaume-{'0' * 16}.tmp")
        check_folder(tmp_path, SETTINGS, SOURCE)
    begin_folder(tmp_path, SETTINGS, SOURCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "settings.toml"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"corpus": "c2"}, "another corpus: c2, there c1"),
        ({"bundle": "b1"}, "another starting bundle: b1, there none"),
        ({"new_heads": True}, "new heads: True, there False"),
        ({"replay": "r1"}, "another journal to replay: r1, there none"),
    ],
)
def test_what_it_starts_from_must_be_the_same(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    begin_folder(tmp_path, SETTINGS, SOURCE)
    with pytest.raises(SettingsError, match=said):
        check_folder(tmp_path, SETTINGS, SOURCE | change)


def test_another_number_of_processes_is_allowed_and_said(tmp_path: Path) -> None:
    begin_folder(tmp_path, SETTINGS, SOURCE)
    with pytest.warns(AnaumeWarning, match="begun with 2 processes and goes on with 1: .* not bit for bit"):
        check_folder(tmp_path, SETTINGS, SOURCE | {"ranks": 1})


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine", "utf-8")
    with pytest.raises(SettingsError, match="is not empty and holds no run"):
        check_folder(tmp_path / "run", SETTINGS, SOURCE)


def test_only_one_process_at_a_time(tmp_path: Path) -> None:
    begin_folder(tmp_path, SETTINGS, SOURCE)
    with locked(tmp_path), pytest.raises(SettingsError, match="another process"), locked(tmp_path):
        pytest.fail("both are in")
    with locked(tmp_path):
        pass


def test_the_lock_can_be_had_on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There an exclusive lock is given to a file that was opened for writing, and else EBADF (flock(2))."""
    fcntl = pytest.importorskip("fcntl")

    def flock(handle: int, _: int) -> None:
        if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", flock)
    begin_folder(tmp_path, SETTINGS, SOURCE)
    with locked(tmp_path):
        pass


def test_a_disk_without_locks_is_said_and_does_not_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(handle: int, _: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    begin_folder(tmp_path, SETTINGS, SOURCE)
    with pytest.warns(AnaumeWarning, match="its disk has no locks .* one run at a time"), locked(tmp_path):
        pass


def test_a_result_is_read_back(tmp_path: Path) -> None:
    result = PretrainResult(
        folder=tmp_path,
        finished=True,
        steps=5,
        seconds=1.5,
        tokens=100,
        skipped=0,
        scores={"held_out_loss": 2.5},
        scores_before={},
    )
    assert read_result(tmp_path) is None
    write_result(result)
    assert read_result(tmp_path) == dataclasses.replace(result, finished_before=True)
    (tmp_path / RESULT).write_text("{}", "utf-8")
    with pytest.raises(DataError, match=r"result\.json: can't be read"):
        read_result(tmp_path)
