"""A directory appears whole or not at all: kills, full disks, other processes, and what is never overwritten."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anaume.bundle.directory import recover, save_directory
from anaume.bundle.write import write_bundle
from anaume.config import EmbeddingConfig
from anaume.errors import BundleError
from tiny_bundles import read_bundle, same_parts, save_tiny, tiny_parts

TESTS = Path(__file__).resolve().parents[1]
# The child saves bundles whose max_length tells which save they are from.
CHILD = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tiny_bundles import tiny_parts, write_bundle
from anaume.config import EmbeddingConfig
path = Path({path!r})
print("ready", flush=True)
for number in range(4, 4000):
    write_bundle(tiny_parts(embedding=EmbeddingConfig(pooling="mean", max_length=4 + number % 36)), path)
"""


def run_child(path: Path) -> subprocess.Popen[bytes]:
    code = CHILD.format(tests=str(TESTS), path=str(path))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)


def siblings(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(".anaume"))


def whole(path: Path) -> int:
    """Read the bundle, check that nothing of another save is in it; return its max_length."""
    parts = read_bundle(path)
    assert same_parts(parts, tiny_parts(embedding=parts.embedding))
    return parts.embedding.max_length


# From Python 3.12 on, os.fork warns where threads run; the children here only write files.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("first", [True, False], ids=["new", "over an old one"])
def test_a_kill_after_any_step_leaves_the_old_or_the_new_bundle(tmp_path: Path, first: bool) -> None:
    """Every renaming, flushing and removing step of one save, by count; a save has fewer than 70 of them."""
    seen = _fork_saves(tmp_path, first)
    assert seen["finished"], "the steps were not enough to reach the end of a save"
    assert seen["new"] > 2
    assert seen["nothing" if first else "old"] > 10


def _fork_saves(tmp_path: Path, first: bool) -> dict[str, int]:
    """Fork a child for each step (forking spares the imports) and look at what each left."""
    seen = {"old": 0, "new": 0, "nothing": 0, "finished": 0}
    parts = tiny_parts(embedding=EmbeddingConfig(pooling="mean", max_length=30))
    for stop in range(1, 70):
        path = tmp_path / f"s{stop}" / "b"
        if not first:
            save_tiny(path, embedding=EmbeddingConfig(pooling="mean", max_length=20))
        pid = os.fork()
        if pid == 0:
            try:
                _stop_after(stop)
                write_bundle(parts, path)
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        seen["finished"] += not os.WIFSIGNALED(status)
        # A first save that did not finish leaves nothing; a later one always leaves a bundle.
        length = whole(path) if not first or path.exists() else 0
        seen["nothing"] += length == 0
        seen["old"] += length == 20
        seen["new"] += length == 30
        # The next save works, and leaves nothing lying about.
        save_tiny(path, embedding=EmbeddingConfig(pooling="mean", max_length=21))
        assert whole(path) == 21
        assert siblings(path.parent) == []
        shutil.rmtree(path.parent)
        if seen["finished"] > 2:
            break
    return seen


def _stop_after(stop: int) -> None:
    count = 0

    def stopping(name: str) -> None:
        real = getattr(os, name)

        def wrapped(*args: object, **kwargs: object) -> object:
            nonlocal count
            result = real(*args, **kwargs)
            count += 1
            if count == stop:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(os, name, wrapped)

    for name in ("rename", "mkdir", "fsync", "rmdir", "unlink"):
        stopping(name)


@pytest.mark.slow
def test_kills_at_random_instants_leave_a_whole_bundle(tmp_path: Path) -> None:
    path = tmp_path / "b"
    save_tiny(path, embedding=EmbeddingConfig(pooling="mean", max_length=20))
    chance = random.Random(0)
    for _ in range(12):
        child = run_child(path)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * 0.2)
        child.kill()
        child.wait()
        child.stdout.close()
        assert 4 <= whole(path) < 40
    save_tiny(path)
    assert siblings(tmp_path) == []


def test_reading_while_another_process_saves_gives_whole_bundles(tmp_path: Path) -> None:
    path = tmp_path / "b"
    save_tiny(path, embedding=EmbeddingConfig(pooling="mean", max_length=20))
    child = run_child(path)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        lengths = set()
        for _ in range(40):
            try:
                lengths.add(whole(path))
            except BundleError as error:
                assert "while it was read" in str(error)  # noqa: PT017  allowed, never a mixture
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert len(lengths) > 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_full_disk_leaves_the_old_bundle(tmp_path: Path) -> None:
    """A limit on the size of a file stands for the full disk: the weights do not fit."""
    path = tmp_path / "b"
    save_tiny(path)
    old = read_bundle(path)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
            write_bundle(tiny_parts(initializer_range=0.1), path)
        except BundleError as error:
            line = str(error)
            code = 0 if "can't be saved" in line and "is untouched" in line and "\n" not in line else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert same_parts(read_bundle(path), old)
    assert siblings(tmp_path) == []


