"""Losses and gradients of the text tasks equal those of transformers, on random weights and a fixed batch."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.bundle.checkpoint import published_tensors
from anaume.bundle.read import read_bundle
from anaume.data.labelled import TextExample
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.registry import task_of_head
from anaume.training.finetuning.example_parts import example_part
from anaume.training.finetuning.example_work import ExampleLoss
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_models import difference, pad_rows

transformers = pytest.importorskip("transformers")

TEXTS = ["my dog is cute", "a", "the bank of the river was closed , open ?", "your cats"]
KINDS: dict[str, dict[str, Any]] = {
    "single_label_classification": {"labels": ["LABEL_2", "LABEL_0", "LABEL_2", "LABEL_1"], "num_labels": 3},
    "multi_label_classification": {
        "labels": [("LABEL_0", "LABEL_2"), (), ("LABEL_1",), ("LABEL_0", "LABEL_1", "LABEL_2")],
        "num_labels": 3,
    },
    "regression": {"labels": [1.5, -2.0, 0.25, 4.0], "num_labels": 1},
}


def gradients(model: Bert) -> dict[str, torch.Tensor]:
    """The gradient of every tensor, by the names it has there."""
    grown = copy.deepcopy(model)
    for here, there in zip(grown.parameters(), model.parameters(), strict=True):
        assert there.grad is not None
        here.data = there.grad
    tensors, rest = published_tensors(grown, "BertForSequenceClassification")
    assert not rest
    return tensors


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_all_gradients_equal_the_twins(tmp_path: Path, kind: str, packed: bool) -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=0.3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0,
        problem_type=kind,
        num_labels=KINDS[kind]["num_labels"],
    )
    twin = transformers.BertForSequenceClassification(config).train()
    twin.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    model = read_bundle(tmp_path).model.train()
    (head,) = model.head_configs.values()
    task = task_of_head(head, {})
    assert task is not None
    examples = [
        TextExample(text=text, pair="is open" if number == 0 else None, label=label)
        for number, (text, label) in enumerate(zip(TEXTS, KINDS[kind]["labels"], strict=True))
    ]
    features = task.features(examples, tiny_tokenizer(), 40, learn=True)

    token_ids, mask, segments = padded(features)
    (name, target) = next(iter(features.targets.items()))
    labels = torch_target(target, range(4), range(4), token_ids.shape[1])
    theirs = twin(input_ids=token_ids, attention_mask=mask.long(), token_type_ids=segments, labels=labels).loss
    theirs.backward()

    if packed:
        part, _ = example_part(features, range(4), task, 0, torch.device("cpu"))
        ours, _ = ExampleLoss(model, task)(part, task.count(part.batch)[None])
    else:
        batch = TaskBatch(attention_mask=mask, unit_of_row=torch.arange(4), targets={name: labels})
        logits = model.head_logits(head.kind, model(token_ids, mask, segments).last_hidden_state, mask)
        ours = task.loss(logits, batch, task.count(batch))
    torch.autograd.backward(ours)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    found = gradients(model)
    there = {name: parameter.grad for name, parameter in twin.named_parameters()}
    assert found.keys() == there.keys()
    for name, gradient in found.items():
        assert difference(gradient, there[name]) <= 1e-5, name
    assert min(there[f"classifier.{part}"].abs().max() for part in ("weight", "bias")) > 1e-3


def padded(features: Features) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    token_ids, mask = pad_rows([features.token_ids[row].tolist() for row in range(features.rows)])
    segments, _ = pad_rows([features.segment_ids[row].tolist() for row in range(features.rows)])
    return token_ids, mask, segments
