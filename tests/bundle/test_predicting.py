"""A fine-tuned bundle predicts: the same after saving, in any company, and only what it was trained for."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.bundle import Bundle
from anaume.bundle.parts import TaskEntry
from anaume.config import HeadConfig
from anaume.data.labelled import TextExample
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.tasks.multi_label import MultiLabel
from tiny_bundles import edit_json, foreign, refusal, tiny_parts
from tiny_labels import texts
from tiny_runs import tiny_bundle

LABELS = ("a", "b")
HEAD = HeadConfig(kind="classification", labels=LABELS)


def entry(task: str = "classification", max_length: int = 12, **settings: Any) -> TaskEntry:
    return TaskEntry(task=task, max_length=max_length, settings=settings)


def tuned(entry: TaskEntry | None, head: HeadConfig = HEAD) -> Bundle:
    """A tiny bundle with a head, and what it was trained for."""
    tasks = {} if entry is None else {head.kind: entry}
    return Bundle(dataclasses.replace(tiny_parts({head.kind: head}), tasks=tasks), device="cpu")


def test_a_reopened_bundle_predicts_the_same_bit_for_bit(tmp_path: Path) -> None:
    bundle = tuned(entry(metric="f1", positive="a", stride=2))
    given = [*texts(20), "the bank of the river " * 6, ("my dog", "your cat"), ""]
    before = bundle.predict(given)
    bundle.save(tmp_path / "b")
    again = anaume.load(tmp_path / "b", device="cpu")
    assert again.predict(given) == before
    assert again.parts.tasks == bundle.parts.tasks
    assert (again.task.settings(), again.task_length) == (bundle.task.settings(), 12)
    again.save(tmp_path / "twice")
    assert anaume.load(tmp_path / "twice", device="cpu").parts.tasks == bundle.parts.tasks


def test_a_text_has_the_same_probabilities_alone_and_in_company() -> None:
    bundle = tuned(entry(max_length=40))
    given = [*texts(40, longest=30), "", "a"]
    together = bundle.predict(given)
    turned = bundle.predict(given[::-1])[::-1]
    alone = [bundle.predict([text])[0] for text in given[:6] + given[-2:]]
    for one, other in [*zip(together, turned, strict=True), *zip(alone, together[:6] + together[-2:], strict=True)]:
        assert one.label == other.label
        np.testing.assert_allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-5)


def test_what_was_not_seen_is_told_in_predictions_and_one_warning() -> None:
    bundle = tuned(entry(max_length=6))
    with pytest.warns(
        AnaumeWarning, match=r"1 of 2 texts were longer than 6 tokens and were cut \(the model saw 50%"
    ) as seen:
        found = bundle.predict(["my dog", "my dog is cute and the cat closed"])
    assert len(seen) == 1
    assert [one.coverage for one in found] == [1.0, 0.5]
    report = bundle.predict_report(["zebra"] * 3, warn=False)
    assert (report.unknown, report.pieces, report.cut) == (3, 3, 0)
    assert report.messages(6) == (
        "100.0% of the pieces (3 of 3) are unknown to the vocabulary: it was not made for this text; use a "
        "bundle whose vocabulary was",
    )
    assert bundle.predict([]) == []


def test_labelled_examples_may_be_handed_over() -> None:
    bundle = tuned(entry())
    assert bundle.predict([TextExample(text="my dog", label="whatever")]) == bundle.predict(["my dog"])


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("my dog", SettingsError, "inputs must be a list; got one str: put it into a list"),
        (iter(["a"]), SettingsError, "inputs must be a list; got one list_iterator"),
        (["a", 7], DataError, "input 1: classification reads a text or a pair (text, text); got int 7"),
    ],
)
def test_what_can_not_be_predicted_is_refused(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        tuned(entry()).predict(given)
    assert said in str(caught.value)


def test_a_bundle_without_a_task_says_what_it_has() -> None:
    with pytest.raises(
        SettingsError, match="predicting needs a head trained for a task, this bundle has: mlm; see ana"
    ):
        tiny_bundle("mlm").predict(["a"])


def test_weights_that_give_no_numbers_are_told_with_the_row() -> None:
    bundle = tuned(entry())
    with torch.no_grad():
        bundle.model.heads["classification"].dense.bias.fill_(float("inf"))  # type: ignore[union-attr, operator]
    with pytest.raises(BundleError, match="input 0: the model gives NaN or infinite numbers"):
        bundle.predict(["my dog"])


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (HEAD, "classification"),
        (HeadConfig(kind="multi-label", labels=LABELS), "multi-label"),
        (HeadConfig(kind="regression"), "regression"),
    ],
)
def test_a_foreign_checkpoint_predicts_by_its_class(tmp_path: Path, head: HeadConfig, name: str) -> None:
    foreign(tmp_path / "f", {head.kind: head})
    bundle = anaume.load(tmp_path / "f", device="cpu")
    assert (bundle.task.name, bundle.task_length, bundle.parts.tasks) == (name, 40, {})
    (found,) = bundle.predict(["my dog is cute"])
    with torch.no_grad():
        ids = torch.tensor([bundle.tokenizer.encode("my dog is cute").token_ids])
        logits = bundle.model.head_logits(head.kind, bundle.model(ids, None).last_hidden_state, None)[0]
    wanted = {
        "classification": lambda: dict(zip(LABELS, logits.softmax(0).tolist(), strict=True)),
        "multi-label": lambda: dict(zip(LABELS, logits.sigmoid().tolist(), strict=True)),
        "regression": lambda: float(logits),
    }[name]()
    assert (found.value if name == "regression" else found.probabilities) == pytest.approx(wanted, abs=1e-6)


def test_thresholds_come_back(tmp_path: Path) -> None:
    head = HeadConfig(kind="multi-label", labels=LABELS)
    tuned(entry("multi-label", thresholds={"a": 0.125, "b": 0.9}, metric="macro_f1"), head).save(tmp_path / "b")
    task = anaume.load(tmp_path / "b", device="cpu").task
    assert isinstance(task, MultiLabel)
    assert (task.thresholds, task.main) == ({"a": 0.125, "b": 0.9}, "macro_f1")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"classification": {"task": "classification"}}, "malformed: "),
        ({"classification": {"task": "classification", "max_length": 8, "settings": {}, "more": 1}}, "malformed: "),
        ({"topic": {"task": "classification", "max_length": 8, "settings": {}}}, "tasks: 'topic' is none of the heads"),
        (
            {"classification": {"task": "classification", "max_length": "8", "settings": {}}},
            "max_length, a whole number",
        ),
        ({"classification": {"task": 3, "max_length": 8, "settings": {}}}, "needs task, a text"),
        ({"classification": {"task": "classification", "max_length": 8, "settings": []}}, "settings, an object"),
        (
            {"classification": {"task": "classification", "max_length": 99, "settings": {}}},
            "a max_length of 99; 2 to 40",
        ),
        ({"classification": {"task": "chess", "max_length": 8, "settings": {}}}, "there is no task 'chess'"),
        (
            {"classification": {"task": "regression", "max_length": 8, "settings": {}}},
            "by a regression head; this is a",
        ),
        (
            {"classification": {"task": "classification", "max_length": 8, "settings": {"metric": "f9"}}},
            "task.metric must",
        ),
        (
            {"classification": {"task": "classification", "max_length": 8, "settings": {"x": 1}}},
            "can't have these settings",
        ),
        ([], "malformed: "),
    ],
)
def test_a_malformed_task_is_refused_when_the_bundle_is_opened(tmp_path: Path, told: Any, said: str) -> None:
    tuned(entry()).save(tmp_path / "b")
    edit_json(tmp_path / "b" / "anaume.json", tasks=told)
    found = refusal(tmp_path / "b")
    assert "anaume.json" in found
    assert said in found


def test_label_names_that_were_edited_are_refused(tmp_path: Path) -> None:
    tuned(entry()).save(tmp_path / "b")
    edit_json(tmp_path / "b" / "config.json", id2label={"0": "b", "1": "a"})
    assert "config.json was changed after the bundle was saved" in refusal(tmp_path / "b")


def test_a_runs_folder_is_its_bundle(tuned_dir: Path, tmp_path: Path) -> None:
    given = texts(9, 5)
    found = anaume.load(tuned_dir, device="cpu").predict(given)
    assert found == anaume.load(tuned_dir / "bundle", device="cpu").predict(given)
    assert found == anaume.load(tuned_dir / "seed-0", device="cpu").predict(given)
    shutil.copytree(tuned_dir, tmp_path / "moved")
    assert anaume.load(tmp_path / "moved", device="cpu").predict(given) == found
    assert json.loads((tuned_dir / "report.json").read_bytes())["task"] == "classification"
    shutil.rmtree(tmp_path / "moved" / "bundle")
    with pytest.raises(BundleError, match="moved: a run that has no bundle yet; the line that began it"):
        anaume.load(tmp_path / "moved", device="cpu")
