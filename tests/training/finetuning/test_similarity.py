"""Training for similarity: cached gradients, copies in a batch, exact resume, what the bundle keeps."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.config import EmbeddingConfig
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.model import Bert
from anaume.tasks.similarity import Similarity
from anaume.training.finetuning.example_work import ExampleLoss, ExampleWork
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_labels import texts, write_json, write_table
from tiny_models import tiny_bert
from tiny_runs import metrics, tiny_bundle
from tiny_similar import pairs, similar_settings, tiny_similarity, write_scored
from tiny_tuned import tuned_differ

SCORED = [
    SimilarityExample(text=a, positives=(b,), label=float(number % 4), place=f"made: row {number}")
    for number, (a, b) in enumerate(zip(texts(16), texts(16, 5), strict=True), 1)
]


SHORT = ("run.steps=2", "run.evaluations=1")
"""Of runs whose weights don't matter."""


def work_of(tmp_path: Path, task: Similarity, rows: list[SimilarityExample], micro: int) -> tuple[ExampleWork, Bert]:
    model = tiny_bert({task.kind: task.head}, vocab_size=len(VOCAB)).train()
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
    return work, model


def gradients(work: ExampleWork, model: Bert) -> tuple[float, dict[str, torch.Tensor], int]:
    targets = work.targets(list(range(len(work.features))), 0, 0.0)
    model.zero_grad()
    torch.manual_seed(3)
    total, count = torch.zeros(1), 0
    for part in work.parts(targets):
        loss, sums = work.loss(part, targets.counts())
        loss.backward()
        total, count = total + sums, count + 1
    found = {name: own.grad.clone() for name, own in model.named_parameters() if own.grad is not None}
    return work.metrics(total, targets.counts())["loss"], found, count


