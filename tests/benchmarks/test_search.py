"""The benchmark of search: rankings of Cranfield's ways, many vectors and their truth, the page of what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.data.judged import RetrievalSet
from benchmarks import finetune_made, jobs, kept, rates, search, search_cranfield, search_million
from benchmarks.jobs import Job, JobStudy
from benchmarks.rates import Rates
from benchmarks.search_cranfield import WAYS, Way
from benchmarks.search_engines import WAYS as ENGINES
from benchmarks.search_engines import ask, build, tune
from benchmarks.search_vectors import NEAREST, VectorSet

DOCUMENTS = {"1": "the cat is lovely", "2": "a ship in Oslo", "3": "the garden and the river are dull", "4": ""}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept, rates, search):
        monkeypatch.setattr(module, "machine", lambda: "a machine")
    monkeypatch.setattr(jobs, "circumstances", lambda: {"machine": "a machine", "date": "2030-01-02", "commit": "abc"})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    given = RetrievalSet(DOCUMENTS, {"a": "cat", "b": "river"}, {"a": {"1": 3}, "b": {"3": 1}}, 0)
    monkeypatch.setattr(search_cranfield, "retrieval_set", lambda name: given)


def study_of(tmp_path: Path, *rows: Job) -> JobStudy:
    return JobStudy("search", rows, rates=Rates(tmp_path / "r"), runs=tmp_path / "runs", kept=tmp_path / "rows")


@pytest.mark.usefixtures("small")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["dense", "words", "hybrid"])
def test_a_way_of_searching_is_scored_query_by_query(how: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    finetune_made.bundle().save(tmp_path / "bundle")
    line = study_of(tmp_path, row := Way(name="a", how=how, bundle=str(tmp_path / "bundle"))).run(row, threads=1)
    assert line is not None
    assert line["scores"]["ndcg@10"] == pytest.approx(np.mean(line["queries"]))
    if how == "words":
        assert line["queries"] == [1.0, 1.0]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", ["bm25s", "bm25s-stemmed"])
def test_words_are_found_by_bm25s(how: str, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    if how == "bm25s-stemmed":
        pytest.importorskip("Stemmer")
    line = study_of(tmp_path, row := Way(name="a", how=how)).run(row)
    assert line is not None
    assert line["queries"] == [1.0, 1.0]


def test_a_document_stands_where_its_best_passage_does() -> None:
    class Hit:
        def __init__(self, name: str) -> None:
            self.id = name

    assert search_cranfield.of_documents(map(Hit, "abacb")) == ["a", "b", "c"]  # type: ignore[arg-type]


# -- many vectors -----------------------------------------------------------------------------------------------------


def test_copies_are_near_their_originals_and_the_truth_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    unit = [own / np.linalg.norm(own, axis=1, keepdims=True) for own in draw.normal(size=(2, 40, 16))]
    source, asked = (own.astype(np.float32) for own in unit)
    monkeypatch.setattr(VectorSet, "_source", lambda self: (source, asked))
    monkeypatch.setattr("benchmarks.search_vectors._CHUNK", 30)
    given = VectorSet(count=100, folder=tmp_path)
    vectors = given.vectors()
    np.testing.assert_allclose(vectors[:40], source, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    cosines = (vectors[40:80] * source).sum(axis=1)
    assert 0.7 < cosines.mean() < 0.95
    assert given.real == 40
    scores = asked @ vectors.T
    expected = -np.sort(-scores, axis=1)[:, :NEAREST]
    np.testing.assert_allclose(np.take_along_axis(scores, given.truth(), 1), expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ENGINES)
def test_every_way_finds_the_nearest_of_few_vectors(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("search_engines", "search_vectors"):
        monkeypatch.setattr(f"benchmarks.{module}.TUNING", 20)
    monkeypatch.setattr("benchmarks.search_vectors.ASKED", 30)
    pytest.importorskip({"anaume": "lancedb"}.get(way.split("-")[0], way.split("-")[0]))
    given = VectorSet(count=300, made=True, folder=tmp_path)
    kind, name = ENGINES[way]
    one = kind(given, given.own / name)
    told = build(one)
    assert told["disk"] > 300 * 16 * 2
    tuned = tune(one)
    assert tuned["setting"] is None or tuned["tuned_recall"] >= 0.97
    found = ask(one, tuned["setting"])
    assert found["recall"] >= 0.9
    assert found["peak"] >= found["before"] > 0


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_of_nothing_says_that_nothing_was_run(tmp_path: Path) -> None:
    rows = [*search_cranfield.rows(), *search_million.rows()]
    page = search.make_page(study_of(tmp_path, *rows))
    assert page.count("not run yet") >= len(WAYS) + 2 * len(ENGINES)
    assert "recall@10 at least 0.95: not run yet." in page


def test_numbers_stand_where_they_belong(tmp_path: Path) -> None:
    rows = [*search_cranfield.rows(), *search_million.rows([5_000])]
    study = study_of(tmp_path, *rows)
    for row in rows:
        line: dict[str, Any] = {
            "scores": {},
            "examples": 9,
            "real": 400,
            "processor_seconds": 70.0,
            "peak": 3e9,
            "disk": 2e9,
        }
        if isinstance(row, Way):
            better = 0.1 if row.how == "hybrid" else 0.0
            line |= {"queries": [0.3 + better, 0.5 + better, 0.4 + better], "documents": 1400}
        if isinstance(row, search_million.Asked):
            told = {"rate": 80.0, "spread": 0.1, "p50": 0.011, "p95": 0.025, "recall": 0.9612, "peak": 1e9,
                    "before": 5e8, "setting": None}  # fmt: skip
            line |= {"ways": dict.fromkeys(row.ways, told)}
        circumstances = {"machine": "a machine", "date": "2030-01-02", "seconds": 9.0, "threads": 1}
        study.kept.put({"row": row.definition, **line, **circumstances})
    page = search.make_page(study)
    assert "| dense | 0.400 | 0.300 to 0.500 |" in page
    assert "| hybrid (dense and words of the index) - dense | +0.100 | +0.100 to +0.100 | better |" in page
    assert "| dense - BM25, `bm25s` | +0.000 | +0.000 to +0.000 | can't be told apart |" in page
    assert "recall@10 at least 0.95: 0.961, met, at 80.0 queries a second, p95 25.0 ms, peak memory 1.00 GB." in page
