"""A cross-encoder's task: labels, drawn negatives, loss, scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from anaume.config import HeadConfig
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.ranking import Ranking, RankingPrediction
from anaume.tasks.registry import restored_task
from tiny_bundles import tiny_tokenizer

HEAD = HeadConfig(kind="regression")


def row(text: str, *positives: str, worse: tuple[str, ...] = (), label: str | float | None = None) -> SimilarityExample:
    return SimilarityExample(text=text, positives=positives, negatives=worse, label=label, place=f"made: {text}")


def rows_of(task: Ranking, rows: list[SimilarityExample]) -> Features:
    return task.features(rows, tiny_tokenizer(), 40, learn=True)


def labels_of(task: Ranking, rows: list[SimilarityExample]) -> list[float]:
    found = rows_of(task, rows).targets["labels"]
    assert isinstance(found, np.ndarray)
    return [float(label) for label in found]


def test_labels_become_zero_to_one() -> None:
    binary = [row("dog", "cat", label="1"), row("dog", "bank", label="0")]
    assert labels_of(Ranking.fit(binary), binary) == [1.0, 0.0]
    assert Ranking.fit(binary).main == "average_precision"
    graded = [row("dog", "cat", label=3.0), row("dog", "bank", label=0.0), row("dog", "river", label=1.5)]
    assert labels_of(Ranking.fit(graded), graded) == [1.0, 0.0, 0.5]
    assert Ranking.fit(graded).main == "spearman"
    assert labels_of(Ranking.fit(graded, score_range=[0, 6]), graded) == [0.5, 0.0, 0.25]
    named = [row("dog", "cat", label="duplicate"), row("dog", "bank", label="other")]
    assert labels_of(Ranking.fit(named), named) == [1.0, 0.0]
    assert labels_of(Ranking.fit(named, positive="other"), named) == [0.0, 1.0]
    passages = [row("dog", "cat", "my dog", worse=("bank",))]
    assert labels_of(Ranking.fit(passages), passages) == [1.0, 1.0, 0.0]
    assert Ranking.fit(passages).main == "mrr@10"


def test_queries_without_negatives_get_other_queries_passages_and_it_is_said() -> None:
    rows = [row("dog", "cat"), row("bank", "river"), row("dog", "my dog"), row("cat", "dog")]
    task = Ranking.fit(rows, drawn_negatives=2)
    features = rows_of(task, rows)
    assert features.examples.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3]
    assert features.token_ids.values.tolist() == rows_of(task, rows).token_ids.values.tolist()
    # "dog" has "cat" and "my dog" as positives: of the pool only "river" is left for it.
    words = tiny_tokenizer().encode("dog", "river").token_ids
    assert features.token_ids[1].tolist() == features.token_ids[6].tolist() == words
    assert features.told[0].startswith("4 queries have no negatives: 2 passages of other queries stand for them")
    with pytest.raises(DataError, match="made: dog: no negatives, and no other query's passage"):
        rows_of(Ranking.fit(rows[:1]), rows[:1])


def test_the_loss_is_the_cross_entropy_of_each_pair() -> None:
    batch = TaskBatch(
        attention_mask=torch.ones(3, 1, dtype=torch.bool),
        unit_of_row=torch.arange(3),
        targets={"labels": torch.tensor([1.0, 0.0, 0.5])},
    )
    task, logits = Ranking(HEAD), torch.tensor([[2.0], [-1.0], [0.5]])
    p = [1 / (1 + math.exp(-x)) for x in (2.0, -1.0, 0.5)]
    wanted = -(math.log(p[0]) + math.log(1 - p[1]) + 0.5 * math.log(p[2]) + 0.5 * math.log(1 - p[2])) / 3
    assert task.loss(logits, batch, task.count(batch)).item() == pytest.approx(wanted, rel=1e-6)


def predicted(*scores: float) -> RankingPrediction:
    return RankingPrediction(scores=scores, coverage=1.0)


def test_scores_of_rankings_and_of_labelled_pairs() -> None:
    rows = [row("dog", "cat", worse=("bank", "river")), row("bank", "river", worse=("cat", "dog"))]
    task = Ranking.fit(rows)
    told = task.score([predicted(1.0, 2.0, 0.5), predicted(3.0, 3.0, 1.0)], rows)
    alone = task.score([predicted(1.0), predicted(2.0)], [row("dog", "cat"), row("bank", "river")])
    assert alone["mrr@10"] is None
    assert alone["reason"] == "2 queries have no negatives to be told from"
    assert told["mrr@10"] == 0.5  # second in the first; of equal scores the negative is first
    pairs = [row("a", "b", label=label) for label in ("1", "0", "1", "0")]
    judged = Ranking.fit(pairs)
    told = judged.score([predicted(score) for score in (0.9, 0.2, 0.6, 0.4)], pairs)
    assert (told["average_precision"], told["accuracy"], told["spearman"] > 0.8) == (1.0, 1.0, True)
    rows_there = judged.example_scores([predicted(score) for score in (0.9, 0.2, 0.6, 0.4)], pairs)
    assert judged.score_of(rows_there) == 1.0
    assert math.isnan(judged.score_of(rows_there[::2]))
    assert task.judged_on(pairs).main == "average_precision"
    assert judged.judged_on(rows).main == "mrr@10"


def test_it_comes_back_from_a_bundle() -> None:
    task = Ranking.fit([row("dog", "cat", label=3.0), row("dog", "bank", label=0.0)])
    again = restored_task("ranking", task.head, task.settings())
    assert again.settings() == task.settings()
    example = again.example(("a", ["b", "c"]), "input 0")
    assert example.positives == ("b", "c")
    with pytest.raises(DataError, match=r"input 0: ranking reads \(query, passage\)"):
        again.example("a", "input 0")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("a")], "made: a: ranking needs a query and a passage"),
        ([row("a", "b", "c", label="1")], "made: a: a label is of one query and one passage"),
        ([row("a", "b", label=1.0)], "ranking needs labels that differ"),
        ([row("a", "b", label="x"), row("a", "b", label="y")], "which class is the better one"),
    ],
)
def test_what_does_not_fit_is_refused(rows: list[SimilarityExample], said: str) -> None:
    with pytest.raises((DataError, SettingsError), match=said):
        Ranking.fit(rows)


def test_a_label_beyond_the_range_names_its_row() -> None:
    task = Ranking.fit([row("dog", "cat", label=3.0), row("dog", "bank", label=0.0)])
    with pytest.raises(DataError, match="made: x: ranking has labels from 0 to 3; came 4"):
        task.check_labels([row("x", "y", label=4.0)])
