"""Files that appear whole or not at all: errors, full disks, kills, modes and links."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from anaume.data.atomic import atomic_file, atomic_text
from anaume.errors import DataError


def old(folder: Path, name: str = "in.txt") -> Path:
    path = folder / name
    path.write_bytes(b"old")
    return path


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


def test_a_written_file_appears_whole(tmp_path):
    path = old(tmp_path)
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert not leftovers(tmp_path)


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_the_old_file(tmp_path, kind):
    path = old(tmp_path)
    for write in (atomic_file, atomic_text):
        with pytest.raises(kind), write(path) as file:  # noqa: PT012
            file.write(b"half" if write is atomic_file else "half")
            raise kind
        assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["in.txt"]


def test_text_is_written_as_it_is(tmp_path):
    with atomic_text(tmp_path / "out") as file:
        file.write("a\r\nb\n日\u2028")
    assert (tmp_path / "out").read_bytes() == "a\r\nb\n日\u2028".encode()


def test_mode_and_links_are_kept(tmp_path):
    path = old(tmp_path)
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    with atomic_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_the_usual_mode(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_file(tmp_path / "new"):
        pass
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_name_as_long_as_allowed_works(tmp_path):
    with atomic_file(tmp_path / ("n" * 255)) as file:
        file.write(b"x")
    assert os.listdir(tmp_path) == ["n" * 255]


def test_places_that_cannot_be_written_are_told_at_once(tmp_path):
    with (
        pytest.raises(DataError, match=r"the folder .*absent does not exist"),
        atomic_file(tmp_path / "absent" / "out"),
    ):
        raise AssertionError("the block must not start")
    with pytest.raises(DataError, match="is a folder"), atomic_file(tmp_path):
        raise AssertionError("the block must not start")
    with pytest.raises(DataError, match="no regular file"), atomic_file("/dev/null"):
        raise AssertionError("the block must not start")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only folders")
def test_a_read_only_folder_is_told(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="can't be written"), atomic_file(tmp_path / "out"):
        pass


def test_a_full_disk_is_told_and_the_old_file_kept(tmp_path):
    path = old(tmp_path)
    with pytest.raises(DataError, match=r"in\.txt: No space left.*untouched"), atomic_file(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from anaume.data import atomic_file
from anaume.errors import DataError
try:
    with atomic_file(sys.argv[1]) as file:
        file.write(b"x" * int(sys.argv[2]))
except DataError as error:
    print(error)
"""
    for size in (100_001, 10_000_000):
        done = subprocess.run([sys.executable, "-c", code, path, str(size)], capture_output=True, check=False)
        assert b"File too large" in done.stdout, done.stderr
    assert path.read_bytes() == b"old"
    assert not leftovers(tmp_path)


def test_another_os_error_is_not_called_a_full_disk(tmp_path):
    with pytest.raises(PermissionError), atomic_file(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "no")


@pytest.mark.parametrize("ending", ["txt", "npy", "jsonl", "parquet"])
def test_kill_9_leaves_the_old_file_whole(tmp_path, ending):
    code = """
import sys, numpy as np
from anaume.data import Row, atomic_file, open_vectors
path = sys.argv[1]
rows = [Row(number=1, text="a", fields={}, source="x")] * 2000
def forever(write):
    for turn in range(10**9):
        write()
        if turn == 3: print("writing", flush=True)
if path.endswith("txt"):
    with atomic_file(path) as file: forever(lambda: file.write(b"new" * 999))
else:
    vectors = np.ones((2000, 4), np.float32)
    with open_vectors(path, fingerprint="f", size=4) as out: forever(lambda: out.write(rows, vectors))
"""
    path = old(tmp_path, f"out.{ending}")
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"writing\n"
        assert path.read_bytes() == b"old"
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path)  # it was in the middle of writing
