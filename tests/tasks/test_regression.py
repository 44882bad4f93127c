"""Numbers of texts (HED-02): no broadcast, bad targets, the scale, correlations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from anaume.config import HeadConfig
from anaume.data.labelled import TextExample, read_texts
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import TaskBatch
from anaume.tasks.regression import Regression
from tiny_bundles import tiny_tokenizer
from tiny_labels import logits, write_table
from tiny_models import tiny_bert

PLAIN = Regression(HeadConfig(kind="regression"))


def numbered(values: list[float]) -> list[TextExample]:
    return [TextExample(text="dog", label=value) for value in values]


def batch_of(values: list[float]) -> TaskBatch:
    return TaskBatch(
        attention_mask=torch.ones(len(values), 3, dtype=torch.bool),
        unit_of_row=torch.arange(len(values)),
        targets={"values": torch.tensor(values)},
    )


def test_shapes_never_broadcast() -> None:
    """HED-02: [B, 1] against [B] would give 1.333333."""
    said, batch = torch.tensor([[1.0], [2.0], [3.0]]), batch_of([1.0, 2.0, 3.0])
    assert PLAIN.loss(said, batch, PLAIN.count(batch)).item() == 0.0
    assert PLAIN.loss(said[:1] + 2, batch_of([1.0]), torch.tensor(1.0)).item() == 4.0


@pytest.mark.parametrize(
    ("target", "said"),
    [("3,5", "write 3.5 with a point"), ("", "expected a number"), ("nan", "expected a number"), ("1e400", "finite")],
)
def test_bad_targets_are_refused_with_their_row(tmp_path: Path, target: str, said: str) -> None:
    path = write_table(tmp_path / "t.tsv", [("dog", 1), ("cat", target)], "text", "score")
    with pytest.raises(DataError, match=rf"t\.tsv: row 3: field 'score'.*{said}"):
        list(read_texts(path, kind="number"))


@pytest.mark.parametrize("label", [None, "1", True, float("nan"), ("a",)])
def test_labels_that_are_no_numbers_are_refused(label: Any) -> None:
    with pytest.raises(DataError, match="t: row 3: regression needs a finite number as label"):
        Regression.fit([TextExample(text="x", label=label, place="t: row 3")])


def test_constant_labels_teach_nothing() -> None:
    rows = [TextExample(text="x", label=2.0, place=f"t: row {n}") for n in (1, 2)]
    with pytest.raises(DataError, match="that differ; the training examples, from t: row 1 on, have 2 every time"):
        Regression.fit(rows)


def test_the_scale_is_learned_and_undone() -> None:
    rows = numbered([1.0, 3.0, 5.0])
    task = Regression.fit(rows)
    features = task.features(rows, tiny_tokenizer(), 8, learn=True)
    scaled = features.targets["values"]
    assert isinstance(scaled, np.ndarray)
    assert scaled.dtype == np.float32
    assert (float(scaled.mean()), float(scaled.std())) == (pytest.approx(0.0), pytest.approx(1.0))
    found = task.decode([np.array([value]) for value in scaled], features, rows)
    assert [one.value for one in found] == pytest.approx([1.0, 3.0, 5.0])
    assert all(type(one.value) is float for one in found)


def test_the_finished_head_speaks_in_the_labels_units_and_can_go_on_learning() -> None:
    task = Regression.fit(numbered([10.0, 30.0]))
    model = tiny_bert({"regression": task.head})
    head, pooled = model.heads["regression"], torch.randn(4, 16)
    with torch.no_grad():
        before = head(pooled)
        finished = task.finished(head)
        after = head(pooled)
        task.resumed(head)
        resumed = head(pooled)
    assert torch.allclose(after, before * 10 + 20, atol=1e-4)
    assert torch.allclose(resumed, before, atol=1e-5)
    assert (finished.mean, finished.spread) == (0.0, 1.0)
    assert Regression.restore(finished.head, finished.settings()).settings() == finished.settings()


def scored(labels: list[float], values: list[float], **options: Any) -> tuple[dict[str, Any], float]:
    task = Regression(HeadConfig(kind="regression"), **options)
    rows = numbered(labels)
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    predictions = task.decode(logits([[value] for value in values]), features, rows)
    return task.score(predictions, rows), task.score_of(task.example_scores(predictions, rows))


def test_scores_are_scipys() -> None:
    chance = np.random.default_rng(3)
    labels = chance.integers(0, 6, 40).astype(float)
    values = (labels + chance.normal(0, 2, 40)).astype(np.float32).astype(float)
    scores, main = scored(labels.tolist(), values.tolist())
    assert scores["spearman"] == main == pytest.approx(scipy.stats.spearmanr(labels, values)[0])
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(labels, values)[0])
    assert scores["mse"] == pytest.approx(np.mean((labels - values) ** 2))
    assert scored(labels.tolist(), values.tolist(), metric="pearson")[1] == scores["pearson"]


@pytest.mark.parametrize(
    ("labels", "values", "reason"),
    [
        ([2.0, 2.0], [1.0, 3.0], "no correlation is defined: the labels are all the same"),
        ([1.0, 2.0], [3.0, 3.0], "no correlation is defined: the predictions are all the same"),
        ([1.0], [3.0], "no correlation is defined: the labels and the predictions are all the same"),
    ],
)
def test_a_correlation_with_constants_is_none_with_the_reason(
    labels: list[float], values: list[float], reason: str
) -> None:
    scores, main = scored(labels, values)
    assert (scores["spearman"], scores["pearson"], scores["reason"]) == (None, None, reason)
    assert np.isnan(main)
    assert scores["mse"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metric": "mse"}, "task.metric must be one of spearman, pearson; got 'mse'"),
        ({"spread": 0.0}, "mean and spread must be numbers, the spread above 0; got 0.0 and 0.0"),
        ({"mean": "1"}, "mean and spread must be numbers"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Regression(HeadConfig(kind="regression"), **options)
    assert said in str(caught.value)
