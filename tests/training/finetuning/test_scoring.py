"""Scores and losses on held-out examples do not depend on how they are batched (TRN-04)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from anaume.data.labelled import TextExample
from anaume.tasks.classification import Classification
from anaume.tasks.regression import Regression
from anaume.training.finetuning import scoring
from anaume.training.finetuning.scoring import HeldOutExamples, Scored
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_labels import examples
from tiny_models import tiny_bert

CPU = torch.device("cpu")


def held_out(task: Any, rows: list[TextExample]) -> HeldOutExamples:
    return HeldOutExamples(rows, task.features(rows, tiny_tokenizer(), 40, learn=True), 0, CPU)


def test_the_loss_is_the_mean_over_all_rows_at_any_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of 4 with mean 1 and a last one of 1 with 6 give (4 x 1 + 6) / 5 = 2, not 3.5."""
    rows = [TextExample(text="dog", label=value) for value in (1.0, -1.0, 1.0, -1.0, math.sqrt(6.0))]
    task = Regression(Regression.fit(rows).head)
    model = tiny_bert({"regression": task.head}, vocab_size=len(VOCAB))
    for parameter in model.heads.parameters():
        torch.nn.init.zeros_(parameter)
    for budget in (1, 6, 9, 12, 15):  # 1 to 5 rows of 3 tokens
        monkeypatch.setattr(scoring, "TOKENS_AT_ONCE", budget)
        assert held_out(task, rows).score(model, task, torch.float32).loss == pytest.approx(2.0)


def test_scores_and_order_are_the_same_at_any_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = examples(33, longest=14)
    task = Classification.fit(rows, class_weights="balanced", stride=1)
    model = tiny_bert({"classification": task.head}, vocab_size=len(VOCAB))
    features = task.features(rows, tiny_tokenizer(), 9, learn=True)
    assert features.rows > 33
    dev = HeldOutExamples(rows, features, 0, CPU)
    found: list[Scored] = []
    for budget in (4096, 40, 1):
        monkeypatch.setattr(scoring, "TOKENS_AT_ONCE", budget)
        found.append(dev.score(model, task, torch.float32))
    for one in found[1:]:
        assert one.scores == found[0].scores
        assert one.loss == pytest.approx(found[0].loss, rel=1e-6)
        np.testing.assert_allclose(np.stack(one.logits), np.stack(found[0].logits), atol=1e-5)
    alone = HeldOutExamples(rows[7:8], task.features(rows[7:8], tiny_tokenizer(), 9, learn=True), 0, CPU)
    own = [row for row, owner in enumerate(features.examples) if owner == 7]
    np.testing.assert_allclose(
        np.stack(alone.score(model, task, torch.float32).logits),
        np.stack([found[0].logits[row] for row in own]),
        atol=1e-5,
    )


@pytest.mark.parametrize("training", [True, False])
def test_mode_and_generators_are_left_as_they_were(training: bool) -> None:
    rows = examples(16)
    task = Classification.fit(rows)
    model = tiny_bert({"classification": task.head}, vocab_size=len(VOCAB), hidden_dropout=0.5).train(training)
    before = torch.get_rng_state()
    one, other = (held_out(task, rows).score(model, task, torch.float32) for _ in range(2))
    assert model.training is training
    assert torch.equal(torch.get_rng_state(), before)
    assert one.loss == other.loss
