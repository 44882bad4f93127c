"""What vectors are worth: against the evaluators of sentence-transformers on the same bundle, and from the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.evaluate_vectors import evaluate_vectors
from anaume.tasks.vector_scores import pair_scores
from tiny_labels import class_of, texts, write_json, write_table
from tiny_runs import tiny_bundle
from tiny_similar import write_scored


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a pooling; only read."""
    folder = tmp_path_factory.mktemp("vectors") / "b"
    tiny_bundle().with_embedding(EmbeddingConfig(pooling="mean", normalize=True, max_length=40)).save(folder)
    return folder


@pytest.fixture(scope="module")
def bundle(saved: Path) -> Bundle:
    return anaume.load(saved, device="cpu")


@pytest.fixture(scope="module")
def twin(saved: Path) -> Any:
    module = pytest.importorskip("sentence_transformers")
    return module.SentenceTransformer(str(saved), device="cpu")


def test_sts_as_sentence_transformers_has_it(bundle: Bundle, twin: Any, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    found = evaluate_vectors(bundle, write_scored(tmp_path / "s.tsv", 60), "sts")
    rows = [line.split("\t") for line in (tmp_path / "s.tsv").read_text().splitlines()[1:]]
    judge = EmbeddingSimilarityEvaluator(
        [row[0] for row in rows], [row[1] for row in rows], [float(row[2]) for row in rows], write_csv=False
    )
    there = judge(twin)
    assert found.scores["spearman"] == pytest.approx(there["spearman_cosine"], abs=1e-6)
    assert found.scores["pearson"] == pytest.approx(there["pearson_cosine"], abs=1e-6)
    assert (found.task, found.metric, found.examples, found.cut) == ("sts", "spearman", 60, 0)
    span = found.intervals["spearman"]
    assert span.low < span.mean == found.scores["spearman"] < span.high
    cut = evaluate_vectors(bundle, tmp_path / "s.tsv", "sts", dimensions=4)
    u, v = (bundle.embed([row[side] for row in rows])[:, :4] for side in (0, 1))
    from scipy.stats import spearmanr

    wanted = spearmanr(np.diag(anaume.similarity(u, v)), [float(row[2]) for row in rows])[0]
    assert cut.scores["spearman"] == pytest.approx(wanted, abs=1e-6)


def test_retrieval_as_sentence_transformers_has_it(bundle: Bundle, twin: Any, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    documents = {f"d{number}": text for number, text in enumerate(dict.fromkeys(texts(150, 1)))}
    queries = {f"q{number}": text for number, text in enumerate(texts(12, 2))}
    draw = np.random.default_rng(0)
    relevant = {query: set(draw.choice(list(documents), 3, replace=False).tolist()) for query in queries}
    (tmp_path / "qrels").mkdir()
    write_json(tmp_path / "corpus.jsonl", [{"_id": own, "text": text} for own, text in documents.items()])
    write_json(tmp_path / "queries.jsonl", [{"_id": own, "text": text} for own, text in queries.items()])
    lines = [f"{query}\t{document}\t1\n" for query, own in relevant.items() for document in sorted(own)]
    (tmp_path / "qrels/test.tsv").write_text("".join(lines))
    found = evaluate_vectors(bundle, tmp_path, "retrieval")
    judge = InformationRetrievalEvaluator(
        queries, documents, relevant, precision_recall_at_k=[1, 10, 100], ndcg_at_k=[10], mrr_at_k=[10], map_at_k=[100]
    )
    there = judge(twin)
    for name, value in found.scores.items():
        # Of texts whose cosines differ in the last digit, either may be first.
        assert value == pytest.approx(there[f"cosine_{name}"], abs=1e-3), name
    assert (found.documents, found.examples, found.left_out) == (len(documents), 12, 0)
    with pytest.raises(SettingsError, match="a retrieval set has its own files"):
        evaluate_vectors(bundle, tmp_path, "retrieval", query="text")


def test_pairs_as_sentence_transformers_has_it(bundle: Bundle, twin: Any, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator

    one, other = texts(50, 3), texts(50, 4)
    labels = [int(class_of(a) == class_of(b)) for a, b in zip(one, other, strict=True)]
    path = write_table(tmp_path / "p.tsv", list(zip(one, other, labels, strict=True)), "text1", "text2", "label")
    found = evaluate_vectors(bundle, path, "pairs")
    there = BinaryClassificationEvaluator(one, other, labels)(twin)
    assert found.scores["average_precision"] == pytest.approx(there["cosine_ap"], abs=1e-6)
    assert found.scores["accuracy"] == pytest.approx(there["cosine_accuracy"], abs=1e-6)
    assert found.scores["f1"] == pytest.approx(there["cosine_f1"], abs=1e-6)
    assert found.scores["positive"] == "1"
    named = write_table(tmp_path / "n.tsv", [("a", "cat", "x"), ("a", "dog", "y")], "text1", "text2", "label")
    with pytest.raises(SettingsError, match=r"which says that texts are alike \(--positive NAME\); got None of x, y"):
        evaluate_vectors(bundle, named, "pairs")
    assert evaluate_vectors(bundle, named, "pairs", positive="x").scores["positive"] == "x"


def test_the_best_threshold_by_hand() -> None:
    labels = np.array([True, False, True, True, False])
    found = pair_scores(labels, np.array([0.9, 0.8, 0.7, 0.7, 0.1]))
    assert (found["accuracy"], found["accuracy_threshold"]) == (0.8, 0.7)
    assert (found["f1"], found["f1_threshold"]) == (pytest.approx(6 / 7), 0.7)
    none = pair_scores(np.array([False, False, True]), np.array([0.9, 0.8, 0.1]))
    assert none["accuracy"] == pytest.approx(2 / 3)
    assert none["accuracy_threshold"] > 0.9


def test_reranking_among_each_querys_own(bundle: Bundle, tmp_path: Path) -> None:
    rows = [
        {"query": "dog", "positive": ["dog"], "negatives": ["bank", "river"]},  # first: a copy
        {"query": "dog", "positive": ["cat"], "negatives": ["cat ", "dog"]},  # last: of equal ones the negative first
    ]
    found = evaluate_vectors(bundle, write_json(tmp_path / "r.jsonl", rows), "reranking")
    assert found.scores["mrr@10"] == pytest.approx((1 + 1 / 3) / 2)
    assert (found.metric, found.examples) == ("map@100", 2)
    with pytest.raises(DataError, match="row 1: reranking needs a query, its positives and its negatives"):
        evaluate_vectors(bundle, write_json(tmp_path / "b.jsonl", [{"query": "a", "positive": "b"}]), "reranking")


def test_whitened_vectors(bundle: Bundle, tmp_path: Path) -> None:
    path = write_scored(tmp_path / "s.tsv", 60)
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    one, other = (bundle.embed([row[side] for row in rows]) for side in (0, 1))
    x = np.concatenate([one, other]).astype(np.float64)
    values, turned = np.linalg.eigh(np.cov(x.T, bias=True))
    white = (x - x.mean(axis=0)) @ (turned / np.sqrt(values))[:, ::-1][:, :4]
    from scipy.stats import spearmanr

    cosines = np.diag(anaume.similarity(white[:60], white[60:]))
    wanted = spearmanr(cosines, [float(row[2]) for row in rows])[0]
    found = evaluate_vectors(bundle, path, "sts", whiten=True, dimensions=4)
    assert found.scores["spearman"] == pytest.approx(wanted, abs=1e-4)


def test_what_does_not_fit_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    scored = write_scored(tmp_path / "s.tsv", 10)
    with pytest.raises(DataError, match="row 2: pairs needs two texts and their class"):
        evaluate_vectors(bundle, scored, "pairs")
    pairs = write_table(tmp_path / "p.tsv", [("a", "cat")], "query", "positive")
    with pytest.raises(DataError, match="row 2: sts needs two texts and their score"):
        evaluate_vectors(bundle, pairs, "sts")
    with pytest.raises(SettingsError, match=r"vectors aren't judged by 'sst' \(did you mean 'sts'\?\)"):
        evaluate_vectors(bundle, scored, "sst")
    with pytest.raises(SettingsError, match="dimensions must be 1 to 16"):
        evaluate_vectors(bundle, scored, "sts", dimensions=17)


def test_what_the_model_did_not_see_is_said(bundle: Bundle, tmp_path: Path) -> None:
    rows = [("dog " * 60, "cat", 1), ("dog", "cat", 3), ("my dog", "a", 2)]
    path = write_table(tmp_path / "l.tsv", rows, "sentence1", "sentence2", "score")
    with pytest.warns(AnaumeWarning, match="1 of 6 texts were longer than 40 tokens"):
        found = evaluate_vectors(bundle, path, "sts")
    assert found.cut == 1
