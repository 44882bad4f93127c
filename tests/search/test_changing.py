"""What changes an index: update, delete, compact, migrate; ids, texts and vectors stay together."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.search import Index, migrate_index, tuning, writing
from anaume.search.table import stored_documents

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "the dog is cute", "lang": "en"},
    {"id": "b", "text": "The river is old. " * 12 + "The money is gone.", "lang": "en"},
    {"id": "c", "text": "my cat likes playing", "lang": "ja"},
]

pytestmark = pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces")


@pytest.fixture
def index(bundle: Bundle, tmp_path: Path) -> Index:
    made = Index.create(tmp_path / "idx", bundle)
    made.add(ROWS)
    return made


@pytest.fixture
def other(bundle: Bundle, tmp_path: Path) -> Bundle:
    """A bundle of the same shape with other weights."""
    changed = Bundle.load(bundle.parts.source)
    with torch.no_grad():
        changed.model.embeddings.token_embeddings.weight[7] += 0.5
    changed.save(tmp_path / "other")
    return Bundle.load(tmp_path / "other")


def contents(index: Index) -> dict[str, tuple[str, dict[str, Any]]]:
    """Documents as they are stored, after a look that each passage has its own vector."""
    documents = {one.id: (one.text, dict(one.fields)) for one in stored_documents(index.table(), "here")}
    for hit in index.search("the dog", top_k=1000):
        text = documents[hit.id][0]
        assert text[hit.start : hit.end] == hit.text
        own = index.bundle.embed([hit.text], as_="passage")[0]
        found = index.search_vector(own, fingerprint=index.record.fingerprint, top_k=1000)
        same = next(one for one in found if (one.id, one.passage) == (hit.id, hit.passage))
        assert same.score == pytest.approx(1.0, abs=1e-6)
    return documents


def rows_as_stored(rows: list[dict[str, Any]]) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        row["id"]: (row["text"], {name: value for name, value in row.items() if name not in ("id", "text")})
        for row in rows
    }


def test_update_replaces_whole_documents_in_one_commit(index: Index) -> None:
    before, versions = len(index), index.stats().versions
    shorter = {"id": "b", "text": "A short bank.", "lang": "ja"}
    added = index.update([shorter, ROWS[0], {"id": "new", "text": "the man"}])
    assert (added.documents, added.replaced, added.there) == (2, 1, 1)
    assert index.stats().versions == versions + 1
    assert len(index) == 4 < before
    assert contents(index) == rows_as_stored([ROWS[0], shorter, ROWS[2], {"id": "new", "text": "the man"}])
    longer = {"id": "a", "text": "the dog . " * 20}
    index.update([longer])
    assert contents(index)["a"] == (longer["text"], {})


def test_delete_is_all_or_nothing(index: Index) -> None:
    with pytest.raises(DataError, match="document 'x' is not there, nor are 1 others; nothing was deleted"):
        index.delete(["a", "x", "y"])
    assert set(contents(index)) == {"a", "b", "c"}
    assert index.delete(["b", "b"]) == 1
    assert set(contents(index)) == {"a", "c"}
    assert index.search("river", hybrid=True, where="id = 'b'") == []
    assert index.delete([]) == 0
    with pytest.raises(SettingsError, match="ids must be a list"):
        index.delete("a")


def test_ids_with_quotes_are_ids(index: Index) -> None:
    odd = 'o\'neil "x" `y` ; -- 日本'
    index.add([{"id": odd, "text": "the man"}])
    assert index.add([{"id": odd, "text": "the man"}]).there == 1
    assert index.delete([odd]) == 1
    assert set(contents(index)) == {"a", "b", "c"}


def test_compact_forgets_and_keeps(index: Index) -> None:
    for number in range(4):
        index.add([{"id": str(number), "text": f"the dog {number}"}])
    index.delete(["1", "b"])
    before = contents(index)
    expected = index.search("the dog", top_k=9)
    stats = index.compact()
    assert (stats.documents, stats.waiting) == (5, 0)
    assert stats.versions <= 2
    assert contents(index) == before
    assert index.search("the dog", top_k=9) == expected


def test_stats_say_what_is_there(index: Index, bundle: Bundle) -> None:
    stats = index.stats()
    assert (stats.documents, stats.passages, stats.fingerprint) == (3, len(index), bundle.fingerprint)
    assert (stats.bundle, stats.search, stats.fields) == (bundle.parts.source, "exact", {"lang": "string"})
    assert (stats.passage_length, stats.storage, stats.building) == (16, "float32", False)
    assert stats.bytes > 0


# -- migration ------------------------------------------------------------------------------------------------------


def test_a_migrated_index_is_one_built_anew(index: Index, other: Bundle, tmp_path: Path) -> None:
    before = contents(index)
    done = migrate_index(index.store.path, other)
    assert (done.before.fingerprint, done.after.fingerprint) == (index.bundle.fingerprint, other.fingerprint)
    assert done.added.documents == 3
    with pytest.raises(BundleError, match="makes vectors of fingerprint"):
        index.search("the dog")  # it was opened before
    moved = anaume.open_index(index.store.path)
    assert moved.bundle.parts.source == other.parts.source
    assert contents(moved) == before
    anew = Index.create(tmp_path / "anew", other)
    anew.add(ROWS)
    assert moved.search("the dog", top_k=99) == anew.search("the dog", top_k=99)
    assert migrate_index(index.store.path, other).finished_before
    assert moved.store.names() == ["current", "passages_1", "passages_2"]
    moved.compact()
    assert moved.store.names() == ["current", "passages_2"]
    assert contents(moved) == before


def test_a_migration_broken_off_changes_nothing_and_goes_on(
    index: Index, other: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COMMIT", 1)
    expected = index.search("the dog", top_k=99)
    calls: list[str] = []
    embed = writing.embed_documents

    def breaking(documents: Any, *others: Any) -> Any:
        calls.append(documents[0].id)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed(documents, *others)

    monkeypatch.setattr(writing, "embed_documents", breaking)
    with pytest.raises(KeyboardInterrupt):
        migrate_index(index.store.path, other)
    assert index.search("the dog", top_k=99) == expected
    index.delete(["a"])  # meanwhile, life goes on
    index.update([{"id": "b", "text": "a new text"}])
    calls[:] = ["_"] * 9
    migrate_index(index.store.path, other)
    assert contents(anaume.open_index(index.store.path)) == rows_as_stored([{"id": "b", "text": "a new text"}, ROWS[2]])


def test_a_migration_to_a_third_model_starts_anew(index: Index, other: Bundle, bundle: Bundle) -> None:
    migrate_index(index.store.path, other)
    migrate_index(index.store.path, bundle, passage_length=10)
    again = anaume.open_index(index.store.path)
    assert again.record.passage_length == 10
    assert contents(again) == rows_as_stored(ROWS)


# -- several at once -------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused(index: Index, bundle: Bundle) -> None:
    twin = Index(index.store, bundle)
    with index.store.writing():
        for call in (lambda: twin.add([]), lambda: twin.delete([]), twin.compact):
            with pytest.raises(DataError, match="another process is writing to this index; wait for it, or stop it"):
                call()
        assert twin.search("the dog")  # readers don't mind
    twin.add([{"id": "x", "text": "the dog"}])


def test_a_reader_sees_whole_commits_only(index: Index, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "COMMIT", 1)
    reader = anaume.open_index(index.store.path, bundle)
    new = [{"id": f"n{number}", "text": "the bank . " * 8} for number in range(12)]
    seen: list[int] = []
    before = len(index)

    def write() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)
            index.add(new)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        seen.append(len(reader.search("the bank", top_k=1000)))
    writer.join()
    seen.append(len(reader.search("the bank", top_k=1000)))
    each = (seen[-1] - before) // 12  # passages of a document
    assert each > 1
    assert seen == sorted(seen)
    assert {(count - before) % each for count in seen} == {0}


# -- large ones ------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(bundle: Bundle, tmp_path: Path) -> Index:
    words = ["dog", "cat", "bank", "river", "money", "old"]
    made = Index.create(tmp_path / "many", bundle)
    texts = [f"the {one} {two} {three}" for one in words for two in words for three in words]
    made.add([{"id": number, "text": text} for number, text in enumerate(texts)])
    return made


def test_a_large_index_is_searched_in_parts_and_says_so(many: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = many.search("the old dog", top_k=10)
    few = f"id IN ({', '.join(repr(str(number)) for number in range(0, 216, 5))})"
    exact_of_few = many.search("the old dog", top_k=10, where=few)
    assert many.stats().search == "exact"
    monkeypatch.setattr(tuning, "EXACT_UP_TO", 200)
    monkeypatch.setattr(tuning, "_DRAWN", 24)
    many.add([{"id": "one more", "text": "the dog"}])
    stats = many.stats()
    assert stats.search.endswith("parts of the vectors")
    approximate = many.search("the old dog", top_k=10)
    assert len({hit.id for hit in exact} & {hit.id for hit in approximate}) >= 7
    by_id = {hit.id: hit.score for hit in exact}
    assert all(hit.score == pytest.approx(by_id.get(hit.id, hit.score), abs=1e-6) for hit in approximate)
    assert many.search("the old dog", top_k=10, where=few) == exact_of_few, "the nearest of few lie in any part"
    current = many.store.current()
    made: list[int] = []

    def making(table: Any, count: int) -> int:
        made.append(count)
        return 3

    monkeypatch.setattr(tuning, "_index_vectors", making)
    many.add([{"id": "late", "text": "the old old old dog"}])  # found though no index has it yet
    assert "late" in {hit.id for hit in many.search("the old old old dog", top_k=3)}
    assert (made, many.store.current()) == ([], current)  # the parts are not made anew for one more
    many.compact()
    assert made == [218]
    assert "late" in {hit.id for hit in many.search("the old old old dog", top_k=3)}


def test_what_a_large_index_is_tuned_on_lies_apart_from_its_passages() -> None:
    centres, draw = np.random.default_rng(0).normal(size=(40, 32)), np.random.default_rng(1)
    passages = np.repeat(centres, 8, axis=0) + 0.3 * draw.normal(size=(320, 32))
    passages = (passages / np.linalg.norm(passages, axis=1, keepdims=True)).astype(np.float32)
    passages[5] = 0.0
    drawn = passages[tuning._spread(320)]
    asked = tuning._questions(drawn)
    assert asked.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(asked, axis=1), np.linalg.norm(drawn, axis=1), atol=1e-6)
    own = np.sort(drawn @ passages.T, axis=1)[:, -2].mean()
    assert (asked @ passages.T).max(axis=1).mean() < own - 0.1


def test_a_large_index_of_copies_is_searched_in_as_many_parts_as_they_make(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "EXACT_UP_TO", 200)
    monkeypatch.setattr(tuning, "_DRAWN", 8)
    index = Index.create(tmp_path / "copies", bundle)
    texts = ["the dog", "my cat likes the river", "money"]
    index.add([{"id": number, "text": texts[number % 3]} for number in range(600)])
    assert index.stats().search.endswith("parts of the vectors")
    (vector,) = bundle.embed(["money"], as_="passage")
    found = index.search_vector(vector, fingerprint=bundle.fingerprint, top_k=50)
    assert {hit.text for hit in found} == {"money"}


def test_a_condition_that_holds_for_less_is_looked_for_in_more_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "EXACT_UP_TO", 500)
    asked = [tuning.probes_under(8, matching, 4_000) for matching in (4_000, 2_000, 501, 500, 0)]
    assert asked == [8, 16, 64, 0, 0]
    assert tuning.probes_under(0, 4_000, 4_000) == 0
