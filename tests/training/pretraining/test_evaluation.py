"""The held-out score: always the same question, and nothing disturbed by asking it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from anaume.data.corpus import open_corpus
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.model import Bert
from anaume.tokenization import Tokenizer
from anaume.training.pretraining import evaluation
from anaume.training.pretraining.evaluation import Evaluator, HeldOut
from anaume.training.pretraining.start import build_model, resolve
from tiny_runs import tiny_settings

CPU = torch.device("cpu")


def setup(corpus: Path, *assignments: str) -> tuple[Evaluator, Bert]:
    opened = open_corpus(corpus)
    tokenizer = Tokenizer.from_directory(opened.tokenizer_directory)
    settings = resolve(tiny_settings("run.evaluation_rows=21", *assignments), CPU, None, None)
    stream = RowStream(
        opened.split("held-out"),
        SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id),
        seq_len=16,
        pairing=settings.data.pairing,
    )
    evaluator = Evaluator(stream, settings, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size, device=CPU)
    return evaluator, build_model(settings, tokenizer.vocab_size, None)


def test_the_same_rows_and_masks_are_asked_each_time(corpus: Path) -> None:
    """MLM-03: held-out masks are the same each time, and whatever the run's seed."""
    evaluator, model = setup(corpus)
    first = evaluator.score(model, torch.float32)
    assert evaluator.score(model, torch.float32) == first
    other, _ = setup(corpus, "run.seed=9", "objective.mask_rate=0.15")
    assert other.score(model, torch.float32) == first
    assert first.tokens > 21
    assert first.loss == pytest.approx(np.log(model.config.vocab_size), rel=0.05)
    assert first.pair_accuracy is None


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_the_score_does_not_depend_on_the_batch_size(corpus: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    expected = score(corpus, "data.pairing=nsp")
    monkeypatch.setattr(evaluation, "ROWS_AT_ONCE", rows)
    found = score(corpus, "data.pairing=nsp")
    assert found.loss == pytest.approx(expected.loss, rel=1e-6)
    assert (found.accuracy, found.pair_accuracy, found.tokens) == (
        expected.accuracy,
        expected.pair_accuracy,
        expected.tokens,
    )


def score(corpus: Path, *assignments: str) -> HeldOut:
    evaluator, model = setup(corpus, *assignments)
    return evaluator.score(model, torch.float32)


@pytest.mark.parametrize("training", [True, False])
def test_asking_leaves_generators_mode_and_gradients_as_they_were(corpus: Path, training: bool) -> None:
    evaluator, model = setup(corpus, "model.dropout=0.3")
    model.train(training)
    before = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    first = evaluator.score(model, torch.float32)
    after = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert all(module.training == training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert evaluator.score(model, torch.float32) == first  # without dropout


def test_the_next_token_can_be_asked_for_too(corpus: Path) -> None:
    evaluator, model = setup(corpus, "objective.target=next")
    assert evaluator.score(model, torch.float32).tokens > 200
