"""Late interaction trained, saved, opened; passages ranked, searched and judged by it; what it refuses."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.checks import verify_bundle
from anaume.config import EmbeddingConfig
from anaume.errors import AnaumeWarning, SettingsError
from anaume.jobs.evaluate import evaluate_file
from anaume.jobs.evaluate_vectors import evaluate_vectors
from anaume.tasks.late_interaction import LateInteraction
from anaume.training.finetuning.example_work import ExampleLoss, ExampleWork
from anaume.training.finetuning.finetune import FinetuneReport, finetune
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_labels import write_json
from tiny_models import tiny_bert
from tiny_runs import metrics, tiny_bundle
from tiny_similar import pairs, similar_settings
from tiny_tuned import tuned_differ

WORDS = ["dog", "bank", "open", "cute", "river", "closed", "cat", "銀 行"]
FILLING = ["the", "my", ".", "is"]


def write_found(path: Path, count: int, seed: int = 0) -> Path:
    """Write queries of one word; their passages hold another one, always the same: it has to be learned which."""
    draw, rows = np.random.default_rng(seed), []
    for number in range(count):
        word, other = (WORDS[(number + far) % len(WORDS)] for far in (0, 3))
        texts = [" ".join(map(str, draw.permutation([*FILLING[:3], *own]))) for own in ([other], [], [FILLING[3]])]
        rows.append({"query": f"{word} ?", "positive": texts[0], "negatives": texts[1:]})
    return write_json(path, rows)


def train(folder: Path, out: str, *assignments: str, **other: Any) -> FinetuneReport:
    settings = similar_settings("run.evaluations=1", *assignments)
    given: dict[str, Any] = {"bundle": tiny_bundle("mlm", pooler=True), "dev": folder / "dev.jsonl", **other}
    with pytest.warns(AnaumeWarning, match="no Hugging Face class holds these heads as they are: late-interaction"):
        return finetune(
            "late-interaction", folder / "train.jsonl", folder / out, settings=settings, seeds=1, device="cpu", **given
        )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> FinetuneReport:
    """A tiny bundle of late interaction; only read."""
    folder = tmp_path_factory.mktemp("late")
    write_found(folder / "train.jsonl", 64)
    write_found(folder / "dev.jsonl", 16, seed=7)
    return train(
        folder,
        "m",
        "run.steps=120",
        "optimizer.learning_rate=0.01",
        "task.size=8",
        "task.query_tokens=6",
        "task.scale=4",
        'task.prompts=["q : ", "the "]',
    )


@pytest.fixture(scope="module")
def late(trained: FinetuneReport) -> anaume.Bundle:
    return anaume.load(trained.folder, device="cpu")


def test_it_learns_and_is_saved_whole(trained: FinetuneReport, late: anaume.Bundle) -> None:
    assert (trained.task, trained.metric, trained.dev_from) == ("late-interaction", "mrr@10", "file")
    last = [row["dev_mrr@10"] for row in metrics(trained.folder / "seed-0") if "dev_mrr@10" in row][-1]
    assert last > 0.6  # before the first step: about 0.3
    task = late.task
    assert isinstance(task, LateInteraction)
    assert (task.prompts, task.query_tokens, task.scale) == (("q : ", "the "), 6, 4.0)
    assert late.model.head_configs["late-interaction"].size == 8
    assert late.embedding.pooling is None
    assert not (trained.bundle / "modules.json").exists()
    assert "A vector of 8 numbers a token" in (trained.bundle / "README.md").read_text()
    again = evaluate_file(late, trained.folder.parent / "dev.jsonl").scores
    assert again["mrr@10"] == pytest.approx(trained.seeds[0].scores["mrr@10"], abs=1e-6)


def test_token_vectors_by_the_encoder_and_the_head_alone(late: anaume.Bundle) -> None:
    (query,), (one, other) = late.token_embeddings(["dog"], as_="query"), late.token_embeddings(["cat", "my cat ."])
    assert query.tokens == ("[CLS]", "q", ":", "dog", "[SEP]", "[MASK]")
    assert other.tokens == ("[CLS]", "the", "my", "cat", ".", "[SEP]")
    assert (one.vectors.shape, other.vectors.shape, other.vectors.dtype) == ((4, 8), (6, 8), np.dtype("float32"))
    ids = torch.tensor([[VOCAB.index(token) for token in other.tokens]])
    with torch.no_grad():
        states = late.model(ids, None).last_hidden_state[0] @ late.model.heads["late-interaction"].dense.weight.T
    wanted = states / states.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(other.vectors, wanted.numpy(), atol=1e-6)
    assert late.token_embeddings([]) == []


TEXTS = ["dog", "my cat is cute and the bank is open", "銀 行", "a", "river , river ? bank ."]


@pytest.mark.parametrize("as_", ["query", "passage"])
def test_neighbours_order_and_padding_change_nothing(late: anaume.Bundle, as_: str) -> None:
    together = late.token_embeddings(TEXTS, as_=as_)
    alone = [late.token_embeddings([text], as_=as_)[0] for text in TEXTS]
    turned = late.token_embeddings(TEXTS[::-1], as_=as_)[::-1]
    for a, b, c in zip(together, alone, turned, strict=True):
        np.testing.assert_allclose(a.vectors, b.vectors, atol=1e-5)
        np.testing.assert_allclose(a.vectors, c.vectors, atol=1e-5)


def test_passages_are_ranked_by_max_sim(late: anaume.Bundle) -> None:
    found = late.rank("dog ?", TEXTS)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    query = late.token_embeddings(["dog ?"], as_="query")[0].vectors
    for one in found:
        passage = late.token_embeddings([TEXTS[one.index]])[0].vectors
        assert one.score == pytest.approx(float((query @ passage.T).max(axis=1).sum()), abs=1e-5)
        (alone,) = late.rank("dog ?", [TEXTS[one.index]])
        assert alone.score == pytest.approx(one.score, abs=1e-5)  # whatever else is ranked beside it
    assert late.rank("dog ?", TEXTS, top_k=2) == found[:2]
    assert late.rank("dog ?", []) == []
    (told,) = late.predict([("dog ?", TEXTS)])
    assert [told.scores[one.index] for one in found] == pytest.approx([one.score for one in found], abs=1e-5)
    with pytest.warns(AnaumeWarning, match="1 of 1 texts were longer than 40 tokens and were cut"):
        (cut,) = late.rank("dog ?", ["river " * 60])
    assert cut.coverage == pytest.approx(38 / 61)


def test_retrieval_and_reranking_are_judged_by_it(late: anaume.Bundle, trained: FinetuneReport, tmp_path: Path) -> None:
    rows = [
        {"query": "dog ?", "positive": ["my dog", "dog"], "negatives": ["bank", "river open"]},
        {"query": "river ?", "positive": "the river", "negatives": ["cat", "dog", "closed"]},
    ]
    told = evaluate_vectors(late, write_json(tmp_path / "r.jsonl", rows), "reranking")
    places = [one.index for one in late.rank("river ?", ["the river", "cat", "dog", "closed"])]
    first = [one.index for one in late.rank("dog ?", ["my dog", "dog", "bank", "river open"])]
    wanted = (1 / (1 + places.index(0)) + 1 / (1 + min(first.index(0), first.index(1)))) / 2
    assert told.scores["mrr@10"] == pytest.approx(wanted)
    texts = ["my dog", "dog", "the river", "bank", "cat"]
    write_json(tmp_path / "corpus.jsonl", [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)])
    write_json(tmp_path / "queries.jsonl", [{"_id": f"q{n}", "text": row["query"]} for n, row in enumerate(rows)])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq0\td1\t1\nq1\td2\t1\n")
    found = evaluate_vectors(late, tmp_path, "retrieval")
    orders = [[one.index for one in late.rank(str(row["query"]), texts)] for row in rows]
    wanted = (1 / (1 + min(orders[0].index(0), orders[0].index(1))) + 1 / (1 + orders[1].index(2))) / 2
    assert (found.scores["mrr@10"], found.documents) == (pytest.approx(wanted), 5)
    with pytest.raises(SettingsError, match="it is judged by retrieval and reranking, not by sts"):
        evaluate_vectors(late, tmp_path / "r.jsonl", "sts")
    with pytest.raises(SettingsError, match="dimensions and whiten are of one vector a text"):
        evaluate_vectors(late, tmp_path / "r.jsonl", "reranking", dimensions=2)


def test_no_vector_of_a_text_and_it_is_said_what_to_use(late: anaume.Bundle, tmp_path: Path) -> None:
    for embed in (late.embed, late.embed_report, lambda texts: list(late.embed_stream([texts]))):
        with pytest.raises(SettingsError, match=r"makes a vector a token .* none of a whole text: .* token_embeddings"):
            embed(["a"])
    with pytest.raises(SettingsError, match="for one vector a text train with anaume finetune similarity"):
        anaume.Index.create(tmp_path / "idx", late)
    with pytest.raises(SettingsError, match="makes a vector a token"):
        anaume.export_bundle(late, tmp_path / "static", to="static", texts=TEXTS)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match=r"as_ must be one of query, passage; got 'document'"):
        late.token_embeddings(["a"], as_="document")
    with pytest.raises(SettingsError, match=r"a vector a token needs a bundle trained for it \(anaume finetune late-i"):
        tiny_bundle("regression").token_embeddings(["a"])


@pytest.mark.slow
def test_an_index_is_searched_with_it(late: anaume.Bundle, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    start = tiny_bundle().with_embedding(EmbeddingConfig(pooling="mean", max_length=40))
    index = anaume.Index.create(tmp_path / "idx", start)
    index.add([{"id": str(number), "text": text} for number, text in enumerate(TEXTS)])
    hits = index.search("dog ?", rerank=late)
    ranked = late.rank("dog ?", TEXTS)
    assert [hit.id for hit in hits] == [str(one.index) for one in ranked]
    assert [hit.scores["rerank"] for hit in hits] == pytest.approx([one.score for one in ranked], abs=1e-5)


@pytest.mark.slow
def test_verify_knows_it(late: anaume.Bundle) -> None:
    report = verify_bundle(late, texts=TEXTS)
    assert [row for row in report.rows if row.status == "failed"] == []
    assert sum("a vector a token" in row.what for row in report.rows) == 2


def test_a_second_training_goes_on_with_the_head(late: anaume.Bundle, trained: FinetuneReport) -> None:
    more = train(trained.folder.parent, "more", "run.steps=1", "optimizer.learning_rate=1e-9", bundle=late)
    there = anaume.load(more.folder, device="cpu")
    task = there.task
    assert isinstance(task, LateInteraction)
    assert (task.head.size, task.prompts, task.query_tokens) == (8, ("q : ", "the "), 6)
    one, other = (own.model.heads["late-interaction"].dense.weight for own in (late, there))
    assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_stopped_it_goes_on_bit_for_bit(trained: FinetuneReport, tmp_path: Path) -> None:
    """With dropout, and a batch in several parts."""
    given = ("run.steps=6", "model.dropout=0.2", "run.micro_tokens=60", "task.size=8")
    folder = trained.folder.parent
    assert train(folder, str(tmp_path / "whole"), *given).finished

    def report(seed: int, row: dict[str, Any]) -> None:
        if row["step"] == 3 and "loss" in row:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        files = {"dev": folder / "dev.jsonl", "bundle": tiny_bundle("mlm", pooler=True), "report": report}
        settings = similar_settings("run.evaluations=1", *given)
        first = finetune("late-interaction", folder / "train.jsonl", tmp_path / "m", settings=settings, seeds=1,
                         device="cpu", **files)  # fmt: skip
        assert not first.finished
    finally:
        signal.signal(signal.SIGINT, before)
    assert train(folder, str(tmp_path / "m"), *given).finished
    assert tuned_differ(tmp_path / "m", tmp_path / "whole") == []


@pytest.mark.slow
def test_a_graph_gives_the_same_vectors(late: anaume.Bundle, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    anaume.export_bundle(late, tmp_path / "onnx", to="onnx")
    there = anaume.load(tmp_path / "onnx", device="cpu")
    for one, other in zip(late.token_embeddings(TEXTS), there.token_embeddings(TEXTS), strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-5)


def test_parts_of_any_size_give_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    rows = pairs(12)
    task = LateInteraction.fit(rows, size=4, query_tokens=5)
    found = []
    for micro in (8192, 90, 1):
        model = tiny_bert({task.kind: task.head}, vocab_size=len(VOCAB)).train().double()
        work = ExampleWork(
            settings=similar_settings(f"run.micro_tokens={micro}"),
            task=task,
            features=task.features(rows, tiny_tokenizer(), 40, learn=True),
            loss=ExampleLoss(model, task),
            dev=None,
            folder=tmp_path,
            device=torch.device("cpu"),
            pad_id=0,
        )
        targets, total, count = work.targets(list(range(12)), 0, 0.0), 0.0, 0
        for part in work.parts(targets):
            loss, sums = work.loss(part, targets.counts())
            loss.backward()
            total, count = total + float(sums), count + 1
        gradients = {name: own.grad for name, own in model.named_parameters() if own.grad is not None}
        found.append((total, gradients, count))
    assert found[0][2] == 1
    assert found[2][2] == 12
    for total, gradients, _ in found[1:]:
        assert total == pytest.approx(found[0][0], rel=1e-5)
        for name, gradient in gradients.items():
            assert float((gradient - found[0][1][name]).abs().max()) <= 1e-6, name
