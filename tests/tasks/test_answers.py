"""Choosing answers: the published rules, and cases QA-03 to QA-05 of public reports with their kind."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.tasks.answers import AnswerPrediction, Window, best_spans, choose_answer
from anaume.tokenization.windows import window_spans

SETTINGS: dict[str, Any] = {"coverage": 1.0, "n_best": 20, "max_answer_length": 30, "null_threshold": None}


def letters(count: int, first: int = 2, start: int = 0) -> Window:
    """A window over `count` pieces of a letter each, from letter `start` of the context."""
    spans = np.array([(start + place, start + place + 1) for place in range(count)], dtype=np.int32)
    return Window(first, spans.reshape(-1, 2), (start, start + count))


def row(starts: Sequence[float], ends: Sequence[float], null: float = 0.0) -> Any:
    """The logits of [CLS] [SEP] context [SEP]: start and end of each piece, `null` for [CLS] in all."""
    places = [[null / 2, null / 2], [90.0, 90.0], *([s, e] for s, e in zip(starts, ends, strict=True)), [90.0, 90.0]]
    return np.array(places, dtype=np.float32)


def choose(context: str, windows: list[Window], logits: list[Any], **settings: Any) -> AnswerPrediction:
    prediction = choose_answer(context, windows, logits, **{**SETTINGS, **settings})
    json.dumps(prediction.record(), allow_nan=False)
    return prediction


def test_by_hand() -> None:
    prediction = choose("abc", [letters(3)], [row([1, 4, 0], [3, 0, 2], null=1.0)])
    assert [(span.text, span.score) for span in prediction.candidates] == [
        ("bc", 6.0),
        ("a", 4.0),
        ("b", 4.0),
        ("abc", 3.0),
        ("c", 2.0),
        ("ab", 1.0),
    ]
    assert (prediction.answer, prediction.start, prediction.end) == ("bc", 1, 3)
    assert sum(span.probability for span in prediction.candidates) == pytest.approx(1.0)
    assert prediction.candidates[0].probability / prediction.candidates[1].probability == pytest.approx(math.exp(2))
    assert prediction.null_odds == -5.0
    short = choose("abc", [letters(3)], [row([1, 4, 0], [3, 0, 2])], max_answer_length=1, n_best=2)
    assert [span.text for span in short.candidates] == ["a", "b"]


@pytest.mark.parametrize(("threshold", "answer"), [(0.0, "d"), (-2.0, "d"), (-3.0, "")])
def test_the_null_score_is_the_lowest_of_all_windows(threshold: float, answer: str) -> None:
    """QA-04: nulls 5 and 1, best spans 2 and 3: null = 1, 1 - 3 = -2."""
    windows = [letters(2), letters(2, start=2)]
    logits = [row([1, -9], [1, -9], null=5.0), row([-9, 1], [-9, 2], null=1.0)]
    for order in ([0, 1], [1, 0]):
        prediction = choose("abcd", [windows[i] for i in order], [logits[i] for i in order], null_threshold=threshold)
        assert (prediction.null_score, prediction.null_odds) == (1.0, -2.0)
        assert prediction.answer == answer
        assert prediction.window == (2, 4)  # of the span, or of the lowest null score
        assert prediction.score == (3.0 if answer else 1.0)
        null_probability = 1.0 - sum(span.probability for span in prediction.candidates)
        assert null_probability > 0.0
        assert prediction.probability == pytest.approx(
            prediction.candidates[0].probability if answer else null_probability
        )


def test_scores_compare_over_contexts() -> None:
    """QA-05: 9.0 and 8.9 in one context, 2.0 alone in another. By probabilities the 2.0 would come first."""
    a = choose("ab", [letters(2)], [row([4.5, -9], [4.5, 4.4], null=-9)])
    b = choose("x", [letters(1)], [row([1.0], [1.0], null=-9)])
    ranked = sorted((*a.candidates, *b.candidates), key=lambda span: -span.score)
    assert [(span.text, round(span.score, 4)) for span in ranked[:3]] == [("a", 9.0), ("ab", 8.9), ("x", 2.0)]
    for prediction in (a, b):
        probabilities = [span.probability for span in prediction.candidates]
        assert probabilities == sorted(probabilities, reverse=True)  # one order, whatever one looks at
    assert a.candidates[0].probability == pytest.approx(0.524979, abs=1e-5)
    assert b.candidates[0].probability == 1.0


BROKEN = [math.nan, math.inf, -math.inf, 3e38, -3e38]


@pytest.mark.parametrize("number", BROKEN)
@pytest.mark.parametrize("pieces", [0, 1, 3])
@pytest.mark.parametrize("missing", [True, False])
def test_there_is_always_an_answer(number: float, pieces: int, missing: bool) -> None:
    """QA-03: broken scores everywhere, and contexts without pieces, of one and of more."""
    logits = np.full((pieces + 3, 2), number, dtype=np.float32)
    prediction = choose("abc"[:pieces], [letters(pieces)], [logits], null_threshold=0.0 if missing else None)
    assert math.isfinite(prediction.null_score)
    assert math.isfinite(prediction.score)
    assert prediction.answer == "abc"[: len(prediction.answer)]
    if pieces == 0:
        assert (prediction.answer, prediction.start, prediction.candidates) == ("", None, ())
        assert prediction.null_odds == math.inf
        assert prediction.probability == (1.0 if missing else 0.0)
    elif not missing:
        assert prediction.answer == "a"
    elif math.isnan(number):
        assert prediction.answer == ""


def test_what_is_no_number_is_never_the_answer() -> None:
    scores = row([math.nan, 0.1, 0.0], [0.2, 0.3, math.nan])
    assert choose("abc", [letters(3)], [scores]).answer == "b"
    null = row([0.1], [0.1], null=math.nan)
    assert choose("ab", [letters(1), letters(1, start=1)], [null, row([0], [0], null=-4.0)]).null_score == -4.0


def test_pieces_without_characters_bound_no_answer() -> None:
    window = Window(2, np.array([(0, 0), (1, 2), (2, 2)], dtype=np.int32), (0, 3))
    prediction = choose(" b ", [window], [row([9, 0, 9], [9, 0, 9])])
    assert [span.text for span in prediction.candidates] == ["b"]
    assert choose("  ", [Window(2, np.zeros((2, 2), np.int32), (0, 2))], [row([1, 1], [1, 1])]).answer == ""


@given(st.data())
def test_the_best_spans_are_those_of_a_full_search(data: st.DataObject) -> None:
    pieces = data.draw(st.integers(1, 9))
    numbers = st.lists(st.integers(-3, 3), min_size=pieces, max_size=pieces)  # small ones: many ties
    starts, ends = data.draw(numbers), data.draw(numbers)
    count, longest = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 12))
    found = best_spans(letters(pieces), row(starts, ends), count, longest)
    every = [(i, j + 1, float(starts[i] + ends[j])) for i in range(pieces) for j in range(i, min(pieces, i + longest))]
    every.sort(key=lambda span: (-span[2], span[0], span[1]))
    assert sorted(found, key=lambda span: (-span[2], span[0], span[1])) == every[:count]


@given(st.data())
def test_the_order_does_not_depend_on_the_windows(data: st.DataObject) -> None:
    """Cut anyhow, with windows that share as much as an answer may have, the same candidates come in the same order."""
    pieces, longest = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 5))
    room = data.draw(st.integers(longest, 30))
    stride = data.draw(st.integers(longest - 1, max(longest - 1, room - 1)))
    numbers = st.lists(st.integers(-20, 20), min_size=pieces, max_size=pieces)
    starts, ends = data.draw(numbers), data.draw(numbers)
    context = "".join(chr(97 + place % 26) for place in range(pieces))
    settings = {"max_answer_length": longest, "n_best": 10, "null_threshold": 0.0}
    cuts = window_spans(pieces, room, min(stride, room - 1))
    windows = [letters(stop - start, start=start) for start, stop in cuts]
    logits = [row(starts[start:stop], ends[start:stop]) for start, stop in cuts]
    cut = choose(context, windows, logits, **settings)
    whole = choose(context, [letters(pieces)], [row(starts, ends)], **settings)
    assert [(s.text, s.start, s.end, s.score) for s in cut.candidates] == [
        (s.text, s.start, s.end, s.score) for s in whole.candidates
    ]
    assert cut.answer == whole.answer
    for span in cut.candidates:
        assert span.window[0] <= span.start < span.end <= span.window[1]
