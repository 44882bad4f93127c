"""What a fine-tuning begins with: whose weights, which are drawn, which are trained, how fast."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.bundle import Bundle
from anaume.config import HeadConfig
from anaume.data.labelled import Answer, ChoiceExample, QuestionExample, SimilarityExample, TextExample
from anaume.errors import SettingsError
from anaume.model import Bert
from anaume.tasks.classification import Classification
from anaume.tasks.registry import TASKS, fit_task
from anaume.tasks.regression import Regression
from anaume.training.finetuning.example_work import ExampleLoss, ExampleWork
from anaume.training.finetuning.tuned_model import learning_scale, trained_parameters, tuned_model
from anaume.training.optimizer import build_optimizer, set_learning_rate
from tiny_bundles import tiny_parts, tiny_tokenizer
from tiny_labels import class_of, texts, tuning_settings, value_of
from tiny_runs import tiny_bundle
from tiny_similar import pairs
from tiny_tags import tagged

TASK = Classification(HeadConfig(kind="classification", labels=("a", "b")))


def changed(model: Bert, bundle: Bundle) -> set[str]:
    """The parts whose tensors are not the bundle's."""
    own = bundle.model.state_dict()
    names = [
        name for name, tensor in model.state_dict().items() if name not in own or not torch.equal(tensor, own[name])
    ]
    return {".".join(name.split(".")[: 3 if name.startswith("encoder") else 2]) for name in names}


def test_the_encoder_is_the_bundles_and_the_head_is_drawn_by_the_seed() -> None:
    bundle = tiny_bundle("mlm", pooler=True)
    before = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    model, said = tuned_model(tuning_settings("run.seed=4"), bundle, TASK)
    assert changed(model, bundle) == {"heads.classification"}
    assert said == ["the classification head is drawn anew", "left out, as they are not trained: mlm"]
    again, _ = tuned_model(tuning_settings("run.seed=4"), bundle, TASK)
    other, _ = tuned_model(tuning_settings("run.seed=5"), bundle, TASK)
    weight = "heads.classification.dense.weight"
    assert torch.equal(again.get_parameter(weight), model.get_parameter(weight))
    assert not torch.equal(other.get_parameter(weight), model.get_parameter(weight))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in bundle.model.state_dict().items())


def test_a_pooler_that_is_missing_is_drawn_and_said() -> None:
    bundle = tiny_bundle("mlm", pooler=False)
    model, said = tuned_model(tuning_settings(), bundle, TASK)
    assert changed(model, bundle) == {"heads.classification", "pooler.dense"}
    assert "the bundle has no pooler: it is drawn anew" in said


def test_a_head_of_the_same_labels_goes_on_learning() -> None:
    bundle = tiny_bundle("classification")
    model, said = tuned_model(tuning_settings(), bundle, TASK)
    assert changed(model, bundle) == set()
    assert said == ["the bundle's classification head goes on learning"]
    turned = Classification(HeadConfig(kind="classification", labels=("b", "a")))
    assert changed(tuned_model(tuning_settings(), bundle, turned)[0], bundle) == {"heads.classification"}


def test_a_number_head_goes_on_in_the_scale_it_learns_in() -> None:
    bundle = tiny_bundle("regression")
    task = Regression.fit([TextExample(text="x", label=value) for value in (3.0, 7.0)])
    model, _ = tuned_model(tuning_settings(), bundle, task)
    pooled = torch.randn(3, 16)
    heads = [one.heads["regression"].eval() for one in (model, bundle.model)]
    with torch.no_grad():
        assert torch.allclose(heads[0](pooled) * 2 + 5, heads[1](pooled), atol=1e-5)


def test_top_layers_are_drawn_anew_and_the_pooler_with_them() -> None:
    bundle = Bundle(tiny_parts(pooler=True, num_hidden_layers=3), device="cpu")
    model, said = tuned_model(tuning_settings("model.reinit_layers=2"), bundle, TASK)
    assert changed(model, bundle) == {"encoder.layers.1", "encoder.layers.2", "heads.classification", "pooler.dense"}
    assert "the top 2 layers are drawn anew" in said
    with pytest.raises(SettingsError, match=r"model\.reinit_layers is 4; the bundle has 3"):
        tuned_model(tuning_settings("model.reinit_layers=4"), bundle, TASK)


@pytest.mark.parametrize(
    ("frozen", "still"),
    [("nothing", ()), ("embeddings", ("embeddings.",)), ("encoder", ("embeddings.", "encoder."))],
)
def test_what_is_frozen_stays_bit_for_bit_through_a_step(frozen: str, still: tuple[str, ...]) -> None:
    bundle = tiny_bundle(pooler=True)
    settings = tuning_settings(f"model.frozen={frozen}", "optimizer.weight_decay=0.5")
    model, _ = tuned_model(settings, bundle, TASK)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = build_optimizer(model, settings.optimizer)
    states = model(torch.tensor([[2, 5, 6, 3]]), None).last_hidden_state
    model.head_logits("classification", states, None).square().sum().backward()
    optimizer.step()
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {name for name in before if not (still and name.startswith(still))}
    assert trained_parameters(model) == sum(before[name].numel() for name in moved)