OBJECTIVES: dict[str, tuple[list[SimilarityExample], dict[str, Any]]] = {
    "in-batch": (pairs(16), {"dimensions": (4, 16)}),
    "simcse": ([SimilarityExample(text=text) for text in texts(16)], {}),
    "tsdae": ([SimilarityExample(text=text) for text in texts(16)], {}),
    "cosent": (SCORED, {}),
    "angle": (SCORED, {}),
    "cosine": (SCORED, {}),
    "softmax": (
        [SimilarityExample(text=one.text, positives=one.positives, label=str(one.label)) for one in SCORED],
        {},
    ),
    "triplet": ([dataclasses.replace(one, negatives=("open",)) for one in pairs(16)], {"margin": 3.0}),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_parts_of_any_size_give_the_gradient_of_the_whole_batch(tmp_path: Path, name: str) -> None:
    rows, options = OBJECTIVES[name]
    task = Similarity.fit(rows, objective=name, **options)
    found = []
    for micro in (8192, 90, 1):
        work, model = work_of(tmp_path, task, rows, micro)
        model.double()  # what differs is then the way of computing, not its rounding
        found.append(gradients(work, model))
    assert [found[0][2], found[2][2]] == [1, 16]
    assert 1 < found[1][2] < 16
    largest = max(float(gradient.abs().max()) for gradient in found[0][1].values())
    assert largest > 1e-3
    for loss, own, _ in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        assert own.keys() == found[0][1].keys()
        for key, gradient in own.items():
            assert float((gradient - found[0][1][key]).abs().max()) <= 1e-6, key


def test_cached_parts_are_read_twice_under_the_same_dropout(tmp_path: Path) -> None:
    rows = pairs(12)
    task = Similarity.fit(rows, objective="in-batch")
    work, model = work_of(tmp_path, task, rows, 60)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    targets = work.targets(list(range(12)), 0, 0.0)
    torch.manual_seed(3)
    assert isinstance(work.loss, ExampleLoss)
    # Uncached, in one graph: the parts are read in the same order, so dropout draws the same.
    logits = torch.cat([work.loss.logits(part) for part in targets.parts])
    from anaume.training.finetuning.batch_loss import whole_batch

    whole = whole_batch(work.features, targets.units, work.device)
    loss = task.loss(logits, whole, targets.divisor)
    model.zero_grad()
    loss.backward()
    wanted = {name: own.grad.clone() for name, own in model.named_parameters() if own.grad is not None}
    told, found, count = gradients(work, model)
    assert count > 2
    assert told == pytest.approx(loss.item(), rel=1e-6)
    for name, gradient in found.items():
        assert float((gradient - wanted[name]).abs().max()) <= 1e-6, name


@pytest.mark.parametrize("prompts", [("", ""), ("the ", "a ")])
def test_a_copy_of_a_positive_is_no_negative(prompts: tuple[str, str]) -> None:
    """Neither another row's copy of it, nor another positive of the same query, nor the query itself."""

    def loss(rows: list[SimilarityExample], train: list[SimilarityExample] | None = None) -> float:
        task = Similarity.fit(train or rows, objective="in-batch", prompts=prompts)
        features = task.features(rows, tiny_tokenizer(), 40, learn=True)
        model = tiny_bert({task.kind: task.head}, vocab_size=len(VOCAB)).eval()
        work, _ = work_of(Path(), task, rows, 8192)
        work.loss = ExampleLoss(model, task)
        targets = work.targets(list(range(len(features))), 0, 0.0)
        with torch.no_grad():
            found: tuple[torch.Tensor, torch.Tensor] = work.loss(targets.parts[0], targets.counts())
        return float(found[0])

    def row(text: str, *positives: str) -> SimilarityExample:
        return SimilarityExample(text=text, positives=positives)

    assert loss([row("dog", "cat"), row("a dog", "cat")]) == 0.0
    assert loss([row("dog", "cat"), row("dog", "my cat")]) == 0.0
    assert loss([row("dog", "cat"), row("cat", "dog")]) == 0.0
    # "river" is a positive of "dog" in a row that is not in the batch.
    batch = [row("dog", "cat"), row("bank", "river")]
    alone = loss(batch)
    assert 0.0 < loss(batch, [*batch, row("dog", "river")]) < alone


def test_it_learns_and_what_it_learned_opens(tmp_path: Path) -> None:
    many = write_scored(tmp_path / "many.tsv", 300)
    learning = ("run.steps=80", "run.evaluations=2", "optimizer.learning_rate=0.005", "task.objective=cosine")
    report = tiny_similarity(tmp_path, "m", *learning, train=many)
    assert (report.task, report.metric, report.dev_from) == ("similarity", "spearman", "file")
    first = next(row for row in metrics(report.folder / "seed-0") if "dev_loss" in row)
    assert first["step"] == 0
    assert report.spread is not None
    assert report.spread.mean > first["dev_spearman"] + 0.2
    bundle = anaume.load(report.folder, device="cpu")
    assert (bundle.embedding.pooling, bundle.embedding.normalize, bundle.embedding.similarity) == (
        "mean",
        True,
        "cosine",
    )
    assert bundle.model.head_configs == {}
    stage = bundle.parts.record.stages[-1]
    assert stage.objectives == ("similarity",)
    best = report.seeds[report.best_seed or 0]
    assert stage.scores["spearman"] == best.scores["spearman"]
    from scipy.stats import spearmanr

    rows = [line.split("\t") for line in (tmp_path / "scored-dev.tsv").read_text().splitlines()[1:]]
    one, other = (bundle.embed([row[side] for row in rows]) for side in (0, 1))
    cosines = (one * other).sum(axis=1)
    assert spearmanr(cosines, [float(row[2]) for row in rows])[0] == pytest.approx(best.scores["spearman"], abs=1e-6)


@pytest.mark.parametrize("objective", ["cosent", "tsdae", pytest.param("softmax", marks=pytest.mark.slow)])
def test_stopped_it_goes_on_bit_for_bit(tmp_path: Path, objective: str) -> None:
    """With dropout, a batch in several parts, and for softmax a classifier that only the run has."""
    whole, given = tmp_path / "whole", ["model.dropout=0.2", "run.micro_tokens=60", f"task.objective={objective}"]
    given += ["run.steps=6", "run.evaluations=2"]
    other: dict[str, Any] = {}
    if objective == "tsdae":
        (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts(20)))
        other = {"train": tmp_path / "texts.txt"}
    if objective == "softmax":
        rows = [(one.text, one.positives[0], f"c{one.label:g}") for one in SCORED]
        other = {
            name: write_table(tmp_path / f"{name}.tsv", rows, "premise", "hypothesis", "label")
            for name in ("train", "dev")
        }
    whole.mkdir()
    tiny_similarity(whole, "m", *given, **other)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:

        def report(seed: int, row: dict[str, Any]) -> None:
            if row["step"] == 3 and "loss" in row:
                os.kill(os.getpid(), signal.SIGINT)

        assert not tiny_similarity(tmp_path, "m", *given, report=report, **other).finished
    finally:
        signal.signal(signal.SIGINT, before)
    assert tiny_similarity(tmp_path, "m", *given, **other).finished
    assert tuned_differ(tmp_path / "m", whole / "m") == []


