"""Words and vectors together, a cross-encoder over them, and codes in the place of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.bundle import Bundle
from anaume.search import Index, fuse_ranks
from anaume.search.quality import VectorSample, measure_codes
from anaume.search.record import IndexRecord
from anaume.search.table import Passages
from anaume.search.vectors import eight_bits, kept

pytestmark = pytest.mark.filterwarnings("ignore:[0-9.]+% of the pieces", "ignore:the tokenizer strips")

ROWS: list[dict[str, Any]] = [
    {"id": "en", "text": "The runners are running past the river."},
    {"id": "code", "text": "error E-4711 in pump P7"},
    {"id": "ja", "text": "東京都に住む田中さんは猫が好きです。"},
    {"id": "long", "text": "インターナショナルコミュニケーションズの会社"},
    {"id": "other", "text": "the dog is cute"},
]


@pytest.fixture
def index(bundle: Bundle, tmp_path: Path) -> Index:
    wide = bundle.with_embedding(replace(bundle.embedding, max_length=32))
    made = Index.create(tmp_path / "idx", wide)
    made.add(ROWS)
    return made


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("東京", "ja"),
        ("猫", "ja"),
        ("run", "en"),
        ("dogs", "other"),  # some language has it among its stop words
        ("P7", "code"),
        ("E-4711", "code"),
        ("会社", "long"),
        ("インターナショナルコミュニケーションズ", "long"),
        ('"pump" AND (', "code"),
    ],
)
def test_words_are_found_in_any_language(index: Index, query: str, found: str) -> None:
    hits = index.search(query, hybrid=True)
    assert [hit.id for hit in hits if "words" in hit.scores] == [found]
    assert {hit.id for hit in hits} == {row["id"] for row in ROWS}  # vectors find the others


def test_half_a_character_in_a_query_is_read_as_in_a_document(index: Index) -> None:
    hits = index.search("river \ud83d", hybrid=True)
    assert [hit.id for hit in hits if "words" in hit.scores] == ["en"]
    assert index.search("river \ud83d", where="id = 'en'")[0].id == "en"


def test_a_hybrid_score_is_the_sum_of_reciprocal_ranks(index: Index) -> None:
    dense = [hit.id for hit in index.search("river running", top_k=9)]
    for hit in index.search("river running", hybrid=True):
        expected = 1 / (61 + dense.index(hit.id)) + (1 / 61 if hit.id == "en" else 0)
        assert hit.score == hit.scores["fused"] == pytest.approx(expected)
        assert "vector" in hit.scores


def test_words_added_later_are_found_before_they_are_indexed(index: Index) -> None:
    index.add([{"id": "late", "text": "zebra"}])
    assert [hit.id for hit in index.search("zebra", hybrid=True) if "words" in hit.scores] == ["late"]
    assert index.stats().waiting == 1
    hits = index.search("zebra", hybrid=True, where="id != 'late'")
    assert not [hit for hit in hits if "words" in hit.scores]


def test_hybrid_on_an_empty_index(bundle: Bundle, tmp_path: Path) -> None:
    assert Index.create(tmp_path / "idx", bundle).search("dog", hybrid=True) == []


def test_fusion_of_rankings_that_share_nothing_keeps_both() -> None:
    assert fuse_ranks([], ["a"], ["b", "a"]) == {"a": 1 / 61 + 1 / 62, "b": 1 / 61}


@dataclass
class Shortest:
    """Orders passages by their length, the shortest first."""

    seen: list[str]

    def rank(self, query: str, passages: Sequence[str], /) -> list[Any]:
        self.seen += [query, *passages]
        scored = [_Ranked(place, -float(len(passage))) for place, passage in enumerate(passages)]
        return sorted(scored, key=lambda one: -one.score)


@dataclass(frozen=True)
class _Ranked:
    index: int
    score: float


@pytest.mark.parametrize("hybrid", [False, True])
def test_reranking_orders_what_was_found(index: Index, hybrid: bool) -> None:
    ranker = Shortest([])
    hits = index.search("the river", top_k=2, rerank=ranker, hybrid=hybrid)
    assert [hit.id for hit in hits] == ["other", "ja"]
    assert [hit.score for hit in hits] == [hit.scores["rerank"] for hit in hits] == [-15.0, -18.0]
    assert "vector" in hits[0].scores
    assert (ranker.seen[0], len(ranker.seen)) == ("the river", 6)  # it reads all that was found, not two


# -- codes ----------------------------------------------------------------------------------------------------------

WORDS = ["dog", "cat", "bank", "river", "money", "man", "old", "cute"]
TEXTS = [f"the {one} {two}" for one in WORDS for two in WORDS]


def built(bundle: Bundle, folder: Path, **settings: Any) -> Index:
    index = Index.create(folder, bundle, **settings)
    index.add([{"id": number, "text": text, "n": number} for number, text in enumerate(TEXTS)])
    return index


@pytest.mark.parametrize("storage", ["int8", "binary"])
@pytest.mark.parametrize("rescore", [False, True])
def test_codes_find_nearly_what_vectors_find(bundle: Bundle, tmp_path: Path, storage: Any, rescore: bool) -> None:
    exact = built(bundle, tmp_path / "exact").search("the old dog", top_k=10)
    index = built(bundle, tmp_path / "codes", storage=storage, rescore=rescore)
    assert ("vector" in index.table().schema.names) is rescore
    hits = index.search("the old dog", top_k=10)
    shared = {hit.id for hit in hits} & {hit.id for hit in exact}
    assert len(hits) == 10
    assert len(shared) >= (10 if rescore else 9 if storage == "int8" else 2)
    scores = {hit.id: hit.score for hit in exact}
    tolerance = 1e-6 if rescore else 0.02 if storage == "int8" else 1.0
    assert all(hit.score == pytest.approx(scores.get(hit.id, hit.score), abs=tolerance) for hit in hits)
    assert {hit.metadata["n"] % 2 for hit in index.search("the old dog", where="n % 2 = 1")} == {1}
    assert index.search("dog", where="n < 0") == []
    index.update([{"id": 3, "text": "the old dog"}])
    index.delete([4])
    best = index.search("the old dog", top_k=len(TEXTS))
    assert len(best) == len(TEXTS) - 1
    assert next(hit.text for hit in best if hit.id == "3") == "the old dog"


def test_eight_bits_keep_a_vector_to_half_a_step() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 32)).astype(np.float32)
    vectors[7] = 0
    codes, scale = eight_bits(vectors)
    assert codes.dtype == np.int8
    assert np.abs(codes.astype(int)).max() == 127
    assert (np.abs(codes * scale[:, None] - vectors) <= scale[:, None] * 0.5001).all()


def test_vectors_of_any_size_are_kept_at_length_one(bundle: Bundle) -> None:
    record = IndexRecord.of(bundle, bundle.fingerprint)
    vectors = np.ones((4, 16), dtype=np.float32) * np.array([[1e-30], [1e30], [0], [3]], dtype=np.float32)
    assert np.linalg.norm(kept(vectors, record), axis=1) == pytest.approx([1, 1, 0, 1])


@pytest.mark.parametrize(("storage", "least"), [("int8", 0.9), ("binary", 0.2)])
def test_the_loss_of_codes_is_measured(bundle: Bundle, storage: Any, least: float) -> None:
    record = IndexRecord.of(bundle, bundle.fingerprint, storage=storage)
    sample = VectorSample()
    vectors = kept(np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32), record)
    sample.take([Passages(document=None, spans=[], vectors=vectors, coverage=np.ones(400))])  # type: ignore[arg-type]
    loss = measure_codes(sample, record)
    assert loss is not None
    assert least <= loss.recall <= loss.rescored <= 1.0
    assert loss.recall < 1.0
    assert loss.passages == 400
    assert measure_codes(VectorSample(), record) is None
    assert measure_codes(sample, IndexRecord.of(bundle, bundle.fingerprint)) is None