def test_each_layer_below_the_head_learns_slower() -> None:
    bundle = Bundle(tiny_parts(pooler=True, num_hidden_layers=3), device="cpu")
    settings = tuning_settings("optimizer.layer_decay=0.5", "optimizer.learning_rate=0.8")
    model, _ = tuned_model(settings, bundle, TASK)
    optimizer = build_optimizer(model, settings.optimizer, scale=learning_scale(model, 0.5))
    set_learning_rate(optimizer, 0.8)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    rates = {names[id(one)]: group["lr"] for group in optimizer.param_groups for one in group["params"]}
    assert rates.keys() == set(names.values())
    wanted = {"heads.": 0.8, "pooler.": 0.8, "encoder.layers.2": 0.4, "encoder.layers.1": 0.2, "encoder.layers.0": 0.1}
    for name, rate in rates.items():
        assert rate == pytest.approx(next((own for start, own in wanted.items() if name.startswith(start)), 0.05)), name
    decay = {names[id(one)]: group["weight_decay"] for group in optimizer.param_groups for one in group["params"]}
    assert all((decay[name] > 0) == (model.get_parameter(name).dim() >= 2) for name in decay)


def test_dropout_is_the_settings_where_given() -> None:
    model, _ = tuned_model(tuning_settings("model.dropout=0.25"), tiny_bundle(pooler=True), TASK)
    assert (model.config.hidden_dropout, model.config.attention_dropout) == (0.25, 0.25)


def test_the_first_token_of_a_causal_bundle_is_no_place_to_read_a_text() -> None:
    bundle = tiny_bundle(pooler=True, causal=True)
    with pytest.raises(SettingsError, match=r"\[CLS\], the first token, sees nothing of the text; task\.pooling=mean"):
        tuned_model(tuning_settings(), bundle, TASK)
    mean = Classification(HeadConfig(kind="classification", labels=("a", "b"), pooling="mean"))
    assert tuned_model(tuning_settings(), bundle, mean)[0].config.causal


LABELLED = [TextExample(text=text, label=class_of(text)) for text in texts(24)]
PAIRED = [dataclasses.replace(example, pair="the river is closed") for example in LABELLED]
NEAR = pairs(8)
TRAINED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("classification", LABELLED, {}),
    ("classification", LABELLED, {"pooling": "mean", "head_layers": 2}),
    ("pair-classification", PAIRED, {}),
    ("multi-label", [dataclasses.replace(example, label=(class_of(example.text), "all")) for example in LABELLED], {}),
    ("regression", [TextExample(text=text, label=value_of(text)) for text in texts(24)], {}),
    ("ner", [tagged("my dog is cute", "O B-PET O O"), tagged("the bank", "O B-ORG")], {}),
    (
        "question-answering",
        [QuestionExample(id="1", question="my dog", context="the dog is cute", answers=(Answer("dog", 4),))],
        {},
    ),
    ("multiple-choice", [ChoiceExample(question="my dog", options=("is cute", "river"), label=0)], {}),
    ("ranking", NEAR, {}),
    ("late-interaction", NEAR, {}),
    ("similarity", NEAR, {"objective": "in-batch"}),
    *(("similarity", [SimilarityExample(text=e.text) for e in NEAR], {"objective": o}) for o in ("simcse", "tsdae")),
    ("similarity", [SimilarityExample(text=e.text, positives=("dog",), label=e.label) for e in LABELLED], {}),
    ("similarity", [dataclasses.replace(one, label=float(row)) for row, one in enumerate(NEAR)], {}),
]


def test_every_task_is_here() -> None:
    assert {name for name, _, _ in TRAINED} == set(TASKS)


@pytest.mark.parametrize("frozen", ["nothing", "embeddings"])
@pytest.mark.parametrize(("name", "rows", "options"), TRAINED)
def test_no_parameter_that_is_trained_is_without_a_gradient(
    tmp_path: Path, name: str, rows: list[Any], options: dict[str, Any], frozen: str
) -> None:
    """NSP-03: what a task does not train is not built, or is frozen: data-parallel training waits for every gradient.

    The bundle has a pooler and a head for masked words, as pretraining leaves them.
    """
    settings = tuning_settings(f"model.frozen={frozen}")
    task = fit_task(TASKS[name], rows, options)
    model, _ = tuned_model(settings, tiny_bundle("mlm", pooler=True), task)
    features = task.features(rows, tiny_tokenizer(), 40, learn=True)
    work = ExampleWork(
        settings=settings, task=task, features=features, loss=ExampleLoss(model.train(), task), dev=None,
        folder=tmp_path, device=torch.device("cpu"), pad_id=0,
    )  # fmt: skip
    targets = work.targets(list(range(len(features))), 0, 0.0)
    for part in work.parts(targets):
        work.loss(part, targets.counts())[0].backward()
    trained = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    assert [name for name, gradient in trained.items() if gradient is None] == []
    assert trained
