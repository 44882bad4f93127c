"""What a fine-tuning made opens in transformers: label names, and the same numbers in the labels' own units."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.tasks.multi_label import LabelsPrediction
from tiny_labels import class_of, texts, value_of, write_json, write_table
from tiny_tuned import tiny_finetune

transformers = pytest.importorskip("transformers")

GIVEN = texts(12, 9)


def opened(folder: Path) -> Any:
    model, info = transformers.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def logits_there(folder: Path) -> torch.Tensor:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits: torch.Tensor = opened(folder)(**tokenizer(GIVEN, padding=True, return_tensors="pt")).logits
    return logits


def test_classes(tuned_dir: Path) -> None:
    twin = opened(tuned_dir / "bundle")
    assert (twin.config.id2label, twin.config.problem_type) == (
        {0: "animal", 1: "place"},
        "single_label_classification",
    )
    found = anaume.load(tuned_dir, device="cpu").predict(GIVEN)
    here = np.array([list(one.probabilities.values()) for one in found])
    np.testing.assert_allclose(here, logits_there(tuned_dir / "bundle").softmax(-1), atol=1e-5)


@pytest.mark.parametrize("task", ["classification", "ner", "question-answering"])
def test_the_line_that_a_guide_shows_opens_it(
    tuned_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """It named the folder around the bundle, and a pipeline that is no more."""
    guide = (Path(__file__).parents[2] / "docs" / "guides" / f"{task}.md").read_text("utf-8")
    (line,) = re.findall(r"`((?:pipeline|Auto)[^`]*\([^`]*model[^`]*\))`", guide)
    if task == "classification":
        (tmp_path / "model").symlink_to(tuned_dir)
    else:
        tags = {text: ["B-A" if word == "dog" else "O" for word in text.split()] for text in GIVEN}
        asked = {"question": "cute", "context": "my dog is cute", "answers": [{"text": "dog", "answer_start": 3}]}
        rows = [{"words": text.split(), "tags": tags[text]} if task == "ner" else asked for text in GIVEN]
        train = write_json(tmp_path / "t.jsonl", rows)
        tiny_finetune(tmp_path, "model", "run.steps=1", task=task, train=train, dev=train)
    monkeypatch.chdir(tmp_path)
    found = eval(line, {name: getattr(transformers, name) for name in re.findall(r"^\w+", line)})
    model = found.model if line.startswith("pipeline") else found
    assert (type(model).__name__, set(model.config.id2label.values())) == {
        "classification": ("BertForSequenceClassification", {"animal", "place"}),
        "ner": ("BertForTokenClassification", {"O", "B-A", "I-A"}),
        "question-answering": ("BertForQuestionAnswering", {"LABEL_0", "LABEL_1"}),
    }[task]


def test_numbers_in_the_labels_units(tmp_path: Path) -> None:
    rows = [(text, 100 * value_of(text) - 30) for text in texts(33)]
    train = write_table(tmp_path / "n.tsv", rows, "text", "score")
    out = tiny_finetune(tmp_path, "m", "run.steps=4", task="regression", train=train, dev=train).bundle
    found = anaume.load(out, device="cpu").predict(GIVEN)
    there = logits_there(out)
    assert there.shape == (12, 1)
    assert 50 < there.mean() < 400
    np.testing.assert_allclose([one.value for one in found], there[:, 0], rtol=1e-5)


def test_several_labels(tmp_path: Path) -> None:
    rows = [{"text": text, "labels": [class_of(text), *(["long"] if len(text) > 25 else [])]} for text in texts(33)]
    train = write_json(tmp_path / "m.jsonl", rows)
    out = tiny_finetune(tmp_path, "m", "run.steps=4", task="multi-label", train=train, dev=train).bundle
    twin = opened(out)
    assert (list(twin.config.id2label.values()), twin.config.problem_type) == (
        ["animal", "long", "place"],
        "multi_label_classification",
    )
    found: list[LabelsPrediction] = anaume.load(out, device="cpu").predict(GIVEN)
    here = np.array([list(one.probabilities.values()) for one in found])
    np.testing.assert_allclose(here, logits_there(out).sigmoid(), atol=1e-5)
    thresholds = anaume.load(out, device="cpu").task.settings()["thresholds"]
    assert set(thresholds) == {"animal", "long", "place"}
    for one in found:
        assert one.labels == tuple(label for label, own in one.probabilities.items() if own >= thresholds[label])
