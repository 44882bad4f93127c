"""Multiple choice: unequal numbers of options, the loss over each question's own, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anaume.config import HeadConfig
from anaume.data.labelled import ChoiceExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import TaskBatch
from anaume.tasks.multiple_choice import MultipleChoice
from helpers import make_tokenizer

TOKENIZER = make_tokenizer("a b c d e q")
EXAMPLES = [
    ChoiceExample(question="q q", options=("a", "b b", "c"), label=2, place="train.csv: row 2"),
    ChoiceExample(question="q", options=("d", "e"), label=0, place="train.csv: row 3"),
]


def test_rows_and_units() -> None:
    features = MultipleChoice.fit(EXAMPLES).features(EXAMPLES, TOKENIZER, 16, learn=True)
    rows = [" ".join(TOKENIZER.vocab[token] for token in features.token_ids[row]) for row in range(features.rows)]
    assert rows == [
        "[CLS] q q [SEP] a [SEP]",
        "[CLS] q q [SEP] b b [SEP]",
        "[CLS] q q [SEP] c [SEP]",
        "[CLS] q [SEP] d [SEP]",
        "[CLS] q [SEP] e [SEP]",
    ]
    assert features.segment_ids[1].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert features.unit_starts.tolist() == [0, 3, 5]
    assert features.examples.tolist() == [0, 1]
    assert features.coverage.tolist() == [1.0, 1.0]
    label = features.targets["label"]
    assert isinstance(label, np.ndarray)
    assert label.tolist() == [2, 0]


def test_what_is_too_long_is_cut_and_told() -> None:
    long = ChoiceExample(question="q " * 9, options=("a", "b b b b"), label=0)
    features = MultipleChoice().features([long], TOKENIZER, 9, learn=False)
    rows = [" ".join(TOKENIZER.vocab[token] for token in features.token_ids[row]) for row in range(2)]
    assert rows == ["[CLS] q q q q q [SEP] a [SEP]", "[CLS] q q q [SEP] b b b [SEP]"]
    assert features.coverage.tolist() == [(5 + 1 + 3 + 3) / (9 + 1 + 9 + 4)]
    blank = ChoiceExample(question="", options=("", ""))
    assert MultipleChoice().features([blank], TOKENIZER, 9, learn=False).coverage.tolist() == [1.0]


@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), st.integers(0, 1000))
def test_the_loss_is_that_of_each_question_alone(options: list[int], seed: int) -> None:
    task = MultipleChoice()
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(sum(options), generator=generator, requires_grad=True)
    labels = torch.tensor([seed % count for count in options])
    units = torch.repeat_interleave(torch.arange(len(options)), torch.tensor(options))
    batch = TaskBatch(
        attention_mask=torch.ones(sum(options), 3, dtype=torch.bool), unit_of_row=units, targets={"label": labels}
    )
    assert task.count(batch).item() == len(options)
    loss = task.loss(logits, batch, torch.tensor(10.0))
    alone = [-row.log_softmax(0)[label] for row, label in zip(logits.split(options), labels, strict=True)]
    wanted = torch.stack(alone).sum() / 10
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, logits)
    (wanted_gradient,) = torch.autograd.grad(wanted, logits)
    assert torch.allclose(gradient, wanted_gradient, atol=1e-6)


def test_predictions() -> None:
    task = MultipleChoice.fit(EXAMPLES)
    features = task.features(EXAMPLES, TOKENIZER, 16, learn=False)
    logits = [np.array(score, dtype=np.float32) for score in (0.0, math.log(2), 0.0, 3.0, 3.0)]
    first, second = task.decode(logits, features, EXAMPLES)
    assert (first.choice, first.text) == (1, "b b")
    assert first.probabilities == pytest.approx((0.25, 0.5, 0.25))
    assert first.record() == {
        "choice": 1,
        "text": "b b",
        "probabilities": pytest.approx([0.25, 0.5, 0.25]),
        "coverage": 1.0,
    }
    assert second.choice == 0  # of equals the first
    scores = task.score([first, second], EXAMPLES)
    assert scores == {"accuracy": 0.5, "chance": pytest.approx((1 / 3 + 1 / 2) / 2), "total": 2}
    assert task.score_of(task.example_scores([first, second], EXAMPLES)) == scores[task.main]
    assert task.score([], []) == {"accuracy": None, "chance": None, "total": 0}
    assert task.decode([], task.features([], TOKENIZER, 16, learn=True), []) == []


@pytest.mark.parametrize("scores", [[math.nan] * 3, [math.nan, 1.0, 0.0], [-math.inf] * 3, [0.0, math.inf, 0.0]])
def test_broken_scores_still_choose(scores: list[float]) -> None:
    task, examples = MultipleChoice(), EXAMPLES[:1]
    features = task.features(examples, TOKENIZER, 16, learn=False)
    (prediction,) = task.decode([np.array(score, dtype=np.float32) for score in scores], features, examples)
    assert prediction.choice == (1 if 1.0 in scores or math.inf in scores else 0)
    assert sum(prediction.probabilities) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "label", "message"),
    [
        (("a", "b"), None, "row 7: the right option must be a number from 0 to 1; got None"),
        (("a", "b"), 2, "got 2"),
        (("a", "b"), -1, "got -1"),
        (("a",), 0, "row 7: 1 options; it takes two or more"),
        ((), None, "row 7: "),
    ],
)
def test_what_does_not_fit(options: tuple[str, ...], label: int | None, message: str) -> None:
    example = ChoiceExample(question="q", options=options, label=label, place="x.csv: row 7")
    with pytest.raises(DataError, match=message):
        MultipleChoice.fit([example])
    with pytest.raises(DataError, match=message):
        MultipleChoice().features([example], TOKENIZER, 16, learn=True)


def test_what_a_user_hands_over() -> None:
    task = MultipleChoice()
    wanted = ChoiceExample(question="q", options=("a", "b"), place="item 0")
    for handed in (("q", ["a", "b"]), {"question": "q", "options": ("a", "b")}):
        assert task.example(handed, "item 0") == wanted
    for wrong in ("q", ("q", "ab"), ("q", [1, 2]), {"question": "q"}, (["a"], "q"), None):
        with pytest.raises(DataError, match=r"^item 0: multiple-choice reads \(question, \[option"):
            task.example(wrong, "item 0")


def test_settings() -> None:
    task = MultipleChoice.fit(EXAMPLES, dropout=0.2)
    assert task.head == HeadConfig(kind="multiple-choice", dropout=0.2)
    assert MultipleChoice.restore(task.head, task.settings()).head == task.head
    with pytest.raises(SettingsError, match=r"dropout must be at least 0 and below 1; got 1\.0"):
        MultipleChoice.fit(EXAMPLES, dropout=1.0)
    with pytest.raises(DataError, match="no questions"):
        MultipleChoice.fit([])
