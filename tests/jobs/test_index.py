"""build_index: files into an index; what goes on, what is finished, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.index import build_index
from anaume.search import open_index, writing

pytest.importorskip("lancedb", reason="the extra `search` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces")

TEXTS = ["the dog is cute", "a river", "my cat likes the bank", "money", "the old man", "the bank of the river"]


@pytest.fixture(scope="module")
def bundle(tiny_bundle_dir: Path) -> Bundle:
    return Bundle.load(tiny_bundle_dir)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return written(tmp_path / "rows.jsonl", [{"id": n, "text": text, "n": n} for n, text in enumerate(TEXTS)])


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_becomes_an_index_once(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    summary = build_index(bundle, rows, tmp_path / "idx")
    assert (summary.documents, summary.passages, summary.finished_before) == (6, 6, False)
    assert summary.fingerprint == bundle.fingerprint
    again = build_index(bundle, rows, tmp_path / "idx")
    assert (again.documents, again.passages, again.finished_before) == (0, 6, True)
    hits = open_index(tmp_path / "idx").search("the dog is cute", top_k=9)
    assert {hit.id: (hit.text, hit.metadata) for hit in hits} == {
        str(n): (text, {"n": n}) for n, text in enumerate(TEXTS)
    }


def test_texts_without_ids_are_called_by_file_and_row(bundle: Bundle, tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("the dog\n\nthe cat\n")
    with pytest.warns(AnaumeWarning, match=r"2 documents have no text and were left out, the first: .*one.txt: row 2"):
        build_index(bundle, [tmp_path / "one.txt", tmp_path / "two.txt"], tmp_path / "idx")
    hits = open_index(tmp_path / "idx").search("the dog")
    assert {hit.id for hit in hits} == {"one.txt:1", "one.txt:3", "two.txt:1", "two.txt:3"}


def test_a_build_that_was_broken_off_goes_on(
    bundle: Bundle, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COMMIT", 2)
    embedded: list[str] = []
    embed = writing.embed_documents

    def breaking(documents: Any, *others: Any) -> Any:
        if len(embedded) == 4:
            embedded.append("broken off")
            raise KeyboardInterrupt
        embedded.extend(document.id for document in documents)
        return embed(documents, *others)

    monkeypatch.setattr(writing, "embed_documents", breaking)
    with pytest.raises(KeyboardInterrupt):
        build_index(bundle, rows, tmp_path / "idx")
    assert len(open_index(tmp_path / "idx")) == 4  # it opens, with what was committed
    summary = build_index(bundle, rows, tmp_path / "idx")
    assert (summary.documents, summary.there, summary.passages) == (2, 4, 6)
    assert embedded == ["0", "1", "2", "3", "broken off", "4", "5"]  # nothing twice


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"passage_length": 12}, "passage_length 16 is now 12"),
        ({"storage": "int8"}, "storage float32 is now int8"),
        ({"overlap": 1}, "overlap 3 is now 1"),
    ],
)
def test_another_build_is_refused_naming_what_differs(
    bundle: Bundle, rows: Path, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    build_index(bundle, rows, tmp_path / "idx")
    with pytest.raises(DataError, match=f"exists and was built otherwise: {message}"):
        build_index(bundle, rows, tmp_path / "idx", **given)
    other = written(tmp_path / "other.jsonl", [{"id": 1, "text": "a cat"}])
    with pytest.raises(DataError, match="the files it was built from have other content now"):
        build_index(bundle, other, tmp_path / "idx")
    assert build_index(bundle, other, tmp_path / "idx", overwrite=True).passages == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ['{"id": 1, "text": "a"}', '{"id": 2, "text": "b"}', '{"id": 1, "text": "c"}'],
            "row 3: the id '1' came before",
        ),
        (['{"id": 1, "text": "a"}', '{"id": 2}'], "row 2: no field 'text'"),
        (['{"id": 1, "text": "a"}', '{"id": 2, "text": null}'], "row 2: field 'text': expected a text, came null"),
        (['{"id": 1, "text": "a"}', '{"text": "b"}'], "row 2: no field 'id'"),
        (
            ['{"id": 1, "text": "a"}', '{"id": 1.5, "text": "b"}'],
            "row 2: field 'id': an id is a text or a whole number",
        ),
        (['{"id": 1, "text": "a", "_score": 1}'], "row 1: has a field '_score', a name the index needs for itself"),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_made(
    bundle: Bundle, tmp_path: Path, lines: list[str], message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError) as caught:
        build_index(bundle, path, tmp_path / "idx")
    assert f"{path}: {message}" in str(caught.value)
    with pytest.raises(DataError, match="no index is there"):
        open_index(tmp_path / "idx")


def test_nothing_to_build_from(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least one file"):
        build_index(bundle, [], tmp_path / "idx")
    (tmp_path / "empty.jsonl").write_text("")
    assert build_index(bundle, tmp_path / "empty.jsonl", tmp_path / "idx").passages == 0
    assert open_index(tmp_path / "idx").search("the dog") == []