@pytest.mark.parametrize("name", ["vocab.txt", "config.json", "model.safetensors", "anaume.json", "README.md"])
def test_a_write_that_fails_leaves_the_old_bundle(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_tiny(tmp_path / "b")
    old = read_bundle(path)
    real = os.fsync

    def failing(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(name):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(BundleError, match="can't be saved: No space left on device; nothing was written"):
        save_tiny(path, embedding=EmbeddingConfig(max_length=9))
    assert same_parts(read_bundle(path), old)
    assert siblings(tmp_path) == []


def test_an_interrupt_while_saving_leaves_the_old_bundle(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")

    def interrupted(directory: Path) -> None:
        (directory / "x").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_directory(path, interrupted)
    assert siblings(tmp_path) == []
    assert read_bundle(path)


def test_what_was_moved_aside_is_put_back(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    parts = read_bundle(path)
    from anaume.bundle.directory import _Siblings

    aside = _Siblings(path).old()
    path.rename(aside)
    assert recover(path) == path
    assert same_parts(read_bundle(path), parts)
    path.rename(aside)
    other = tmp_path / "c"
    assert recover(other) == other
    assert not other.exists()


def test_saving_over_where_it_came_from(tmp_path: Path) -> None:
    """IMP-11."""
    path = save_tiny(tmp_path / "b")
    parts = read_bundle(path)
    for parameter in parts.model.parameters():
        parameter.data.mul_(1.5)
    write_bundle(parts, path)
    assert same_parts(read_bundle(path), parts)


@pytest.mark.parametrize("name", ["モデル v1 (final)", "a b", "ünïcode", "x" * 250, "v1.0", "-o", "'quoted'"])
def test_any_name_of_a_directory(tmp_path: Path, name: str) -> None:
    """IMP-11: also names as long as the file system takes, and over an existing one."""
    if len(name.encode()) > 255:
        pytest.skip("too long for the file system")
    path = save_tiny(tmp_path / name)
    save_tiny(path, embedding=EmbeddingConfig(max_length=9))
    assert whole(path) == 9


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert read_bundle(save_tiny(tmp_path / "a" / "b" / "c"))


def test_other_locales(tmp_path: Path) -> None:
    """IMP-11: text files are UTF-8 under LC_ALL=C and PYTHONUTF8=0 too."""
    path = tmp_path / "モデル v1 (final)"
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(TESTS)!a})\n"
        "from tiny_bundles import *\n"
        "path = Path(sys.argv[1])\n"
        "embedding = EmbeddingConfig(pooling='mean', max_length=20, prompts={'query': '検索: '})\n"
        "for _ in range(2): write_bundle(tiny_parts(embedding=embedding), path)\n"
        "assert read_bundle(path).embedding == embedding\n"
        "made = foreign(path.with_name(path.name + ' 2'))\n"
        "write_bundle(read_bundle(made), path.with_name(path.name + ' 3'))\n",
        "utf-8",
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, script, path], check=True, env=environment)
    script.unlink()
    assert read_bundle(path).embedding.prompts == {"query": "検索: "}
    # The name of what was imported came as lone surrogates, which no UTF-8 file holds.
    assert read_bundle(tmp_path / f"{path.name} 3").record.stages[0].source == f"{path.name} 2"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, f"{path.name} 2", f"{path.name} 3"]


def test_a_directory_that_is_no_bundle_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "thesis"
    path.mkdir()
    (path / "chapter.tex").write_text("years of work")
    with pytest.raises(BundleError, match=r"holds 1 files \(chapter.tex ...\) and is no anaume bundle"):
        save_tiny(path)
    assert (path / "chapter.tex").read_text() == "years of work"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert read_bundle(save_tiny(empty))


def test_a_bundle_that_holds_more_is_not_overwritten(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    (path / "notes").mkdir()
    (path / "notes" / "mine.txt").write_text("x")
    with pytest.raises(BundleError, match=r"also holds notes/mine.txt, which saving would delete"):
        save_tiny(path)
    (path / "notes" / "mine.txt").unlink()
    assert read_bundle(save_tiny(path))


def test_a_file_in_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("x")
    with pytest.raises(BundleError, match="is a file"):
        save_tiny(tmp_path / "b")
    with pytest.raises(BundleError, match="is a file"):
        read_bundle(tmp_path / "b")
    with pytest.raises(BundleError, match="can't be saved"):
        save_tiny(tmp_path / "b" / "c")


def test_a_link_to_a_directory_stays_a_link(tmp_path: Path) -> None:
    real = save_tiny(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(real)
    save_tiny(link, embedding=EmbeddingConfig(max_length=9))
    assert link.is_symlink()
    assert whole(real) == 9
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later")
    save_tiny(dangling)
    assert whole(tmp_path / "later") == 40


def test_a_read_only_folder_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    path = save_tiny(folder / "b")
    folder.chmod(0o555)
    try:
        if os.access(folder, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(BundleError, match="can't be saved: Permission denied"):
            save_tiny(path)
        assert read_bundle(path)
    finally:
        folder.chmod(0o755)


def test_a_place_that_may_not_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, for a user who may write everywhere."""
    path = save_tiny(tmp_path / "b")

    def refused(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(BundleError, match=r"can't be saved: Permission denied"):
        save_tiny(path)
    assert read_bundle(path)


def test_a_living_writers_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "b"
    seen: list[str] = []

    def write(directory: Path) -> None:
        (directory / "x").touch()
        save_tiny(path)  # another save of the same place, while this one is at work
        seen.extend(siblings(tmp_path))
        assert (directory / "x").exists()
        (directory / "anaume.json").write_text("{}")

    save_directory(path, write)
    assert len(seen) == 1
    assert sorted(entry.name for entry in path.iterdir()) == ["anaume.json", "x"]
    assert siblings(tmp_path) == []


def test_every_file_of_a_bundle_is_as_readable_as_the_others(tmp_path: Path) -> None:
    """safetensors writes files for their owner alone; a model on a shared disk would be unreadable to colleagues."""
    path = tmp_path / "bundle"
    write_bundle(tiny_parts(embedding=EmbeddingConfig(pooling="mean", normalize=True, max_length=40)), path)
    modes = {file.stat().st_mode & 0o777 for file in path.rglob("*") if file.is_file()}
    assert modes == {(path / "config.json").stat().st_mode & 0o777}
