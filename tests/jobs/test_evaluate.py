"""Scores on files, and two models on the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics

import anaume
from anaume.bundle import Bundle
from anaume.config import HeadConfig
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs import evaluate
from anaume.jobs.evaluate import evaluate_file
from tiny_bundles import tiny_parts
from tiny_labels import class_of, texts, write_classes, write_table


@pytest.fixture(scope="module")
def bundle(tuned_dir: Path) -> Bundle:
    return anaume.load(tuned_dir, device="cpu")


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "dev.tsv", 33, seed=4)


def test_scores_are_over_all_rows_at_once(bundle: Bundle, dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "CHUNK", 8)
    found = evaluate_file(bundle, dev)
    given = texts(33, 4)
    said = [one.label for one in bundle.predict(given)]
    gold = [class_of(text) for text in given]
    assert found.scores["macro_f1"] == pytest.approx(sklearn.metrics.f1_score(gold, said, average="macro"))
    assert (found.task, found.metric, found.examples, found.comparison) == ("classification", "accuracy", 33, None)
    assert found.scores["accuracy"] == pytest.approx(np.mean([a == b for a, b in zip(gold, said, strict=True)]))


def test_the_report_of_a_fine_tuning_is_what_evaluate_says(tuned_dir: Path, bundle: Bundle) -> None:
    stage = bundle.parts.record.stages[-1]
    assert evaluate_file(bundle, tuned_dir.parent / "dev.tsv").scores["accuracy"] == stage.scores["accuracy"]


def other(*labels: str) -> Bundle:
    return Bundle(tiny_parts({"classification": HeadConfig(kind="classification", labels=labels)}), device="cpu")


def test_two_models_are_compared_by_the_names_of_their_labels(bundle: Bundle, dev: Path) -> None:
    """The other one has its labels in another order."""
    found = evaluate_file(bundle, dev, against=other("place", "animal"))
    assert found.comparison is not None
    assert found.other_scores is not None
    assert found.comparison.difference == pytest.approx(found.scores["accuracy"] - found.other_scores["accuracy"])
    same = evaluate_file(bundle, dev, against=bundle).comparison
    assert same is not None
    assert (same.difference, same.differ) == (0.0, False)


def test_models_of_other_labels_or_tasks_are_not_compared(bundle: Bundle, dev: Path) -> None:
    with pytest.raises(SettingsError, match="one knows animal, place, the other animal, plant"):
        evaluate_file(bundle, dev, against=other("animal", "plant"))
    number = Bundle(tiny_parts({"regression": HeadConfig(kind="regression")}), device="cpu")
    with pytest.raises(SettingsError, match="classification by accuracy, and regression by spearman"):
        evaluate_file(bundle, dev, against=number)


def test_labels_the_model_does_not_know_are_refused_with_both_lists(bundle: Bundle, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.tsv", [("dog", "animal"), ("bank", "bank")], "text", "label")
    with pytest.raises(DataError, match=r"t\.tsv: row 3: .* the data has animal, bank; the model knows animal, place$"):
        evaluate_file(bundle, path)


def test_texts_that_were_cut_are_told(bundle: Bundle, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.tsv", [("dog " * 60, "animal"), ("bank", "place")], "text", "label")
    with pytest.warns(AnaumeWarning, match="1 of 2 texts were longer than 40 tokens and were cut"):
        assert evaluate_file(bundle, path).cut == 1


def test_a_vocabulary_made_for_other_text_is_told(bundle: Bundle, tmp_path: Path) -> None:
    """JA-05: above one piece in twenty, where a score is told too."""
    path = write_table(tmp_path / "t.tsv", [("dog 東京", "animal"), ("bank", "place")], "text", "label")
    with pytest.warns(AnaumeWarning, match=r"50\.0% of the pieces \(2 of 4\) are unknown to the vocabulary"):
        assert evaluate_file(bundle, path).unknown_share == 0.5


def test_kana_that_lose_their_voicing_are_told(bundle: Bundle, tmp_path: Path) -> None:
    """JA-01."""
    path = write_table(tmp_path / "t.tsv", [("dog バス " + "dog " * 30, "animal"), ("bank", "place")], "text", "label")
    with pytest.warns(AnaumeWarning, match="the tokenizer strips the voicing marks of 1 kana"):
        evaluate_file(bundle, path)
