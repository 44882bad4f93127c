"""Real kills, a full disk, and another process: what is there afterwards is whole. Slow."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anaume.bundle import Bundle
from anaume.errors import DataError
from anaume.search import open_index
from anaume.search.table import stored_documents
from helpers import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces")]

COUNT = 120
ROWS = [{"id": str(n), "text": f"The dog is old. The river is cute {n}. " * (1 + n % 5)} for n in range(COUNT)]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
# A commit a document, so that there is something to kill in the middle of.
PROGRAM = """
import sys, warnings
import anaume.search.writing as writing
from anaume.bundle import Bundle
from anaume.jobs.index import build_index, add_to_index
from anaume.search import open_index
warnings.simplefilter("ignore")
writing.COMMIT = 1
verb, bundle, rows, out = sys.argv[1:]
if verb == "build":
    build_index(Bundle.load(bundle), rows, out)
else:
    add_to_index(open_index(out), rows)
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def command(verb: str, bundle: Path, rows: Path, out: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, verb, str(bundle), str(rows), str(out)]


def kill_within(line: list[str], out: Path, least: int, pause: float) -> None:
    """Begin the command; kill it a moment after so many documents are committed."""
    with subprocess.Popen(line, env=ENVIRONMENT, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + PATIENCE
        while committed(out) < least:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(pause)
        process.kill()


def committed(out: Path) -> int:
    """About how many commits the table has seen, without opening it."""
    folder = out / "passages_1.lance" / "_versions"
    return len(list(folder.glob("*.manifest"))) if folder.is_dir() else 0


def finish(line: list[str]) -> None:
    done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def documents(out: Path) -> dict[str, str]:
    """What is there: every document whole, or this raises."""
    index = open_index(out)
    found = {one.id: one.text for one in stored_documents(index.table(), "here")}
    assert len(index.search("the dog", top_k=10_000)) == len(index)
    return found


def test_killed_while_it_is_built_it_opens_whole_and_goes_on(tiny_bundle_dir: Path, rows: Path, tmp_path: Path) -> None:
    line, out = command("build", tiny_bundle_dir, rows, tmp_path / "idx"), tmp_path / "idx"
    texts = {row["id"]: row["text"] for row in ROWS}
    draw, before = random.Random(1), 0
    for least in (8, 40):
        kill_within(line, out, least, draw.uniform(0, 0.02))
        there = documents(out)
        assert before < len(there) < COUNT  # more than before, and not all
        assert there == {key: texts[key] for key in list(texts)[: len(there)]}
        assert open_index(out).stats().building
        before = len(there)
    finish(line)
    assert documents(out) == texts
    assert not open_index(out).stats().building
    finish(command("build", tiny_bundle_dir, rows, tmp_path / "straight"))
    queries = ["the old dog", "a river"]
    assert open_index(out).search_all(queries, top_k=50) == open_index(tmp_path / "straight").search_all(
        queries, top_k=50
    )


def test_killed_while_it_is_added_to(tiny_bundle_dir: Path, rows: Path, tmp_path: Path) -> None:
    first, out = tmp_path / "first.jsonl", tmp_path / "idx"
    first.write_text(json.dumps({"id": "first", "text": "the money"}))
    finish(command("build", tiny_bundle_dir, first, out))
    kill_within(command("add", tiny_bundle_dir, rows, out), out, 12, 0.01)
    assert 1 < len(documents(out)) < COUNT + 1
    finish(command("add", tiny_bundle_dir, rows, out))  # the dead writer's lock is gone with it
    assert documents(out) == {"first": "the money", **{row["id"]: row["text"] for row in ROWS}}


def test_a_full_disk_is_one_line_and_keeps_what_was_there(tiny_bundle_dir: Path, rows: Path, tmp_path: Path) -> None:
    out, first = tmp_path / "idx", tmp_path / "first.jsonl"
    first.write_text(json.dumps({"id": "first", "text": "the money"}))
    finish(command("build", tiny_bundle_dir, first, out))
    program = (
        "import resource, signal, sys\n"
        "from anaume.search import open_index\n"
        "index = open_index(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "rows = [{'id': str(n), 'text': 'the dog is cute', 'more': str(n ** 99)} for n in range(900)]\n"
        "try:\n"
        "    index.add(rows)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(out)], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert "DataError" in done.stdout, done.stderr
    assert "the disk is full; what was committed before is kept" in done.stdout
    assert documents(out) == {"first": "the money"}


def test_another_process_that_writes_is_waited_for_by_nobody(tiny_bundle_dir: Path, rows: Path, tmp_path: Path) -> None:
    line, out = command("build", tiny_bundle_dir, rows, tmp_path / "idx"), tmp_path / "idx"
    with subprocess.Popen(line, env=ENVIRONMENT) as process:
        while committed(out) < 8:
            assert process.poll() is None
            time.sleep(0.01)
        reader = open_index(out, Bundle.load(tiny_bundle_dir))
        with pytest.raises(DataError, match="another process is writing to this index"):
            reader.add([{"id": "x", "text": "a dog"}])
        counts = [len(reader.search("the dog", top_k=1000)) for _ in range(5)]
        assert counts == sorted(counts)
        assert process.wait(PATIENCE) == 0
    assert len(reader.search("the dog", top_k=1000)) == len(reader)
