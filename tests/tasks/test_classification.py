"""Classes of texts: settling them, weights and smoothing, probabilities, scores."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
import torch.nn.functional as F

from anaume.config import HeadConfig
from anaume.data.labelled import TextExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.classification import Classification
from anaume.tasks.features import TaskBatch
from tiny_bundles import tiny_tokenizer
from tiny_labels import logits

LABELS = ("a", "b", "c", "d")
SKEWED = [TextExample(text="x", label=label, place=f"t.tsv: row {n}") for n, label in enumerate("aaaaaabbbccd", 2)]


def batch_of(labels: list[int]) -> TaskBatch:
    rows = len(labels)
    return TaskBatch(
        attention_mask=torch.ones(rows, 3, dtype=torch.bool),
        unit_of_row=torch.arange(rows),
        targets={"labels": torch.tensor(labels)},
    )


def test_labels_are_sorted_numbers_by_value() -> None:
    rows = [TextExample(text="x", label=label) for label in ("10", "9", "b", "a", "-1")]
    assert Classification.fit(rows).labels == ("-1", "9", "10", "a", "b")


@pytest.mark.parametrize("weights", [None, "none", "balanced", {"a": 0.5, "b": 1.0, "c": 3.0, "d": 0.25}])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torchs_also_in_parts(weights: Any, smoothing: float) -> None:
    """TRN-04's kind: a divisor summed over parts of unequal size gives the loss of the whole."""
    task = Classification.fit(SKEWED, class_weights=weights, label_smoothing=smoothing)
    if weights == "balanced":
        assert task.class_weights == {"a": 0.5, "b": 1.0, "c": 1.5, "d": 3.0}
    elif weights in (None, "none"):
        assert task.class_weights is None
    given = None if task.class_weights is None else torch.tensor(list(task.class_weights.values()))
    torch.manual_seed(0)
    said, labels = torch.randn(5, 4, requires_grad=True), [0, 3, 1, 0, 2]
    wanted = F.cross_entropy(said, torch.tensor(labels), weight=given, label_smoothing=smoothing)
    whole = batch_of(labels)
    assert task.loss(said, whole, task.count(whole)).item() == pytest.approx(wanted.item(), rel=1e-6)
    parts = [(said[:4], batch_of(labels[:4])), (said[4:], batch_of(labels[4:]))]
    count = torch.stack([task.count(part) for _, part in parts]).sum()
    total = torch.stack([task.loss(own, part, count) for own, part in parts]).sum()
    assert total.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_probabilities_sum_to_one_whatever_the_logits() -> None:
    task = Classification.fit(SKEWED)
    rows = [TextExample(text="x")] * 3
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    found = task.decode(logits([[1000, 999, 0, -1000], [0, 0, 0, 0], [-3, 1, 2, -1]]), features, rows)
    assert [one.label for one in found] == ["a", "a", "c"]
    assert found[0].probability == pytest.approx(1 / (1 + math.exp(-1)))
    assert list(found[1].probabilities.values()) == [0.25] * 4
    assert sum(found[2].probabilities.values()) == pytest.approx(1.0)


def scored(
    gold: list[str], said: list[str], labels: tuple[str, ...], **options: Any
) -> tuple[Classification, Any, Any]:
    task = Classification(HeadConfig(kind="classification", labels=labels), **options)
    rows = [TextExample(text="x", label=label) for label in gold]
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    predictions = task.decode(logits([[float(label == one) for label in labels] for one in said]), features, rows)
    return task, task.score(predictions, rows), task.example_scores(predictions, rows)


