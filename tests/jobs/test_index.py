"""build_index: files into an index; what goes on, what is finished, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.jobs.embed import embed_file
from anaume.jobs.index import add_to_index, build_index, migrate
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
    with pytest.warns(AnaumeWarning, match="its build is going on, or was broken off, with 4 passages by now"):
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
        (
            ['{"id": 1, "text": "a", "vector": [1.0], "fingerprint": "x"}'],
            "row 1: has a field 'vector', a name the index needs for itself; rename it, or, if `anaume embed` wrote "
            "the file, pass vectors=True (--vectors)",
        ),
        (['{"id": 1, "text": "a", "ok": 1, "x": {"y": [Infinity]}}'], "row 1: field 'x' has no form in JSON: Inf"),
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
    assert not (tmp_path / "idx").exists()


def test_nothing_to_build_from(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="at least one file"):
        build_index(bundle, [], tmp_path / "idx")
    (tmp_path / "empty.jsonl").write_text("")
    assert build_index(bundle, tmp_path / "empty.jsonl", tmp_path / "idx").passages == 0
    assert open_index(tmp_path / "idx").search("the dog") == []


def test_adding_and_replacing_from_files(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    build_index(bundle, rows, tmp_path / "idx")
    index = open_index(tmp_path / "idx", bundle)
    more = written(tmp_path / "more.jsonl", [{"id": 5, "text": TEXTS[5], "n": 5}, {"id": 6, "text": "the dog"}])
    summary = add_to_index(index, more)
    assert (summary.documents, summary.there, summary.passages) == (1, 1, 7)
    assert add_to_index(index, more).there == 2
    changed = written(tmp_path / "changed.jsonl", [{"id": 0, "text": "the man"}, {"id": 7, "text": "money"}])
    with pytest.raises(DataError, match=r"changed.jsonl: row 1: the id '0' is in .*, with other content"):
        add_to_index(index, changed)
    summary = add_to_index(index, changed, replacing=True)
    assert (summary.documents, summary.replaced, summary.passages) == (2, 1, 8)


def test_vectors_that_were_embedded_before(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    for ending in ("parquet", "jsonl"):
        file = tmp_path / f"vectors.{ending}"
        embed_file(bundle, rows, file, as_="passage")
        summary = build_index(bundle, file, tmp_path / ending, vectors=True)
        assert (summary.documents, summary.passages) == (6, 6)
    build_index(bundle, rows, tmp_path / "texts")
    expected = open_index(tmp_path / "texts").search("the dog is cute", top_k=9)
    for ending in ("parquet", "jsonl"):
        found = open_index(tmp_path / ending).search("the dog is cute", top_k=9)
        assert [(hit.id, hit.metadata) for hit in found] == [(hit.id, hit.metadata) for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
        assert add_to_index(open_index(tmp_path / ending), rows).there == 6


def test_shards_of_vectors_become_one_index(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "COMMIT", 4)  # commits don't end where files do
    files = []
    for n, texts in enumerate((TEXTS[:3], [], TEXTS[3:])):
        source = written(tmp_path / f"{n}.jsonl", [{"id": f"{n}-{m}", "text": text} for m, text in enumerate(texts)])
        files.append(tmp_path / f"{n}.parquet")
        embed_file(bundle, source, files[-1], as_="passage")
    summary = build_index(bundle, files, tmp_path / "idx", vectors=True)
    assert (summary.documents, summary.passages) == (6, 6)
    index = open_index(tmp_path / "idx", bundle)
    for text, vector in zip(TEXTS, bundle.embed(TEXTS, as_="passage"), strict=True):
        best = index.search_vector(vector, fingerprint=bundle.fingerprint, top_k=1)[0]
        assert (best.text, best.score) == (text, pytest.approx(1.0, abs=1e-6))


def test_vectors_of_cut_texts_say_so(bundle: Bundle, tmp_path: Path) -> None:
    text = written(tmp_path / "long.jsonl", [{"id": 1, "text": "the dog is cute . " * 10}])
    with pytest.warns(AnaumeWarning, match="were cut"):
        embed_file(bundle, text, tmp_path / "v.parquet", as_="passage")
    with pytest.warns(AnaumeWarning, match="1 of 1 documents were cut when they were embedded"):
        build_index(bundle, tmp_path / "v.parquet", tmp_path / "idx", vectors=True)
    (hit,) = open_index(tmp_path / "idx").search("dog")
    assert 0 < hit.coverage < 1


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0] * 15, "vectors of 15 numbers under the fingerprint of a bundle that makes 16"),
        ([float("inf")] * 16, "vector 1, of id 'x', is not finite"),
        ([float("nan")] * 16, "vector 1, of id 'x', is not finite"),
    ],
)
def test_vectors_that_were_tampered_with_change_nothing(
    bundle: Bundle, rows: Path, tmp_path: Path, vector: list[float], message: str
) -> None:
    build_index(bundle, rows, tmp_path / "idx")
    row = {"id": "x", "text": "a dog", "vector": vector, "fingerprint": bundle.fingerprint}
    file = written(tmp_path / "v.jsonl", [row])
    with pytest.raises(DataError, match=message):
        add_to_index(open_index(tmp_path / "idx", bundle), file, vectors=True)
    assert len(open_index(tmp_path / "idx", bundle)) == 6
    with pytest.raises(DataError, match=message):
        build_index(bundle, file, tmp_path / "new", vectors=True)
    assert not (tmp_path / "new").exists()


def test_vectors_that_do_not_belong_are_refused(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    windows, queries, arrays = tmp_path / "windows.parquet", tmp_path / "queries.parquet", tmp_path / "v.npy"
    embed_file(bundle, rows, windows, as_="passage", long="window")
    embed_file(bundle, rows, queries, as_="query")
    embed_file(bundle, rows, arrays, as_="passage")
    with pytest.raises(BundleError) as caught:
        build_index(bundle, windows, tmp_path / "idx", vectors=True)
    assert bundle.fingerprint in str(caught.value)
    assert bundle.fingerprint_for("window") in str(caught.value)
    with pytest.raises(DataError, match="made by different models or settings and can't be mixed"):
        build_index(bundle, [queries, windows], tmp_path / "idx", vectors=True)
    with pytest.raises(DataError, match="embedded as 'query'; passages are embedded as 'passage'"):
        build_index(bundle, queries, tmp_path / "idx", vectors=True)
    with pytest.raises(DataError, match="keeps no texts and no ids"):
        build_index(bundle, arrays, tmp_path / "idx", vectors=True)
    with pytest.raises(DataError, match="a field 'vector', a name the index needs for itself"):
        build_index(bundle, queries, tmp_path / "idx")  # without vectors=True


def test_codes_tell_their_loss(bundle: Bundle, tmp_path: Path) -> None:
    rows = [
        {"id": n, "text": f"the {one} {two}"} for n, (one, two) in enumerate((a, b) for a in TEXTS for b in TEXTS * 2)
    ]
    path = written(tmp_path / "rows.jsonl", rows)
    loss = build_index(bundle, path, tmp_path / "idx", storage="binary").codes_recall
    assert loss is not None
    assert 0 < loss.recall <= loss.rescored <= 1
    assert loss.passages == len(rows)
    assert build_index(bundle, path, tmp_path / "floats").codes_recall is None


def test_migrating_by_a_job(bundle: Bundle, rows: Path, tmp_path: Path) -> None:
    build_index(bundle, rows, tmp_path / "idx", passage_length=12)
    summary = migrate(tmp_path / "idx", bundle)
    assert (summary.documents, summary.passages, summary.finished_before) == (6, 6, False)
    assert migrate(tmp_path / "idx", bundle).finished_before
