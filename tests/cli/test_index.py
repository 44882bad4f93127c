"""`anaume index` and `anaume search` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from commands import Run

pytest.importorskip("lancedb", reason="the extra `search` is not installed")

ROWS = [
    {"id": "a", "text": "the dog is cute", "lang": "en"},
    {"id": "b", "text": "The river is old. " * 12 + "The money is gone.", "lang": "en"},
    {"id": "c", "text": "my cat likes playing", "lang": "ja"},
]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


@pytest.fixture
def idx(run: Run, rows: Path, tiny_bundle_dir: Path, tmp_path: Path) -> Path:
    done = run("index", "build", rows, "--bundle", tiny_bundle_dir, "-o", tmp_path / "idx")
    assert done.code == 0, done.err
    assert done.out == ""
    assert f"3 documents -> {tmp_path / 'idx'}" in done.err
    return tmp_path / "idx"


def test_build_and_search(run: Run, idx: Path) -> None:
    done = run("search", idx, "The money is gone.", "--top-k", 2, "--json")
    assert done.code == 0
    hits = json.loads(done.out)
    assert len(hits) == 2
    assert set(hits[0]) == {
        "id", "text", "start", "end", "passage", "passages", "score", "coverage", "metadata", "scores"
    }  # fmt: skip
    for hit in hits:
        assert next(row for row in ROWS if row["id"] == hit["id"])["text"][hit["start"] : hit["end"]] == hit["text"]
    shown = run("search", idx, "my cat", "--where", "lang = 'ja'")
    score, name, *_ = shown.out.splitlines()[0].split()
    assert name == "c"
    assert -1 <= float(score) <= 1
    assert shown.out.splitlines()[1].strip() == "my cat likes playing"


def test_the_same_line_again_has_nothing_to_do(run: Run, idx: Path, rows: Path, tiny_bundle_dir: Path) -> None:
    done = run("index", "build", rows, "--bundle", tiny_bundle_dir, "-o", idx, "--json")
    assert (done.code, json.loads(done.out)["finished_before"]) == (0, True)
    assert "nothing to do" in done.err


def test_another_bundle_is_refused_on_one_line(run: Run, idx: Path, tuned_dir: Path) -> None:
    done = run("search", idx, "the dog", "--bundle", tuned_dir)
    assert done.code == 1
    assert "fingerprint" in done.error()
    assert "index migrate" in done.error()


def test_wrong_use(run: Run, idx: Path, tmp_path: Path) -> None:
    assert run("search", idx, "", "--json").code == 2
    assert run("search", idx, "dog", "--where", "color = 1").code == 2
    assert "no index is there" in run("search", tmp_path / "nowhere", "dog").error()


def test_stdin_is_read_once(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    line = ("index", "build", "-", "--format", "jsonl", "--bundle", tiny_bundle_dir, "-o", tmp_path / "piped")
    done = run(*line, stdin=json.dumps(ROWS[0]).encode())
    assert done.code == 0, done.err
    assert "whether stdin holds what it was built from can't be told" in run(*line, stdin=b"").error()


@pytest.mark.parametrize("name", ["nowhere.jsonl", "n" * 300 + ".jsonl"])
def test_a_file_that_is_not_there_is_named_whether_an_index_is_there_or_not(
    run: Run, idx: Path, tiny_bundle_dir: Path, tmp_path: Path, name: str
) -> None:
    for out in (idx, tmp_path / "new"):
        done = run("index", "build", tmp_path / name, "--bundle", tiny_bundle_dir, "-o", out)
        assert (done.code, f"{name}: can't be read:" in done.error()) == (1, True), done.err
    assert not (tmp_path / "new").exists()


def test_an_index_is_kept(run: Run, idx: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "d", "text": "the old man"}))
    assert "1 documents ->" in run("index", "add", idx, more).err
    assert json.loads(run("index", "add", idx, more, "--json").out)["there"] == 1
    more.write_text(json.dumps({"id": "d", "text": "the new man"}))
    assert "index update" in run("index", "add", idx, more).error()
    assert "1 of them replaced others" in run("index", "update", idx, more).err
    assert run("index", "delete", idx, "nobody").code == 1
    assert json.loads(run("index", "delete", idx, "-", "--json", stdin=b"d\n").out) == {"deleted": 1}
    stats = json.loads(run("index", "compact", idx, "--json").out)
    assert (stats["documents"], stats["fields"]) == (3, {"lang": "string"})
    shown = run("index", "stats", idx).out
    assert "documents       3" in shown
    assert "lang   string" in shown


def test_migrate_moves_to_another_bundle(run: Run, idx: Path, tuned_dir: Path) -> None:
    done = run("index", "migrate", idx, "--bundle", tuned_dir)
    assert done.code == 0, done.err
    assert "anaume index compact" in done.err
    assert json.loads(run("index", "stats", idx, "--json").out)["bundle"].startswith(str(tuned_dir))


def test_stats_are_read_when_the_bundle_is_gone(run: Run, rows: Path, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    shutil.copytree(tiny_bundle_dir, here)
    idx = tmp_path / "idx"
    assert run("index", "build", rows, "--bundle", here, "-o", idx).code == 0
    here.rename(there)
    assert json.loads(run("index", "stats", idx, "--json").out)["bundle"] == str(here)
    assert "name it with --bundle" in run("search", idx, "the dog").error()
    assert run("search", idx, "the dog", "--bundle", there).code == 0
    assert "no index is there" in run("index", "stats", tmp_path / "nowhere").error()


def test_nothing_found_is_said(run: Run, idx: Path) -> None:
    done = run("search", idx, "the dog", "--where", "lang = 'fr'")
    assert (done.code, done.out) == (0, "")
    assert "nothing found" in done.err
    assert run("search", idx, "the dog", "--where", "lang = 'fr'", "--json").out == "[]\n"


def test_many_queries_from_stdin(run: Run, idx: Path) -> None:
    done = run("search", idx, "-", "--json", "--hybrid", "--top-k", 1, stdin=b"the dog\nmoney\n")
    assert [len(json.loads(line)) for line in done.out.splitlines()] == [1, 1]
    assert run("search", idx, "-", stdin=b"dog").code == 2
    assert run("search", idx, "-", "--json", stdin=b"").out == ""


def test_a_model_that_ranks_nothing_is_refused(run: Run, idx: Path, tuned_dir: Path) -> None:
    done = run("search", idx, "dog", "--rerank", tuned_dir)
    assert (done.code, "ranking needs a model with one score" in done.err) == (2, True)


def test_codes_say_what_they_lose(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    rows = tmp_path / "many.txt"
    rows.write_text("".join(f"the dog and the {word} {n}\n" for n in range(20) for word in ("cat", "bank", "river")))
    done = run("index", "build", rows, "--bundle", tiny_bundle_dir, "-o", tmp_path / "codes", "--storage", "int8")
    assert "int8 codes find" in done.err
    assert "of the ten nearest that float32 finds" in done.err
