"""The whole task: what it learns from examples, its loss, its scores, its threshold, what a bundle keeps of it."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.config import HeadConfig
from anaume.data.labelled import Answer, QuestionExample
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.features import Features, TaskBatch, torch_target
from anaume.tasks.question_answering import QuestionAnswering, official_answers, score_official
from anaume.tasks.registry import fit_task, task_named
from helpers import make_tokenizer

TOKENIZER = make_tokenizer("a b c d e f g h q ? . ,")
SPAN = HeadConfig(kind="span")


def ask(context: str, *answers: str, question: str = "q ?", id: str = "1") -> QuestionExample:
    found = tuple(Answer(text, context.index(text)) for text in answers)
    return QuestionExample(id=id, question=question, context=context, answers=found, place=f"dev.json: {id}")


HAS = [ask("a b c d", "b c", id="1"), ask("e f g h", "h", "g h", id="2")]
NONE = [ask("a b", id="3"), ask("", id="4")]


def logits_of(features: Features, places: list[tuple[int, int] | None], null: float = 0.0) -> list[Any]:
    """Logits that are 10 at the start and end given for a row, `null` at [CLS], 0 elsewhere."""
    rows = []
    for row, place in enumerate(places):
        scores = np.zeros((len(features.token_ids[row]), 2), dtype=np.float32)
        scores[0] = null
        if place is not None:
            scores[place[0], 0] = scores[place[1], 1] = 10.0
        rows.append(scores)
    return rows


def targets_of(features: Features) -> list[tuple[int, int] | None]:
    starts, ends = (np.asarray(features.targets[name]) for name in ("start", "end"))
    return [(int(start), int(end)) if start > 0 else None for start, end in zip(starts, ends, strict=True)]


def test_what_it_learns_from_the_examples() -> None:
    assert QuestionAnswering.fit(HAS).settings() == {
        "missing": False,
        "null_threshold": None,
        "rule": "words",
        "stride": 128,
        "n_best": 20,
        "max_answer_length": 30,
    }
    assert QuestionAnswering.fit(HAS + NONE).missing
    assert QuestionAnswering.fit([ask("東京 と 大阪", "大阪")]).rule == "characters"
    assert QuestionAnswering.fit([ask("東京 と 大阪", "大阪")], rule="words").rule == "words"
    assert QuestionAnswering.fit(HAS, missing=True, stride=3).missing
    assert QuestionAnswering.fit(HAS).head == SPAN


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": -1}, "stride, the pieces windows share, must be a whole number from 0; got -1"),
        ({"n_best": 0}, "n_best must be positive"),
        ({"max_answer_length": 2.5}, "max_answer_length must be positive"),
        ({"null_threshold": math.nan}, "null_threshold must be a finite number; got nan"),
        ({"null_threshold": "0"}, "null_threshold must be a finite number"),
        ({"rule": "letters"}, "rule must be one of auto, words, characters; got 'letters'"),
        ({"missing": "no"}, "missing must be true or false; got 'no'"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        QuestionAnswering.fit(HAS, **options)


def test_options_go_by_name() -> None:
    kind = task_named("extractive-qa")
    assert kind is QuestionAnswering
    options = {
        "missing": True,
        "rule": "words",
        "stride": 3,
        "n_best": 2,
        "max_answer_length": 4,
        "null_threshold": 1.0,
    }
    assert fit_task(kind, HAS, options).settings() == options
    with pytest.raises(SettingsError, match=r"task\.pooling means nothing to question-answering; it has: max_answer"):
        fit_task(kind, HAS, {"pooling": "mean"})


def test_nothing_to_learn() -> None:
    with pytest.raises(DataError, match=r"none of the questions, from .* on, has an answer"):
        QuestionAnswering.fit(NONE)
    with pytest.raises(DataError, match="none of the questions has an answer"):
        QuestionAnswering.fit([])
    with pytest.raises(DataError, match=r"^'9': the answers are not given"):
        QuestionAnswering.fit([QuestionExample(id="9", question="q", context="a")])


def test_a_bundle_keeps_it() -> None:
    task = QuestionAnswering.fit(HAS + NONE, null_threshold=-1.5, stride=7)
    kept = json.loads(json.dumps(task.settings()))
    assert QuestionAnswering.restore(task.head, kept).settings() == task.settings()
    foreign = QuestionAnswering.restore(SPAN, {})
    assert foreign.missing is None
    assert foreign.score([], []) == {"exact": None, "f1": None, "total": 0, "rule": "words"}


def batch_of(features: Features, rows: list[int], seq_len: int) -> TaskBatch:
    lengths = torch.tensor([len(features.token_ids[row]) for row in rows])
    return TaskBatch(
        attention_mask=torch.arange(seq_len) < lengths[:, None],
        unit_of_row=torch.arange(len(rows)),
        targets={name: torch_target(target, rows, rows, seq_len) for name, target in features.targets.items()},
    )


def test_the_loss_by_hand_and_in_parts() -> None:
    """Two micro-batches of other widths, over one count, add up to the whole; a row left out counts nothing."""
    task = QuestionAnswering.fit(HAS)
    examples = [*HAS, ask("a b c d e f g h", "c d", id="3"), ask("a b", id="4")]
    wrong = QuestionExample(id="5", question="q", context="a", answers=(Answer("z", 0),))
    features = task.features([*examples, wrong], TOKENIZER, 24, learn=True)
    rows = list(range(features.rows))
    torch.manual_seed(0)
    logits = torch.randn(len(rows), 24, 2, requires_grad=True)
    whole = batch_of(features, rows, 24)
    count = task.count(whole)
    assert count.item() == 4.0
    assert count.dtype == torch.float32
    loss = task.loss(logits, whole, count)
    by_hand = 0.0
    for row, places in enumerate(zip(*(features.targets[name] for name in ("start", "end")), strict=True)):
        if places[0] >= 0:
            known = logits[row, : len(features.token_ids[row])].detach()
            by_hand -= sum(float(known[:, side].log_softmax(0)[places[side]]) for side in (0, 1)) / 2
    assert loss.item() == pytest.approx(by_hand / 4, rel=1e-5)
    parts = [(rows[:2], 10), (rows[2:], 24)]
    batches = [batch_of(features, own, width) for own, width in parts]
    assert sum(task.count(batch) for batch in batches) == count
    split = [
        task.loss(logits[own[0] : own[-1] + 1, :width], batch, count)
        for (own, width), batch in zip(parts, batches, strict=True)
    ]
    assert sum(part.item() for part in split) == pytest.approx(loss.item(), rel=1e-5)
    loss.backward()
    assert logits.grad is not None
    assert not logits.grad[~whole.attention_mask].any()  # padding can't be chosen
    assert not logits.grad[-1].any()


def test_certain_logits_score_full_marks() -> None:
    task = QuestionAnswering.fit(HAS + NONE)
    examples = HAS + NONE
    features = task.features(examples, TOKENIZER, 32, learn=True)
    targets = targets_of(features)
    logits = logits_of(features, targets, null=1.0)
    predictions = task.decode(logits, features, examples)
    assert [prediction.answer for prediction in predictions] == ["b c", "h", "", ""]
    scores = task.score(predictions, examples)
    assert (scores["exact"], scores["f1"], scores["NoAns_f1"], scores["HasAns_f1"]) == (1.0, 1.0, 1.0, 1.0)
    assert scores["best_f1"] == 1.0
    assert task.score_of(task.example_scores(predictions, examples)) == scores[task.main] == 1.0


def test_scores_go_by_the_rule_and_say_so() -> None:
    examples = [ask("小笠原諸島を除く日本", "小笠原諸島を除く日本")]
    task = QuestionAnswering.fit(examples)
    tokenizer = make_tokenizer(sorted(set("小笠原諸島を除く日本q")), subwords="character")
    features = task.features(examples, tokenizer, 32, learn=True)
    predictions = task.decode(logits_of(features, [(4, 8)]), features, examples)
    assert predictions[0].answer == "小笠原諸島"
    assert task.score(predictions, examples) == {
        "exact": 0.0,
        "f1": pytest.approx(2 / 3),
        "total": 1,
        "rule": "characters",
    }


@settings(max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.integers(-12, 12)), min_size=1, max_size=20))
def test_the_calibrated_threshold_is_the_best_and_is_used(rows: list[tuple[bool, int]]) -> None:
    examples = [ask("a b c", *(["b"] if has else []), id=str(number)) for number, (has, _) in enumerate(rows)]
    examples += [ask("a b c", "b", id="has"), ask("a b c", id="none")]
    task = QuestionAnswering.fit(examples)
    features = task.features(examples, TOKENIZER, 32, learn=True)
    nulls = [null for _, null in rows] + [-3, 3]
    logits = [logits_of(features, [(4 + 1, 4 + 1)], null=10.0 + null / 2)[0] for null in nulls]
    before = task.score(task.decode(logits, features, examples), examples)
    calibrated = task.calibrate(logits, features, examples)
    after = calibrated.score(calibrated.decode(logits, features, examples), examples)
    assert after["f1"] == pytest.approx(before["best_f1"])
    assert after["f1"] >= before["f1"]
    assert calibrated.settings()["null_threshold"] == pytest.approx(before["best_f1_thresh"])
    assert task.null_threshold is None  # a task never changes


def test_a_threshold_needs_both_kinds() -> None:
    always = QuestionAnswering.fit(HAS)
    features = always.features(HAS, TOKENIZER, 32, learn=True)
    logits = logits_of(features, targets_of(features))
    assert always.calibrate(logits, features, HAS) is always
    given = QuestionAnswering.fit(HAS + NONE, null_threshold=-1.0)
    assert given.calibrate(logits, features, HAS) is given
    task = QuestionAnswering.fit(HAS + NONE)
    with pytest.warns(AnaumeWarning, match="threshold stays at 0: the 2 held-out questions all have answers"):
        assert task.calibrate(logits, features, HAS) is task


@pytest.mark.parametrize("answer", ["Она", "Осло", "Naïve 😀 plan", "😀", "в\u00a0Осло", "plan\r"])
def test_text_and_offsets_agree(answer: str) -> None:
    """QA-06: offsets are code points of the context as it was given, blanks outside."""
    context = "Она живёт в\u00a0Осло .  Naïve \U0001f600 plan\r\n"
    tokenizer = make_tokenizer(sorted(set("Оназжиётвслплаnaïvepl😀.он")), subwords="character")
    examples = [ask(context, answer)]
    task = QuestionAnswering.fit(examples)
    features = task.features(examples, tokenizer, 80, learn=True)
    (prediction,) = task.decode(logits_of(features, targets_of(features)), features, examples)
    assert prediction.start is not None
    assert prediction.end is not None
    assert prediction.answer == answer.strip() == context[prediction.start : prediction.end]
    for span in prediction.candidates:
        assert span.start < span.end
        assert span.text == context[span.start : span.end] == span.text.strip()


@pytest.mark.parametrize(
    ("rules", "given"),
    [({"words": "mecab", "nfkc": True}, "ﾀﾅｶ"), ({"subwords": "character", "nfkc": True}, "ﾀﾅｶ")],
    ids=["mecab", "characters"],
)
def test_japanese_answers_are_cut_from_the_original(rules: dict[str, Any], given: str) -> None:
    """JA-03: half-width kana and the ideographic space."""
    context = "東京都に住むﾀﾅｶさん　です"
    entries = [*sorted(set("東京都に住むタナカさんです")), *(f"##{c}" for c in "京都むナカんす"), "q"]
    tokenizer = make_tokenizer(
        entries if "words" in rules else [e for e in entries if len(e) == 1], lower_case=False, **rules
    )
    task = QuestionAnswering.fit([ask(context, given)])
    features = task.features([ask(context, given)], tokenizer, 40, learn=True)
    (prediction,) = task.decode(logits_of(features, targets_of(features)), features, [ask(context, given)])
    assert (prediction.answer, prediction.start, prediction.end) == (given, 6, 9)


def test_the_official_files() -> None:
    task = QuestionAnswering.fit(HAS + NONE)
    examples = HAS + NONE
    features = task.features(examples, TOKENIZER, 32, learn=True)
    predictions = task.decode(logits_of(features, targets_of(features), null=1.0), features, examples)
    answers, odds = official_answers(predictions, examples)
    assert answers == {"1": "b c", "2": "h", "3": "", "4": ""}
    assert odds["1"] == 2.0 - 20.0
    assert json.loads(json.dumps(odds, allow_nan=False))["4"] == 1e9  # nothing in it to answer with
    assert score_official(answers, examples)["exact"] == 1.0
    del answers["2"]
    with pytest.raises(DataError, match=r"1 of 4 questions have no prediction; the first is '2' \(dev\.json: 2\)"):
        score_official(answers, examples)
    with pytest.raises(DataError, match=r"dev\.json: 1: the id '1' is another question's too"):
        official_answers([predictions[0]] * 2, [examples[0]] * 2)


def test_what_a_user_hands_over() -> None:
    task = QuestionAnswering()
    wanted = QuestionExample(id="", question="q", context="a b", place="item 0")
    for handed in (("q", "a b"), ["q", "a b"], {"question": "q", "context": "a b"}):
        assert task.example(handed, "item 0") == wanted
    assert task.example({"question": "q", "context": "a", "id": "7"}, "item 0").id == "7"
    for wrong in ("q", ("q",), ("q", 3), {"question": "q"}, {"question": "q", "context": "a", "answers": []}, None):
        with pytest.raises(DataError, match=r"^item 0: question-answering reads \(question, context\)"):
            task.example(wrong, "item 0")


def test_no_examples_no_predictions() -> None:
    task = QuestionAnswering.restore(SPAN, {})
    features = task.features([], TOKENIZER, 32, learn=False)
    assert len(features) == 0
    assert task.decode([], features, []) == []
