"""Index: what is added is found, by the model that made it and by no other."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.search import Hit, Index, writing

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "the dog is cute", "lang": "en", "year": 2020},
    {"id": "b", "text": "a river runs past the old bank", "lang": "en", "year": 2021, "tags": ["x", "y"]},
    {"id": "c", "text": "my cat likes playing", "lang": "ja", "score": 0.5},
    {"id": 4, "text": "the bank lent money to the man", "lang": "ja", "year": 2022},
]
LONG = " ".join(f"The dog is cute {number}." for number in range(40)) + " The money is gone."


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9.]+% of the pieces", AnaumeWarning)
        yield


@pytest.fixture
def index(bundle: Bundle, tmp_path: Path) -> Index:
    made = Index.create(tmp_path / "idx", bundle)
    made.add(ROWS)
    return made


def changed(bundle: Bundle, folder: Path) -> Bundle:
    """The same shapes with one weight changed, saved and loaded."""
    other = Bundle.load(bundle.parts.source)
    with torch.no_grad():
        other.model.embeddings.token_embeddings.weight[7] += 0.5
    other.save(folder)
    return Bundle.load(folder)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


def test_a_hit_says_what_was_found_and_where(index: Index, bundle: Bundle) -> None:
    best, *rest = index.search("the dog is cute", top_k=3)
    query = bundle.embed(["the dog is cute"], as_="query")
    cosines = anaume.similarity(query, bundle.embed([row["text"] for row in ROWS], as_="passage"))[0]
    assert [hit.score for hit in (best, *rest)] == pytest.approx(sorted(cosines.tolist(), reverse=True)[:3], abs=1e-6)
    by_id = {str(row["id"]): row for row in ROWS}
    for hit in (best, *rest):
        row = by_id[hit.id]
        assert (hit.text, hit.start, hit.end) == (row["text"], 0, len(row["text"]))
        assert (hit.passage, hit.passages, hit.coverage) == (0, 1, 1.0)
        assert hit.metadata == {name: value for name, value in row.items() if name not in ("id", "text")}


def test_the_same_answers_after_it_is_opened_again(index: Index, bundle: Bundle) -> None:
    again = anaume.open_index(index.store.path)
    assert again.search("the river", top_k=4) == index.search("the river", top_k=4)
    assert again.bundle.parts.source == bundle.parts.source
    assert len(again) == 4


def test_many_queries_and_none(index: Index) -> None:
    queries = ["the dog", "money"]
    assert index.search_all(queries, top_k=2) == [index.search(query, top_k=2) for query in queries]
    assert index.search_all([]) == []


def test_an_empty_index_finds_nothing(bundle: Bundle, tmp_path: Path) -> None:
    assert Index.create(tmp_path / "idx", bundle).search("the dog") == []


def test_a_long_document_is_found_by_its_tail(bundle: Bundle, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "idx", bundle)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*were cut")
        added = index.add([{"id": "long", "text": LONG}, {"id": "short", "text": "the dog is cute"}])
    assert (added.documents, added.passages) == (2, len(index))
    hits = index.search("The money is gone.", top_k=1000)
    assert len(hits) == len(index)
    tail = next(hit for hit in hits if hit.end == len(LONG))
    assert tail.text.endswith("The money is gone.")
    assert tail.passage == tail.passages - 1 > 5
    for hit in hits:
        if hit.id == "long":
            assert LONG[hit.start : hit.end] == hit.text
            assert hit.coverage == 1.0


def test_conditions_on_fields(index: Index) -> None:
    assert set(ids(index.search("the dog", where="lang = 'ja'"))) == {"c", "4"}
    assert set(ids(index.search("the dog", where="year >= 2021 and lang = 'en'"))) == {"b"}
    assert set(ids(index.search("the dog", where="id in ('a', 'c')"))) == {"a", "c"}
    assert set(ids(index.search("the dog", where="score is not null"))) == {"c"}
    assert set(ids(index.search("the dog", where="tags like '%\"y\"%'"))) == {"b"}


@pytest.mark.parametrize(
    "where", ["nothing = 3", "lang =", "year = 'abc'", "1 = 1); drop table x", "1 = 1 oops", "lang = 'ja') or (true"]
)
def test_a_condition_that_does_not_fit_is_one_line(index: Index, where: str) -> None:
    with pytest.raises(SettingsError, match=r"fields: id, lang \(string\), year \(bigint\)") as caught:
        index.search("the dog", where=where)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_keep_their_values(bundle: Bundle, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "idx", bundle)
    odd = {"my field": "x", "Year": 1, "a.b": [1, {"c": None}], "text id": True, "mixed": "seven", "n": None}
    with pytest.warns(AnaumeWarning, match="no filter can name: 'a.b'; .* filters see as texts: 'mixed'$"):
        index.add([{"id": "1", "text": "the dog", **odd}, {"id": "2", "text": "a cat", "mixed": 7}])
    assert {hit.id: hit.metadata for hit in index.search("dog")} == {"1": odd, "2": {"mixed": 7}}
    assert ids(index.search("dog", where="`my field` = 'x' and Year = 1 and `text id`")) == ["1"]
    assert ids(index.search("dog", where="mixed = '7'")) == ["2"]
    index.add([{"id": "3", "text": "a river", "new": 1.5, "Year": None}])
    assert ids(index.search("dog", where="new > 1")) == ["3"]
    with pytest.raises(DataError, match="field 'Year' holds bigint there, and here string"):
        index.add([{"id": "4", "text": "a river", "Year": "many"}])
    with pytest.warns(AnaumeWarning, match="filters see as texts: 'my field'$"):
        index.add([{"id": "5", "text": "a bank", "my field": 5}])  # whose column has texts
    assert ids(index.search("dog", where="`my field` = '5'")) == ["5"]


VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "bigint": (0, -(2**63), 2**63 - 1, 2**53 + 1),
    "double": (1.5, -0.0, 1e300),
    "string": ("", "seven", "\0", [1, {"a": None}], {}, 2**70),
}


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(VALUES, 2)))
def test_values_of_any_two_types_are_kept_and_mixtures_are_told(
    bundle: Bundle, tmp_path: Path, one: str, other: str
) -> None:
    index = Index.create(tmp_path / "idx", bundle)
    rows = [{"id": str(at), "text": "the dog", "x": x} for at, x in enumerate((*VALUES[one], *VALUES[other], None))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        index.add(rows)
    told = [str(warning.message) for warning in caught if "filters see as texts: 'x'" in str(warning.message)]
    assert len(told) == (one != other and {one, other} != {"bigint", "double"})
    found = {hit.id: hit.metadata["x"] for hit in index.search("dog", top_k=99)}
    assert [(type(found[row["id"]]), found[row["id"]]) for row in rows] == [(type(row["x"]), row["x"]) for row in rows]


def test_more_than_there_is_may_be_asked_for(index: Index, bundle: Bundle) -> None:
    everything = ids(index.search("the dog", top_k=100))
    for many in (101, 2**31, 2**63, 10**30):
        assert ids(index.search("the dog", top_k=many)) == everything
        assert set(ids(index.search("the dog", top_k=many, hybrid=True))) == set(everything)
        vector = bundle.embed(["the dog"])[0]
        assert ids(index.search_vector(vector, fingerprint=bundle.fingerprint, top_k=many)) == everything


def test_what_is_there_unchanged_is_passed_over_and_what_differs_is_refused(index: Index) -> None:
    added = index.add([ROWS[0], {"id": "new", "text": "the old dog"}])
    assert (added.documents, added.there, len(index)) == (1, 1, 5)
    with pytest.raises(DataError, match=r"row 1: the id 'a' is in .*idx already, with other content; `index update`"):
        index.add([{"id": "newer", "text": "a cat"}, {"id": "a", "text": "another dog"}])
    assert len(index) == 5


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}], "row 1: the id 'x' came before, in rows: row 0"),
        ([{"text": "a"}], "row 0: no field 'id'"),
        ([{"id": "x", "txt": "a"}], "row 0: field 'text': expected a text, came nothing"),
        ([{"id": "x", "text": None}], "row 0: field 'text': expected a text, came NoneType"),
        ([{"id": None, "text": "a"}], "row 0: field 'id': an id is a text or a whole number, came None"),
        ([{"id": True, "text": "a"}], "row 0: field 'id': an id is"),
        ([{"id": "", "text": "a"}], "row 0: field 'id': an id is"),
        ([{"id": "x", "text": "a", "vector": [1]}], "has a field 'vector', a name the index needs"),
        ([{"id": "x", "text": "a", "f": float("nan")}], "field 'f' is nan"),
        ([{"id": "x", "text": "a", "f": {"g": float("inf")}}], "field 'f' has no form in JSON: Inf"),
        ([{"id": "x", "text": "a", "f": object()}], "field 'f' has no form in JSON: object"),
        (["a text"], "row 0: expected a mapping"),
    ],
)
def test_rows_that_are_wrong_are_refused_whole(index: Index, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        index.add([{"id": "good", "text": "the dog"}, *rows] if rows[0] == "nothing" else rows)
    assert message in str(caught.value)
    assert len(index) == 4


def test_documents_without_text_are_counted_and_left_out(index: Index) -> None:
    with pytest.warns(AnaumeWarning, match="2 documents have no text and were left out, the first: rows: row 0"):
        added = index.add([{"id": "x", "text": ""}, {"id": "y", "text": "\u3000\n"}, {"id": "z", "text": "the dog"}])
    assert (added.documents, added.blank, len(index)) == (1, 2, 5)


def test_a_vector_of_nothing_finite_undoes_the_call(
    index: Index, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COMMIT", 1)
    embed = Bundle.embed_stream

    def broken(self: Bundle, chunks: Any, **other: Any) -> Iterator[Any]:
        for report in embed(self, chunks, **other):
            if report.pieces == 2:
                report.vectors[0, 3] = np.inf
            yield report

    monkeypatch.setattr(Bundle, "embed_stream", broken)
    before = index.search("the dog", top_k=9)
    with pytest.raises(BundleError, match="row 1: the model gives document 'nan' a vector that is not finite"):
        index.add([{"id": "good", "text": "the river bank"}, {"id": "nan", "text": "cat dog"}])
    assert index.search("the dog", top_k=9) == before


def test_a_text_of_no_tokens_has_a_finite_score(bundle: Bundle, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "idx", bundle)
    index.add([{"id": "none", "text": "\u200b"}, *ROWS])
    hits = index.search("the dog is cute", top_k=9)
    assert len(hits) == 5
    assert all(np.isfinite(hit.score) and -1 <= hit.score <= 1 for hit in hits)


# -- one index, one model -------------------------------------------------------------------------------------------


def test_another_model_is_refused_with_both_named(index: Index, bundle: Bundle, tmp_path: Path) -> None:
    shorter = bundle.with_embedding(replace(bundle.embedding, max_length=12))
    pooled = bundle.with_embedding(replace(bundle.embedding, pooling="cls"))
    for other in (changed(bundle, tmp_path / "other"), shorter, pooled):
        with pytest.raises(BundleError) as caught:
            anaume.open_index(index.store.path, other)
        for named in (bundle.fingerprint, other.fingerprint, bundle.parts.source, other.parts.source):
            assert named in str(caught.value)
        stranger = Index(index.store, other)
        calls: list[tuple[Callable[[Any], object], Any]] = [
            (stranger.search, "the dog"),
            (stranger.search_all, []),
            (stranger.add, ROWS),
            (stranger.update, ROWS),
            (stranger.delete, ["a"]),
        ]
        for call, argument in calls:
            with pytest.raises(BundleError, match="makes vectors of fingerprint"):
                call(argument)
    assert len(index) == 4


def test_a_model_trained_after_it_was_opened_is_refused(index: Index, bundle: Bundle) -> None:
    trained = Bundle.load(bundle.parts.source)
    opened = anaume.open_index(index.store.path, trained)
    assert opened.search("the dog")
    with torch.no_grad():
        trained.model.embeddings.token_embeddings.weight[7] += 0.5
    with pytest.raises(BundleError, match="it has changed since"):
        opened.search("the dog")


def test_a_bundle_that_is_gone_or_was_never_saved(index: Index, bundle: Bundle, tmp_path: Path) -> None:
    memory = Bundle.new(bundle.tokenizer, bundle.config, embedding=bundle.embedding)
    Index.create(tmp_path / "memory", memory).add(ROWS)
    with pytest.raises(SettingsError, match="made by a bundle that was never saved"):
        anaume.open_index(tmp_path / "memory")
    assert anaume.open_index(tmp_path / "memory", memory).search("the dog")
    moved = changed(bundle, tmp_path / "moved")
    Index.create(tmp_path / "lost", moved)
    (tmp_path / "moved").rename(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="its bundle can't be opened; name it with --bundle"):
        anaume.open_index(tmp_path / "lost")
    anaume.open_index(tmp_path / "lost", Bundle.load(tmp_path / "elsewhere"))


def test_precisions_mix_with_a_word(index: Index, bundle: Bundle) -> None:
    half = Bundle.load(bundle.parts.source, precision="bfloat16")
    with pytest.warns(AnaumeWarning, match="holds float32 vectors and meets bfloat16 ones"):
        opened = anaume.open_index(index.store.path, half)
    assert opened.search("the dog")  # and says it once


def test_a_query_that_is_a_vector(index: Index, bundle: Bundle) -> None:
    vector = bundle.embed(["the dog is cute"], as_="query")[0]
    found = index.search_vector(vector * 3, fingerprint=bundle.fingerprint)  # a cosine knows no length
    expected = index.search("the dog is cute")
    assert ids(found) == ids(expected)
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
    with pytest.raises(BundleError, match="the query's is other"):
        index.search_vector(vector, fingerprint="other")
    vector[3] = np.nan
    with pytest.raises(DataError, match="not finite"):
        index.search_vector(vector, fingerprint=bundle.fingerprint)
    with pytest.raises(DataError, match=r"shape \(15,\), expected \(16,\)"):
        index.search_vector(vector[:15], fingerprint=bundle.fingerprint)


# -- wrong use -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"top_k": 0}, {"top_k": True}, {"query": " "}, {"query": ""}])
def test_wrong_searches(index: Index, given: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        index.search(**{"query": "the dog", **given})


def test_the_empty_one_of_many_queries_is_named(index: Index) -> None:
    with pytest.raises(SettingsError, match="query 2 of 3 is empty"):
        index.search_all(["the dog", " ", "a cat"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"storage": "int7"}, "did you mean 'int8'"),
        ({"passage_length": 17}, r"up to 16 \(the bundle's max_length\); got passage_length=17"),
        ({"passage_length": 2}, "got passage_length=2"),
        ({"overlap": 14}, "overlap must be from 0 to 13 tokens for passages of 16"),
        ({"overlap": -1}, "overlap must be"),
        ({"rescore": True}, "rescore is for int8 and binary"),
    ],
)
def test_wrong_settings(bundle: Bundle, tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Index.create(tmp_path / "idx", bundle, **given)
    assert not (tmp_path / "idx").exists()


def test_places_that_are_no_index(index: Index, bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no index is there"):
        anaume.open_index(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(SettingsError, match="an index is there"):
        Index.create(index.store.path, bundle)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("a file")
    for name, error in (("folder", "holds something that is no index"), ("file", "is a file")):
        with pytest.raises((SettingsError, DataError), match=error):
            Index.create(tmp_path / name, bundle)
    assert (tmp_path / "folder" / "thesis.txt").read_text() == "years of work"


def test_a_damaged_index_is_one_line_and_can_be_overwritten(index: Index, bundle: Bundle) -> None:
    folder = Path(index.store.path)
    damage: list[Callable[[], object]] = [
        lambda: shutil.rmtree(folder / f"{index.store.passages()[-1]}.lance"),
        lambda: [file.write_bytes(b"garbage") for file in (folder / "current.lance" / "data").iterdir()],
        lambda: [file.write_bytes(b"") for file in folder.glob("passages_*.lance/_versions/*")],
    ]
    for break_it in damage:
        break_it()
        with pytest.raises(DataError, match=r"files of the index are missing or damaged: .*--overwrite") as caught:
            anaume.open_index(folder, bundle)
        assert ".rs:" not in str(caught.value)
        new = Index.create(folder, bundle, overwrite=True)
        assert (new.add(ROWS).documents, len(new)) == (4, 4)
        assert len(new.store.names()) == 2


def test_a_query_that_is_cut_is_told(index: Index) -> None:
    with pytest.warns(AnaumeWarning, match=r"1 of 2 queries were longer than 16 tokens, .* [0-9]+% of them: ask"):
        index.search_all(["the dog", "the dog is cute " * 9])


def test_overwriting_leaves_nothing_of_the_old(index: Index, bundle: Bundle) -> None:
    new = Index.create(index.store.path, bundle, overwrite=True)
    assert len(new) == 0
    assert new.store.names() == ["current", "passages_2"]