@pytest.mark.parametrize("labels", [("a", "b"), LABELS])
def test_scores_are_scikit_learns(labels: tuple[str, ...]) -> None:
    chance = np.random.default_rng(0)
    gold, said = (chance.choice(labels, 60, p=chance.dirichlet([1] * len(labels))).tolist() for _ in range(2))
    _, scores, rows = scored(gold, said, labels)
    averaged = {"average": "binary", "pos_label": "b"} if len(labels) == 2 else {"average": "macro"}
    assert scores["accuracy"] == pytest.approx(sklearn.metrics.accuracy_score(gold, said))
    assert scores["f1"] == pytest.approx(sklearn.metrics.f1_score(gold, said, **averaged))
    assert scores["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(gold, said, average="macro"))
    assert scores["matthews"] == pytest.approx(sklearn.metrics.matthews_corrcoef(gold, said))
    assert scores["confusion"] == sklearn.metrics.confusion_matrix(gold, said, labels=labels).tolist()
    told = sklearn.metrics.classification_report(gold, said, labels=labels, output_dict=True, zero_division=0)
    for label in labels:
        told[label]["f1"] = told[label].pop("f1-score")
        assert scores["labels"][label] == pytest.approx(told[label])
    for metric in ("accuracy", "f1", "macro_f1", "matthews"):
        assert scored(gold, said, labels, metric=metric)[0].score_of(rows) == scores[metric]


def test_f1_is_of_the_label_that_was_chosen() -> None:
    gold, said = list("aabb"), list("abbb")
    for chosen, positive, f1 in ((None, "b", 0.8), ("a", "a", 2 / 3)):
        _, scores, _ = scored(gold, said, ("a", "b"), positive=chosen)
        assert (scores["f1"], scores["positive"]) == (pytest.approx(f1), positive)
    assert "positive" not in scored(gold, said, ("a", "b", "c"))[1]


def test_scores_where_a_class_is_never_said_are_zero_and_silent() -> None:
    _, scores, _ = scored(list("aabb"), list("aaaa"), ("a", "b"), metric="matthews")
    assert (scores["f1"], scores["matthews"], scores["labels"]["b"]["precision"]) == (0.0, 0.0, 0.0)
    _, scores, _ = scored(["a"], ["a"], ("a", "b"))
    assert (scores["accuracy"], scores["f1"], scores["macro_f1"], scores["matthews"]) == (1.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "acuracy"}, "task.metric must be one of accuracy, f1, macro_f1, matthews; got 'acuracy' (did you"),
        ({"label_smoothing": 1.0}, "task.label_smoothing must be at least 0 and below 1; got 1.0"),
        ({"positive": "a"}, "task.positive, one of two labels, is 'a'; the labels are a, b, c, d"),
        ({"class_weights": "balance"}, 'task.class_weights is "balanced", or a weight for each label; got'),
        ({"class_weights": {"a": 1.0}}, "task.class_weights names a; the labels are a, b, c, d"),
        ({"class_weights": dict.fromkeys("abcd", 0.0)}, "task.class_weights must be positive numbers; got"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Classification.fit(SKEWED, **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (SKEWED[:6], "needs at least two labels; the training examples, from t.tsv: row 2 on, have only 'a'"),
        ([], "needs at least two labels; the training examples are none"),
        ([TextExample(text="x", place="t.tsv: row 9")], "t.tsv: row 9: no label, and one is to be learned or scored"),
        (
            [TextExample(text="x", label=("a", "b"), place="t.tsv: row 9")],
            "t.tsv: row 9: expected one label; got ('a', 'b') (several labels: task multi-label)",
        ),
        ([TextExample(text="x", label=2.5, place="t.tsv: row 9")], "t.tsv: row 9: expected one label; got 2.5"),
    ],
)
def test_wrong_labels_are_refused_with_their_row(rows: list[TextExample], said: str) -> None:
    with pytest.raises(DataError) as caught:
        Classification.fit(rows)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "joined"),
    [(["a", "a|c"], 1), (["a | c", "c|d", "e"], 2), (["a|c", "e"], 0), (["a,c", "a"], 0), (["|", "a"], 0)],
)
def test_labels_that_look_like_several_are_told(labels: list[str], joined: int) -> None:
    """HED-01: a file of the task multi-label."""
    rows = [TextExample(text="x", label=label) for label in labels]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(Classification.fit(rows).labels) == len(labels)
    assert [str(one.message).split(" look")[0] for one in told] == [f"{joined} of the labels"] * bool(joined)


def test_labels_the_model_does_not_know_are_refused_with_both_lists() -> None:
    task = Classification.fit(SKEWED)
    rows = [TextExample(text="x", label=label, place=f"dev.tsv: row {n}") for n, label in enumerate("abef", 2)]
    with pytest.raises(DataError) as caught:
        task.features(rows, tiny_tokenizer(), 8, learn=True)
    assert str(caught.value) == (
        "dev.tsv: row 4: the labels of the data and of the model differ: the data has a, b, e, f; the model knows "
        "a, b, c, d"
    )


def test_what_a_bundle_keeps_makes_the_task_again() -> None:
    two = [TextExample(text="x", label=label) for label in "ab"]
    task = Classification.fit(two, metric="f1", positive="a", stride=3, class_weights="balanced")
    again = Classification.restore(task.head, task.settings())
    assert (again.main, again.positive, again.stride, again.class_weights) == ("f1", "a", 3, None)
