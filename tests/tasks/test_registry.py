"""Tasks by name, their options, and what a bundle may say of them."""

from __future__ import annotations

from typing import Any

import pytest

from anaume.cli.app import app
from anaume.config import HeadConfig
from anaume.data.labelled import LABELLED_TASKS, TextExample
from anaume.errors import SettingsError
from anaume.tasks.classification import Classification
from anaume.tasks.registry import ALIASES, TASKS, fit_task, restored_task, task_named, task_of_head
from anaume.tasks.regression import Regression
from tiny_labels import examples

CLASSES = HeadConfig(kind="classification", labels=("a", "b"))


def test_every_task_has_a_reader_and_is_named_in_the_commands_help() -> None:
    from typer.main import get_command

    finetune = get_command(app).commands["finetune"]  # type: ignore[attr-defined]
    told = next(parameter.help for parameter in finetune.params if parameter.name == "task")
    for name, task in TASKS.items():
        assert task.name == name
        assert name in LABELLED_TASKS
        assert name in told


def test_names_of_pipelines_elsewhere_are_known() -> None:
    assert task_named("sentiment-analysis") is Classification
    assert task_named("sentence-similarity") is Regression
    assert set(ALIASES.values()) <= set(LABELLED_TASKS)
    with pytest.raises(SettingsError, match=r"there is no task 'clasification' \(did you mean 'classification'\?\)"):
        task_named("clasification")


def test_an_option_of_another_task_is_refused_by_name() -> None:
    assert fit_task(Classification, examples(20), {"pooling": "mean", "head_layers": 2}).head.pooling == "mean"
    with pytest.raises(
        SettingsError, match=r"task\.scheme means nothing to classification; it has: class_weights, drop"
    ):
        fit_task(Classification, examples(20), {"scheme": "BIO"})
    with pytest.raises(SettingsError, match=r"task\.class_weights means nothing to regression"):
        fit_task(Regression, [TextExample(text="x", label=1.0)], {"class_weights": "balanced"})


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("regression", {}, "regression is predicted by a regression head; this is a classification head"),
        ("classification", {"metrik": "f1"}, "classification can't have these settings, {'metrik': 'f1'}: "),
        ("classification", {"metric": 7}, "classification can't have these settings, {'metric': 7}: "),
        ("classification", {"metric": "f2"}, "task.metric must be one of accuracy"),
        ("classification", {"stride": "a"}, "task.stride, the pieces windows share"),
        ("chess", {}, "there is no task 'chess'"),
    ],
)
def test_what_no_task_can_have_kept_is_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        restored_task(name, CLASSES, settings)
    assert said in str(caught.value)


def test_a_head_out_of_a_foreign_checkpoint_tells_its_task() -> None:
    task = task_of_head(CLASSES, {})
    assert isinstance(task, Classification)
    assert task.labels == ("a", "b")
    assert task_of_head(HeadConfig(kind="mlm"), {}) is None