def test_pairs_are_judged_by_finding_positives_and_by_scores_where_dev_has_them(tmp_path: Path) -> None:
    rows = [{"query": one.text, "positive": one.positives[0]} for one in pairs(24)]
    train = write_json(tmp_path / "pairs.jsonl", rows)
    report = tiny_similarity(tmp_path, "m", *SHORT, train=train, dev=None)
    assert (report.metric, report.dev_from, report.dev_examples) == ("mrr@10", "split", 2)
    assert set(report.seeds[0].scores) >= {"ndcg@10", "mrr@10", "recall@1", "recall@10", "map@100"}
    scored = tiny_similarity(tmp_path, "m2", *SHORT, "task.dimensions=[4,16]", train=train)
    assert scored.metric == "spearman"
    assert {"spearman@4d", "spearman@16d"} <= set(scored.seeds[0].scores)


def test_single_texts_have_no_score(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts(20)))
    report = tiny_similarity(tmp_path, "m", *SHORT, train=tmp_path / "texts.txt", dev=None)
    assert (report.dev_from, report.train_examples, report.spread) == ("none", 20, None)
    judged = tiny_similarity(tmp_path, "m2", *SHORT, train=tmp_path / "texts.txt")
    assert judged.metric == "spearman"
    assert judged.spread is not None


def test_prompts_pooling_and_normalisation_are_the_bundles(tmp_path: Path) -> None:
    embedding = EmbeddingConfig(
        pooling="cls", normalize=False, max_length=30, prompts={"query": "q : ", "passage": "the "}
    )
    start = tiny_bundle().with_embedding(embedding)
    rows = [{"query": one.text, "positive": one.positives[0]} for one in pairs(12)]
    train = write_json(tmp_path / "pairs.jsonl", rows)
    report = tiny_similarity(tmp_path, "m", *SHORT, train=train, dev=train, bundle=start)
    made = anaume.load(report.folder, device="cpu")
    assert made.embedding == embedding
    # The training's own score is that of vectors made with the prompts.
    queries, passages = (
        made.embed([row["query"] for row in rows], as_="query"),
        made.embed([row["positive"] for row in rows], as_="passage"),
    )
    ranks = (anaume.similarity(queries, passages) > np.diag(anaume.similarity(queries, passages))[:, None]).sum(axis=1)
    assert report.seeds[0].scores["recall@1"] == pytest.approx(float((ranks == 0).mean()))
    bare = tiny_bundle().with_embedding(
        EmbeddingConfig(pooling="mean", prompts={"query": "q"}, include_prompt=False, max_length=40)
    )
    with pytest.raises(SettingsError, match="leaves its prompts out of the pooling"):
        tiny_similarity(tmp_path, "m3", train=train, dev=train, bundle=bare)


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        (
            ["task.objective=in-batch"],
            r"scored.tsv: row 2: the pair has the label .*; in-batch takes every pair as alike",
        ),
        (["task.objective=softmax"], "row 2: softmax needs the class of each pair"),
        (["task.objective=triplet"], "row 2: triplet needs a negative a row"),
        (["task.objective=margin-mse"], "row 2: margin-mse needs a negative a row"),
        (["task.objective=simcse"], "row 2: simcse learns from single texts, and this is a pair"),
        (["task.objective=cosentt"], r"there is no objective 'cosentt' \(did you mean 'cosent'\?\)"),
        (["task.score_range=[0,3]"], "task.score_range is 0 to 3; the scores go from 0 to 5"),
        (["task.dimensions=[4,99]"], "task.dimensions has 99; the bundle's vectors have 16"),
        (["task.metric=f1"], "task.metric must be one of spearman, pearson"),
        (["model.frozen=encoder"], "model.frozen=encoder leaves similarity nothing to train"),
        (["task.stride=3"], "task.stride means nothing to similarity"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, assignments: list[str], said: str) -> None:
    with pytest.raises((DataError, SettingsError), match=said):
        tiny_similarity(tmp_path, "m", *assignments)
