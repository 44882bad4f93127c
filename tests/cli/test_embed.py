"""embed, from the command line; what the job itself promises is in tests/jobs/."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anaume
from anaume.data import read_vectors
from commands import Run

TEXTS = ["the dog is cute", "", "my cat likes the bank of the river"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_embed_writes_what_the_bundle_gives(
    run: Run, tiny_bundle_dir: Path, texts: Path, tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"vectors{ending}"
    done = run("embed", tiny_bundle_dir, texts, "-o", out)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"3 texts -> {out} (3 x 16, computed in float32) in ")
    bundle = anaume.load(tiny_bundle_dir)
    stored = read_vectors(out)
    np.testing.assert_allclose(stored.vectors, bundle.embed(TEXTS), atol=1e-5)
    assert stored.fingerprint == bundle.fingerprint
    assert stored.metadata["precision"] == "float32"


def test_embed_writes_lines_to_stdout(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("embed", tiny_bundle_dir, "-", stdin="the dog\r\n銀行\r\n".encode())
    assert done.code == 0
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["text"] for row in rows] == ["the dog", "銀行"]
    assert rows[0]["fingerprint"] == anaume.load(tiny_bundle_dir).fingerprint
    assert len(rows[0]["vector"]) == 16


def test_embed_summary_as_json(run: Run, tiny_bundle_dir: Path, texts: Path, tmp_path: Path) -> None:
    done = run("embed", tiny_bundle_dir, texts, "-o", tmp_path / "v.npy", "--json", "-q")
    assert (done.code, done.err) == (0, "")
    row = json.loads(done.out)
    assert (row["texts"], row["cut"], row["coverage"], row["unknown"]) == (3, 0, 1.0, 0)
    assert row["texts_per_second"] > 0


def test_embed_warns_in_one_line(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text(f"{'dog ' * 40}\nthe dog\n銀\n", encoding="utf-8")
    warning, summary = run("embed", tiny_bundle_dir, long, "-o", tmp_path / "v.npy").err.splitlines()
    assert warning.startswith("warning: 1 of 3 texts were longer than 16 tokens")
    assert "are unknown to the vocabulary" in warning
    assert "1 cut" in summary


def test_embed_under_a_prompt_and_from_a_column(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,is cute\n", encoding="utf-8")
    out = tmp_path / "v.parquet"
    assert run("embed", tiny_bundle_dir, table, "--column", "body", "--as", "query", "-o", out).code == 0
    stored = read_vectors(out)
    np.testing.assert_allclose(stored.vectors, anaume.load(tiny_bundle_dir).embed(["the dog is cute"]), atol=1e-5)
    assert stored.rows == [{"id": "1", "body": "is cute"}]


def test_embed_in_bfloat16_says_so(run: Run, tiny_bundle_dir: Path, texts: Path, tmp_path: Path) -> None:
    done = run("embed", tiny_bundle_dir, texts, "-o", tmp_path / "v.npy", "--precision", "bfloat16")
    assert "bfloat16" in done.err
    assert read_vectors(tmp_path / "v.npy").metadata["precision"] == "bfloat16"


def test_embed_of_nothing_is_a_valid_nothing(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    done = run("embed", tiny_bundle_dir, "-", "-o", tmp_path / "v.parquet", stdin=b"")
    assert done.code == 0
    assert done.err.startswith("0 texts -> ")
    assert read_vectors(tmp_path / "v.parquet").vectors.shape == (0, 16)
    assert run("embed", tiny_bundle_dir, "-", stdin=b"").out == ""


def test_embed_twice_is_done_once(run: Run, tiny_bundle_dir: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    assert run("embed", tiny_bundle_dir, texts, "-o", out).code == 0
    before = out.stat().st_mtime_ns
    again = run("embed", tiny_bundle_dir, texts, "-o", out)
    assert (again.code, out.stat().st_mtime_ns) == (0, before)
    assert "there already" in again.err
    other = run("embed", tiny_bundle_dir, texts, "-o", out, "--as", "query")
    assert (other.code, out.stat().st_mtime_ns) == (1, before)
    assert "as nothing is now query" in other.error()
    assert run("embed", tiny_bundle_dir, texts, "-o", out, "--as", "query", "--overwrite").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["{none}", "-o", "{out}.npy"], 1, "no such file"),
        (["{texts}", "-o", "{out}.npz"], 1, "files ending in .npy, .jsonl, .parquet"),
        (["{texts}", "-o", "{none}/v.npy"], 1, "does not exist"),
        (["{texts}", "-o", "{texts}.jsonl", "--json", "--as", "quary"], 2, "did you mean 'query'?"),
        (["{texts}", "--json"], 2, "name their file with -o"),
        (["-", "-", "-o", "{out}.npy"], 2, "named twice"),
        (["{table}", "-o", "{out}.npy"], 1, "choose one with column= (--column): 'id', 'body'"),
        (["{table}", "-o", "{out}.npy", "--column", "bodi"], 1, "did you mean 'body'?"),
        (["{texts}", "-o", "{out}.npy", "--encoding", "martian"], 2, "unknown encoding 'martian'"),
        (["{texts}", "-o", "{out}.npy", "--encoding", "utf-16"], 1, "utf-16-le"),
        (["{texts}", "-o", "{out}.npy", "--long", "error", "--as", "query"], 1, "texts.txt: row 3: the text has"),
    ],
)
def test_embed_refuses(
    run: Run, tiny_bundle_dir: Path, texts: Path, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    texts.write_text("".join(f"{text}\n" for text in [*TEXTS[:2], "dog " * 20]), encoding="utf-8")
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,the dog\n", encoding="utf-8")
    places = {"none": tmp_path / "none.txt", "out": tmp_path / "out", "texts": texts, "table": table}
    done = run("embed", tiny_bundle_dir, *(part.format(**places) for part in arguments))
    assert (done.code, done.out) == (code, "")
    assert expected in done.error()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "texts.txt"]


def test_embed_without_such_a_bundle(run: Run, texts: Path, tmp_path: Path) -> None:
    done = run("embed", tmp_path / "none", texts, "-o", tmp_path / "v.npy")
    assert (done.code, done.out) == (1, "")
    assert "no directory" in done.error()


def test_embed_of_stdin_can_not_tell_whether_it_is_done(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    asked = ("embed", tiny_bundle_dir, "-", "-o", tmp_path / "v.npy")
    assert run(*asked, stdin=b"the dog\n").code == 0
    again = run(*asked, stdin=b"the dog\n")
    assert again.code == 1
    assert "can't be told" in again.error()
    assert run(*asked, "--overwrite", stdin=b"a cat\n").code == 0
