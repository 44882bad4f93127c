"""Losses and gradients of answering questions and choosing options equal those of their transformers twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from anaume.bundle.names import encoder_entries, head_entries, join, pooler_entries
from anaume.bundle.read import read_bundle
from anaume.config import HeadKind
from anaume.data.labelled import Answer, ChoiceExample, QuestionExample
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.multiple_choice import MultipleChoice
from anaume.tasks.question_answering import QuestionAnswering
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_models import difference, pad_rows

transformers = pytest.importorskip("transformers")


def twins(folder: Path, architecture: str) -> tuple[Any, Bert]:
    """A model of theirs with random weights, and ours read from its directory."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=0.3,
    )
    twin = getattr(transformers, architecture)(config).eval()
    for name, parameter in twin.named_parameters():
        if name.endswith("bias") or "LayerNorm" in name:
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    twin.save_pretrained(folder)
    tiny_tokenizer().save(folder)
    return twin, read_bundle(folder).model


def inputs(features: Features) -> tuple[Tensor, Tensor, Tensor, TaskBatch]:
    rows, units = range(features.rows), range(len(features))
    token_ids, mask = pad_rows([features.token_ids[row].tolist() for row in rows])
    segment_ids, _ = pad_rows([features.segment_ids[row].tolist() for row in rows])
    owners = [unit for unit in units for _ in range(features.unit_starts[unit], features.unit_starts[unit + 1])]
    targets = {name: torch_target(target, units, rows, mask.shape[1]) for name, target in features.targets.items()}
    return (
        token_ids,
        mask,
        segment_ids,
        TaskBatch(attention_mask=mask, unit_of_row=torch.tensor(owners), targets=targets),
    )


def assert_same_gradients(model: Bert, twin: Any, kind: HeadKind) -> None:
    entries = encoder_entries(2) + head_entries(kind, kind) + (pooler_entries() if model.pooler is not None else [])
    wanted = join({name.removeprefix("bert."): parameter.grad for name, parameter in twin.named_parameters()}, entries)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        assert gradient is not None
        assert difference(gradient, wanted[name]) <= 1e-5, name
    assert any(gradient.abs().max() > 1e-3 for gradient in wanted.values())


def test_answering_questions(tmp_path: Path) -> None:
    """Rows of one length: over padding their softmax goes too, ours does not."""
    context = "the dog was cute and my cat is closed ."
    examples = [
        QuestionExample(id="1", question="q x", context=context, answers=(Answer("dog", 4), Answer("cat", 24))),
        QuestionExample(id="2", question="q y", context=context, answers=(Answer("my cat is closed", 21),)),
        QuestionExample(id="3", question="q z", context=context, answers=()),
    ]
    twin, model = twins(tmp_path, "BertForQuestionAnswering")
    task = QuestionAnswering.fit(examples)
    token_ids, mask, segment_ids, batch = inputs(task.features(examples, tiny_tokenizer(), 40, learn=True))
    assert mask.all()
    assert batch.targets["start"].tolist() == [5, 9, 0]
    out = twin(
        input_ids=token_ids,
        attention_mask=mask.long(),
        token_type_ids=segment_ids,
        start_positions=batch.targets["start"],
        end_positions=batch.targets["end"],
    )
    out.loss.backward()
    logits = model.head_logits(task.kind, model(token_ids, mask, segment_ids).last_hidden_state, mask)
    loss = task.loss(logits, batch, task.count(batch))
    loss.backward()
    assert difference(loss, out.loss) <= 1e-5
    assert_same_gradients(model, twin, task.kind)


def test_choosing_options(tmp_path: Path) -> None:
    examples = [
        ChoiceExample(question="my dog is", options=("cute", "the river bank", "open ."), label=1),
        ChoiceExample(question="a cat and your dog was", options=("closed", "x", "y z ."), label=0),
    ]
    twin, model = twins(tmp_path, "BertForMultipleChoice")
    task = MultipleChoice.fit(examples)
    token_ids, mask, segment_ids, batch = inputs(task.features(examples, tiny_tokenizer(), 40, learn=True))
    assert not mask.all()
    out = twin(
        input_ids=token_ids.view(2, 3, -1),
        attention_mask=mask.long().view(2, 3, -1),
        token_type_ids=segment_ids.view(2, 3, -1),
        labels=batch.targets["label"],
    )
    out.loss.backward()
    logits = model.head_logits(task.kind, model(token_ids, mask, segment_ids).last_hidden_state, mask)
    loss = task.loss(logits, batch, task.count(batch))
    loss.backward()
    assert difference(loss, out.loss) <= 1e-5
    assert_same_gradients(model, twin, task.kind)
