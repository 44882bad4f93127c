"""A cross-encoder trained, used to rank, opened elsewhere, and taken as a teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anaume
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.jobs.evaluate import evaluate_file
from anaume.training.finetuning.finetune import FinetuneReport, finetune
from anaume.training.finetuning.teaching import taught
from tiny_labels import class_of, texts, tuning_settings, write_json, write_table
from tiny_runs import tiny_bundle
from tiny_similar import tiny_similarity


def write_pairs(path: Path, count: int, seed: int = 0) -> Path:
    """Write pairs: 1 where both speak of animals or both of places."""
    one, other = texts(count, seed), texts(count, seed + 100)
    rows = [(a, b, int(class_of(a) == class_of(b))) for a, b in zip(one, other, strict=True)]
    return write_table(path, rows, "query", "positive", "label")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> FinetuneReport:
    """A tiny cross-encoder; only read."""
    folder = tmp_path_factory.mktemp("ranking")
    return finetune(
        "ranking",
        write_pairs(folder / "train.tsv", 200),
        folder / "m",
        bundle=tiny_bundle("mlm", pooler=True),
        dev=write_pairs(folder / "dev.tsv", 60, 7),
        settings=tuning_settings("run.steps=60", "run.evaluations=1", "optimizer.learning_rate=0.01"),
        seeds=1,
        device="cpu",
    )


def test_it_learns_and_ranks(trained: FinetuneReport) -> None:
    assert (trained.metric, trained.dev_from) == ("average_precision", "file")
    bundle = anaume.load(trained.folder, device="cpu")
    assert bundle.task.name == "ranking"
    passages = ["the bank of the river", "my dog", "closed"]
    found = bundle.rank("cute cat", passages)
    assert sorted(one.index for one in found) == [0, 1, 2]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[:2] == bundle.rank("cute cat", passages, top_k=2)
    assert bundle.rank("cute cat", []) == []
    (pair,) = bundle.predict([("cute cat", passages[found[0].index])])
    assert pair.scores[0] == pytest.approx(found[0].score, abs=1e-6)
    told = evaluate_file(bundle, trained.folder.parent / "dev.tsv").scores
    assert told["average_precision"] == pytest.approx(trained.seeds[0].scores["average_precision"], abs=1e-6)
    assert told["average_precision"] > 0.6


def test_transformers_and_sentence_transformers_give_the_same_scores(trained: FinetuneReport) -> None:
    transformers = pytest.importorskip("transformers")
    module = pytest.importorskip("sentence_transformers")
    bundle = anaume.load(trained.folder, device="cpu")
    passages = texts(8, 9)
    here = {one.index: one.score for one in bundle.rank("my dog", passages)}
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.bundle)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(trained.bundle).eval()
    assert model.config.num_labels == 1
    given = tokenizer(["my dog"] * 8, passages, padding=True, return_tensors="pt")
    there = model(**given).logits[:, 0].detach().numpy()
    np.testing.assert_allclose([here[number] for number in range(8)], there, atol=1e-5)
    cross = module.CrossEncoder(str(trained.bundle), device="cpu")
    order = [one["corpus_id"] for one in cross.rank("my dog", passages)]
    assert order == [one.index for one in bundle.rank("my dog", passages)]


def test_other_bundles_and_passages_are_refused(trained: FinetuneReport, tuned_dir: Path) -> None:
    with pytest.raises(SettingsError, match=r"ranking needs a model with one score .* trained for classification"):
        anaume.load(tuned_dir, device="cpu").rank("a", ["b"])
    bundle = anaume.load(trained.folder, device="cpu")
    with pytest.raises(SettingsError, match="passages must be a list of texts; got one str"):
        bundle.rank("a", "b")
    with pytest.raises(DataError, match="passage 1 must be a text; got int 3"):
        bundle.rank("a", ["b", 3])  # type: ignore[list-item]


def test_it_teaches_margins(trained: FinetuneReport, tmp_path: Path) -> None:
    teacher = anaume.load(trained.folder, device="cpu")
    rows = [{"query": text, "positive": "my dog", "negatives": ["the river", "bank"]} for text in texts(20)]
    example = SimilarityExample(text=str(rows[0]["query"]), positives=("my dog",), negatives=("the river", "bank"))
    (one,) = taught([example], teacher)
    assert isinstance(one, SimilarityExample)
    scores = [teacher.rank(one.text, [text])[0].score for text in ("my dog", "the river", "bank")]
    assert one.label == pytest.approx((scores[0] - scores[1], scores[0] - scores[2]), abs=1e-4)
    train = write_json(tmp_path / "t.jsonl", rows)
    report = tiny_similarity(
        tmp_path, "m", "run.steps=2", "run.evaluations=1", f"task.teacher={trained.folder}", train=train, dev=train
    )
    assert report.metric == "mrr@10"
    made = anaume.load(report.folder, device="cpu")
    assert (made.embedding.similarity, made.embedding.normalize) == ("dot", False)
    with pytest.raises(DataError, match="a teacher compares one positive with negatives"):
        taught([SimilarityExample(text="a", positives=("b",), place="made: row 1")], teacher)
