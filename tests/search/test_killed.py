"""Real kills, a full disk, and another process: what is there afterwards is whole. Slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, DataError
from anaume.jobs.index import add_to_index, build_index
from anaume.search import Index, open_index
from anaume.search.table import stored_documents
from helpers import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces", "ignore:.*its build is going on"),
]

COUNT = 90
ROWS = [{"id": str(n), "text": f"The dog is old. The river is cute {n}. " * (1 + n % 5)} for n in range(COUNT)]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
# A commit a document, so that there is something to kill in the middle of.
PROGRAM = """
import sys, time, warnings
import anaume.search.writing as writing
from anaume.bundle import Bundle
from anaume.jobs.index import build_index, add_to_index
from anaume.search import open_index
warnings.simplefilter("ignore")
writing.COMMIT = 1
embed = writing.embed_documents
writing.embed_documents = lambda *given: time.sleep(0.05) or embed(*given)
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


def command(verb: str, bundle: Bundle, rows: Path, out: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM, verb, bundle.parts.source, str(rows), str(out)]


def kill_within(line: list[str], out: Path, least: int, meanwhile: Callable[[], None]) -> None:
    """Begin the command, wait for so many commits, do something, and kill it in the middle of what it is doing."""
    with subprocess.Popen(line, env=ENVIRONMENT, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while committed(out) < least:
                assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
                assert time.monotonic() < deadline
                time.sleep(0.005)
            meanwhile()
            assert process.poll() is None, "it came to its end before it could be killed: give it more to do"
        finally:
            process.kill()


def committed(out: Path) -> int:
    """About how many commits the table has seen, without opening it."""
    folder = out / "passages_1.lance" / "_versions"
    return len(list(folder.glob("*.manifest"))) if folder.is_dir() else 0


def documents(out: Path) -> dict[str, str]:
    """What is there: every document whole, or this raises."""
    index = open_index(out)
    found = {one.id: one.text for one in stored_documents(index.table(), "here")}
    assert len(index.search("the dog", top_k=10_000)) == len(index)
    return found


def test_killed_while_it_is_built_it_opens_whole_and_goes_on(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    out, texts = tmp_path / "idx", {row["id"]: row["text"] for row in ROWS}

    def meanwhile() -> None:
        reader = open_index(out, bundle)
        counts = [len(reader.search("the dog", top_k=1000)) for _ in range(5)]
        assert counts == sorted(counts)
        with pytest.raises(DataError, match="another process is writing to this index"):
            reader.add([{"id": "x", "text": "a dog"}])

    kill_within(command("build", bundle, rows, out), out, 8, meanwhile)
    there = documents(out)
    assert 0 < len(there) < COUNT
    assert there == {key: texts[key] for key in list(texts)[: len(there)]}
    with pytest.warns(AnaumeWarning, match="passages by now; .* `anaume index build` line goes on"):
        assert open_index(out, bundle).stats().building
    assert build_index(bundle, rows, out).there == len(there)
    assert documents(out) == texts
    assert not open_index(out, bundle).stats().building
    build_index(bundle, rows, tmp_path / "straight")
    queries = ["the old dog", "a river"]
    straight = open_index(tmp_path / "straight", bundle).search_all(queries, top_k=50)
    assert open_index(out, bundle).search_all(queries, top_k=50) == straight


def test_killed_while_it_is_added_to(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    Index.create(out, bundle).add([{"id": "first", "text": "the money"}])
    kill_within(command("add", bundle, rows, out), out, committed(out) + 6, lambda: time.sleep(0.01))
    assert 1 < len(documents(out)) < COUNT + 1
    add_to_index(open_index(out, bundle), rows)  # the dead writer's lock is gone with it
    assert documents(out) == {"first": "the money", **{row["id"]: row["text"] for row in ROWS}}


def test_a_full_disk_is_one_line_and_keeps_what_was_there(bundle: Bundle, tmp_path: Path) -> None:
    out = tmp_path / "idx"
    Index.create(out, bundle).add([{"id": "first", "text": "the money"}])
    program = (
        "import resource, signal, sys\n"
        "from anaume.search import open_index\n"
        "index = open_index(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # no file grows beyond: as a disk that is full\n"
        "rows = [{'id': str(n), 'text': 'the dog is cute', 'more': str(n ** 99)} for n in range(900)]\n"
        "try:\n"
        "    index.add(rows)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    line = [sys.executable, "-c", program, str(out)]
    done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "DataError" in done.stdout, done.stderr
    assert "the disk is full; what was committed before is kept" in done.stdout
    assert documents(out) == {"first": "the money"}
