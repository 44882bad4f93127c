"""Several labels a text (HED-01): every form of them, the loss, thresholds, scores."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch

from anaume.config import HeadConfig
from anaume.data.labelled import TextExample, read_texts
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.features import TaskBatch
from anaume.tasks.multi_label import MultiLabel
from tiny_bundles import tiny_tokenizer
from tiny_labels import logits, write_json, write_table

ABC = HeadConfig(kind="multi-label", labels=("a", "b", "c"))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([1, 0, 1], [1, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        ("a|c", [1, 0, 1]),
        (["a", "c"], [1, 0, 1]),
        ([], [0, 0, 0]),
        ("", [0, 0, 0]),
    ],
)
def test_every_form_gives_the_same_floats(tmp_path: Path, given: object, wanted: list[int]) -> None:
    """HED-01: integer targets meet a loss that needs floats; zero logits cost ln 2 each."""
    path = write_json(tmp_path / "t.jsonl", [{"text": "dog", "labels": given}])
    rows = list(read_texts(path, kind="names", names=["a", "b", "c"] if isinstance(given, list) else None))
    task = MultiLabel(ABC)
    features = task.features(rows, tiny_tokenizer(), 8, learn=True)
    target = features.targets["labels"]
    assert isinstance(target, np.ndarray)
    assert (target.dtype, target.tolist()) == (np.float32, [wanted])
    batch = TaskBatch(
        attention_mask=torch.ones(1, 3, dtype=torch.bool),
        unit_of_row=torch.zeros(1, dtype=torch.int64),
        targets={"labels": torch.from_numpy(target)},
    )
    assert task.loss(torch.zeros(1, 3), batch, task.count(batch)).item() == pytest.approx(math.log(2))


def test_columns_of_flags_are_labels_too(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.tsv", [("dog", 1, 0, 1), ("cat", 0, 0, 0)], "text", "a", "b", "c")
    rows = list(read_texts(path, kind="names", label="a,b,c"))
    assert MultiLabel.fit(rows).labels == ("a", "c")
    features = MultiLabel(ABC).features(rows, tiny_tokenizer(), 8, learn=True)
    assert features.targets["labels"].tolist() == [[1, 0, 1], [0, 0, 0]]  # type: ignore[union-attr]


def test_a_file_of_the_other_task_is_refused_with_row_and_column(tmp_path: Path) -> None:
    number = write_json(tmp_path / "one.jsonl", [{"text": "a", "labels": ["x"]}, {"text": "b", "labels": 2}])
    with pytest.raises(DataError, match=r"one\.jsonl: row 2: field 'labels': expected a list of labels, came int 2"):
        list(read_texts(number, kind="names"))
    several = write_json(tmp_path / "many.jsonl", [{"text": "a", "label": ["x", "y"]}])
    with pytest.raises(DataError, match=r"many\.jsonl: row 1: field 'label'.*several labels a row are the task multi"):
        list(read_texts(several))
    with pytest.raises(DataError, match=r"t: row 3: expected a list of labels; got 'x' \(one label a row: task class"):
        MultiLabel.fit([TextExample(text="a", label="x", place="t: row 3")])


def test_every_label_at_its_threshold_is_said_possibly_none() -> None:
    task = MultiLabel(ABC, thresholds={"a": 0.5, "b": 0.9, "c": 0.1})
    rows = [TextExample(text="dog")] * 3
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    found = task.decode(logits([[0, 0, 0], [-1, 2, -3], [800, 800, -800]]), features, rows)
    assert [one.labels for one in found] == [("a", "c"), (), ("a", "b")]
    assert found[1].record()["labels"] == []
    assert found[0].probabilities == {"a": 0.5, "b": 0.5, "c": 0.5}
    assert found[2].probabilities == {"a": 1.0, "b": 1.0, "c": 0.0}


def decoded(task: MultiLabel, probabilities: np.ndarray[Any, Any], gold: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    names = np.array(task.labels)
    rows = [TextExample(text="dog", label=tuple(names[own].tolist())) for own in gold]
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    said = logits(np.log(probabilities / (1 - probabilities)).tolist())
    return said, features, rows


def test_thresholds_are_set_where_f1_is_best() -> None:
    chance = np.random.default_rng(1)
    gold = chance.random((40, 3)) < [0.5, 0.2, 0.0]  # c never occurs
    probabilities = np.clip(0.35 * gold + 0.5 * chance.random((40, 3)), 0.01, 0.99).round(2)
    task = MultiLabel(ABC)
    said, features, rows = decoded(task, probabilities, gold)
    calibrated = task.calibrate(said, features, rows)
    assert calibrated.thresholds["c"] == 0.5
    assert task.thresholds == {"a": 0.5, "b": 0.5, "c": 0.5}
    predictions = calibrated.decode(said, features, rows)
    for place, label in enumerate("ab"):
        best = max(
            sklearn.metrics.f1_score(gold[:, place], probabilities[:, place] >= cut) for cut in probabilities[:, place]
        )
        own = [label in one.labels for one in predictions]
        assert sklearn.metrics.f1_score(gold[:, place], own) == pytest.approx(best)
    again = MultiLabel.restore(calibrated.head, calibrated.settings())
    assert [one.labels for one in again.decode(said, features, rows)] == [one.labels for one in predictions]


def test_scores_are_scikit_learns() -> None:
    chance = np.random.default_rng(2)
    gold, probabilities = chance.random((50, 3)) < 0.3, chance.random((50, 3))
    task = MultiLabel(ABC)
    said, features, rows = decoded(task, probabilities, gold)
    predictions = task.decode(said, features, rows)
    scores, own = task.score(predictions, rows), probabilities >= 0.5
    f1 = sklearn.metrics.f1_score
    assert scores["f1"] == scores["micro_f1"] == pytest.approx(f1(gold, own, average="micro"))
    assert scores["macro_f1"] == pytest.approx(f1(gold, own, average="macro"))
    assert scores["average_precision"] == pytest.approx(sklearn.metrics.average_precision_score(gold, probabilities))
    assert scores["exact_match"] == sklearn.metrics.accuracy_score(gold, own)
    counts = task.example_scores(predictions, rows)
    assert task.score_of(counts) == scores["micro_f1"]
    assert MultiLabel(ABC, metric="macro_f1").score_of(counts) == scores["macro_f1"]


def test_scores_without_any_gold_label() -> None:
    task = MultiLabel(ABC)
    said, features, rows = decoded(task, np.full((2, 3), 0.2), np.zeros((2, 3), bool))
    scores = task.score(task.decode(said, features, rows), rows)
    assert (scores["f1"], scores["average_precision"], scores["exact_match"]) == (0.0, None, 1.0)


def test_labels_the_model_does_not_know_are_refused_with_both_lists() -> None:
    rows = [
        TextExample(text="x", label=own, place=f"d.jsonl: row {n}") for n, own in enumerate([("a",), ("c", "z")], 1)
    ]
    with pytest.raises(DataError, match=r"d\.jsonl: row 2: .* the data has a, c, z; the model knows a, b, c$"):
        MultiLabel(ABC).check_labels(rows)
    with pytest.raises(DataError, match=r"d\.jsonl: row 2: .* the model knows a, b, c$"):
        MultiLabel(ABC).features(rows, tiny_tokenizer(), 8, learn=True)


def test_labels_that_look_like_several_in_one_are_told_and_lists_of_them_can_be_read() -> None:
    """Parted by commas in a file that is read as parted by |: one label each."""
    rows = [TextExample(text="x", label=own, place="t: row 2") for own in (("a, b",), ("a,c",), ())]
    with pytest.warns(AnaumeWarning) as told:
        task = MultiLabel.fit(rows)
    assert [str(one.message) for one in told] == [
        "2 of the labels look like several in one, such as 'a, b': separator=',' (--column separator=',') parts them"
    ]
    with pytest.raises(DataError, match=r"the data has 'z'; the model knows 'a, b', 'a,c'$"):
        task.check_labels([TextExample(text="x", label=("z",))])
    MultiLabel.fit([TextExample(text="x", label=own) for own in (("salt, pepper", "oil"), ())])


def test_labels_that_do_not_differ_are_refused_and_one_each_is_said() -> None:
    """HED-01: a file of another task."""
    rows = [TextExample(text="x", label=("b", "a"), place="t: row 2"), TextExample(text="y", label=("a", "b"))]
    with pytest.raises(DataError, match=r"the training examples, from t: row 2 on, all have a, b"):
        MultiLabel.fit(rows)
    with pytest.warns(AnaumeWarning, match="every training example has one label"):
        MultiLabel.fit([TextExample(text="x", label=(own,)) for own in "ab"])
    MultiLabel.fit([TextExample(text="x", label=own) for own in (("a",), ())])


def test_no_label_at_all_is_refused() -> None:
    with pytest.raises(DataError, match=r"none of the training examples, from t: row 2 on, has one"):
        MultiLabel.fit([TextExample(text="x", label=(), place="t: row 2")])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "f1"}, "task.metric must be one of micro_f1, macro_f1; got 'f1'"),
        ({"thresholds": {"a": 0.5}}, "thresholds are for a; the labels are a, b, c"),
        ({"thresholds": {"a": 0.5, "b": "0.5", "c": 0.5}}, "thresholds are probabilities, 0 to 1; got"),
        ({"thresholds": {"a": 0.5, "b": 1.5, "c": 0.5}}, "thresholds are probabilities, 0 to 1; got"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        MultiLabel(ABC, **options)
    assert said in str(caught.value)
