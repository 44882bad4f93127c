"""What made a vector file, told without its vectors; and vectors as lines into a stream."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from anaume.data import Row, open_text, open_vectors, read_about, read_vectors, sidecar_path, vector_lines
from anaume.errors import DataError

ROWS = [Row(number=n, text=text, fields={"text": text}, source="t.txt") for n, text in enumerate(["a", "銀"], 1)]
VECTORS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("ending", [".npy", ".jsonl", ".parquet"])
def test_what_was_written_is_told(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    with open_vectors(path, fingerprint="f", size=3, extra={"long": "window"}) as writer:
        writer.write(ROWS, VECTORS)
    assert read_about(path) == ("f", {"long": "window"})


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_a_file_without_rows_tells_too(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"v{ending}"
    with open_vectors(path, fingerprint="f", size=3):
        pass
    assert read_about(path) == ("f", {})


def test_an_array_beside_anothers_sidecar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    with open_vectors(path, fingerprint="f", size=3) as writer:
        writer.write(ROWS, VECTORS)
    np.save(path, VECTORS + 1)
    with pytest.raises(DataError, match="sha256 differs"):
        read_about(path)
    sidecar_path(path).unlink()
    with pytest.raises(DataError, match="is missing"):
        read_about(path)


@pytest.mark.parametrize(("name", "content"), [("v.npy", b"x"), ("v.jsonl", b'{"text": "a"}\n'), ("v.parquet", b"x")])
def test_what_is_no_vector_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        read_about(tmp_path / name)


def test_lines_into_a_stream_are_the_lines_of_a_file(tmp_path: Path) -> None:
    stream = io.BytesIO()
    vector_lines(stream, fingerprint="f", size=3).write(ROWS, VECTORS)
    assert [json.loads(line)["text"] for line in stream.getvalue().decode().splitlines()] == ["a", "銀"]
    path = tmp_path / "v.jsonl"
    path.write_bytes(stream.getvalue())
    assert np.array_equal(read_vectors(path).vectors, VECTORS)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_an_encoding_that_needs_a_mark_and_finds_none(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"the dog is cute\n")
    with pytest.raises(DataError, match=f"line 1.*{encoding}"), open_text(path, encoding=encoding) as file:
        list(file.lines())
