"""EM, F1 and thresholds, by values worked out from the published definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.tasks.squad_scores import best_threshold, normalize_answer, question_scores, rule_for, squad_scores


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The  Cat's, the a\tAN hat!", "cats hat"),
        ("an-a the", "ana"),
        ("theatre another a.b", "theatre another ab"),
        ("U.S.", "us"),
        ("“quoted”、。", "“quoted”、。"),  # only ASCII punctuation goes
        ("\u3000 5\u00a0月 ", "5 月"),
        ("", ""),
    ],
)
def test_what_is_compared(text: str, wanted: str) -> None:
    assert normalize_answer(text) == wanted


@pytest.mark.parametrize(
    ("answer", "right", "exact", "f1"),
    [
        ("the Cat", ["cat"], 1.0, 1.0),
        ("black cat", ["cat", "a big black cat"], 0.0, 0.8),  # 2 * 2 / (2 + 3)
        ("cat cat", ["cat"], 0.0, 2 / 3),  # a word counts as often as both have it
        ("dog", ["cat"], 0.0, 0.0),
        ("", [], 1.0, 1.0),
        ("cat", [], 0.0, 0.0),
        ("", ["cat"], 0.0, 0.0),
        ("the", [], 1.0, 1.0),  # nothing is left of it
        ("cat", ["the", "cat"], 1.0, 1.0),  # a right answer of which nothing is left is none
        ("", ["the"], 1.0, 1.0),
    ],
)
def test_a_question(answer: str, right: list[str], exact: float, f1: float) -> None:
    assert question_scores(answer, right) == (exact, pytest.approx(f1))


def test_characters_are_counted_where_words_are_not_parted() -> None:
    """小笠原諸島 against 小笠原諸島を除く日本: 5 of 5 and 5 of 10 characters, while as words nothing is shared."""
    right = ["小笠原諸島を除く日本"]
    assert question_scores("小笠原諸島", right, "characters") == (0.0, pytest.approx(2 * 5 / 15))
    assert question_scores("小笠原諸島", right, "words") == (0.0, 0.0)
    for answer, gold in (("東京。", "東京"), ("BBC", "bbc"), ("5月\u3000から", "5月 から"), ("", "。")):
        assert question_scores(answer, [gold], "characters") == (1.0, 1.0)
    # JSQuAD's rule deletes neither punctuation nor articles: "A" is an answer there, and is not "the"
    for answer, gold in (("A", "the"), ("-", "."), ("「東京」", "東京")):
        assert question_scores(answer, [gold], "characters")[0] == 0.0
    assert question_scores("A", ["A", "Aクラス"], "characters") == (1.0, 1.0)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["France", "10th and 11th centuries"], "words"),
        (["東アジア", "5月から7月", "BBC"], "characters"),
        (["ﾀﾅｶ"], "characters"),
        (["서울은 수도", "Осло"], "words"),
        (["1990", "5"], "words"),
        (["Tokyo (東京) and many other towns"], "words"),
        ([], "words"),
    ],
)
def test_the_rule_is_decided_by_the_letters(texts: list[str], wanted: str) -> None:
    assert rule_for(texts) == wanted


def test_official_names_and_means() -> None:
    right = [["cat"], ["black cat"], [], []]
    scores = squad_scores(["cat", "cat", "", "dog"], right)
    assert scores == {
        "exact": 0.5,
        "f1": pytest.approx((1 + 2 / 3 + 1 + 0) / 4),
        "total": 4,
        "HasAns_exact": 0.5,
        "HasAns_f1": pytest.approx(5 / 6),
        "HasAns_total": 2,
        "NoAns_exact": 0.5,
        "NoAns_f1": 0.5,
        "NoAns_total": 2,
        "rule": "words",
    }
    assert squad_scores(["cat"], [["cat"]], null_odds=[0.0]).keys() == {"exact", "f1", "total", "rule"}
    assert squad_scores([], []) == {"exact": None, "f1": None, "total": 0, "rule": "words"}


def test_the_best_threshold_by_hand() -> None:
    """Odds -3 right, -1 wrong but unanswerable, 2 right, 5 unanswerable: answering the first three gives 3 of 4."""
    answered, empty = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 0.0, 1.0])
    assert best_threshold(answered, empty, np.array([-3.0, -1.0, 2.0, 5.0])) == (0.75, -2.0)
    # -2 parts the first (1 + 1 + 0 + 1) just as well as 3.5 (1 + 0 + 1 + 1): of equals the lowest
    assert best_threshold(answered[:1], empty[:1], np.array([7.0])) == (1.0, 8.0)
    assert best_threshold(answered[1:2], empty[1:2], np.array([7.0])) == (1.0, 6.0)


def test_equal_odds_are_never_parted() -> None:
    answered, empty = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    best, _ = best_threshold(answered, empty, np.array([2.0, 2.0]))
    assert best == 0.5


def test_spans_that_can_not_be_are_empty_whatever_the_threshold() -> None:
    answered, empty = np.array([1.0, 1.0]), np.array([0.0, 1.0])
    assert best_threshold(answered, empty, np.array([0.0, np.inf])) == (1.0, 1.0)
    assert best_threshold(empty, empty, np.array([np.inf, np.inf])) == (0.5, 0.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(-5, 5)), min_size=1, max_size=12))
def test_no_other_threshold_is_better(rows: list[tuple[float, float, int]]) -> None:
    answered, empty, odds = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))

    def mean(threshold: float) -> float:
        return float(np.where(odds > threshold, empty, answered).mean())

    best, threshold = best_threshold(answered, empty, odds)
    assert best == pytest.approx(mean(threshold))
    assert best == pytest.approx(max(mean(value) for value in np.arange(-7, 7.5, 0.5)))
