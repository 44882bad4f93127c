"""Questions as rows: layout, windows, where answers are pointed at, and what can't be learned is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data.labelled import Answer, QuestionExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import IGNORED, Features, Note
from anaume.tasks.question_rows import question_rows
from anaume.tokenization import Tokenizer
from helpers import make_tokenizer

LETTERS = make_tokenizer("a b c d e f g h q [ sep ] ##s")


def ask(context: str, *answers: tuple[str, int] | None, question: str = "q q", id: str = "1") -> QuestionExample:
    given = None if answers == (None,) else tuple(Answer(*answer) for answer in answers if answer)
    return QuestionExample(id=id, question=question, context=context, answers=given, place=f"train.json: {id}")


def rows_of(
    *examples: QuestionExample, max_length: int = 32, tokenizer: Tokenizer = LETTERS, learn: bool = True, **other: Any
) -> Features:
    return question_rows(examples, tokenizer, max_length, **{"stride": 1, "longest": 30, "learn": learn, **other})


def tokens(features: Features, row: int, tokenizer: Tokenizer = LETTERS) -> str:
    return " ".join(tokenizer.vocab[token] for token in features.token_ids[row])


def pointed(features: Features, row: int, context: str) -> str | None:
    """The text between the targets of a row."""
    start, end = (int(features.targets[name][row]) for name in ("start", "end"))
    if start == end == 0:
        return None
    window = features.details[row]
    return context[window.spans[start - window.first, 0] : window.spans[end - window.first, 1]]


def test_layout_and_windows() -> None:
    context = "a b c d e f g"
    features = rows_of(ask(context, ("e f", 8)), ask("a", id="2"), max_length=9)
    assert [tokens(features, row) for row in range(features.rows)] == [
        "[CLS] q q [SEP] a b c d [SEP]",
        "[CLS] q q [SEP] d e f g [SEP]",
        "[CLS] q q [SEP] a [SEP]",
    ]
    assert features.segment_ids[0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert features.examples.tolist() == [0, 0, 1]
    assert features.coverage.tolist() == [1.0, 1.0]
    # [CLS] where the window does not hold it, or there is none
    assert np.array_equal(np.asarray(features.targets["start"]), [0, 5, 0])
    assert np.array_equal(np.asarray(features.targets["end"]), [0, 6, 0])
    assert [window.bounds for window in features.details] == [(0, 8), (6, 13), (0, 1)]
    assert rows_of(ask(context, None), learn=False).targets == {}


def test_an_answer_cut_by_a_window_is_pointed_at_where_it_is_whole() -> None:
    context = "a b c d e f g"
    features = rows_of(ask(context, ("d e", 6)), max_length=9)
    assert [pointed(features, row, context) for row in range(2)] == [None, "d e"]


@pytest.mark.parametrize(("given", "wanted"), [(1, 1), (3, 2), (128, 2)])
def test_windows_share_at_most_half_of_their_room(given: int, wanted: int) -> None:
    features = rows_of(ask("a b c d e f g h"), max_length=9, stride=given)
    first, second = features.token_ids[0][4:-1].tolist(), features.token_ids[1][4:-1].tolist()
    assert first[-wanted:] == second[:wanted]
    assert first[-wanted - 1] not in second


@pytest.mark.parametrize("max_length", [5, 6, 9, 12])
def test_a_question_takes_at_most_half_of_a_row(max_length: int) -> None:
    context = "a b c d e f g h"
    features = rows_of(ask(context, ("c", 4), question="q " * 20), max_length=max_length)
    assert features.cut == 1
    kept = (max_length - 3) // 2
    for row in range(features.rows):
        assert tokens(features, row).startswith("[CLS]" + " q" * kept + " [SEP] ")
        assert len(features.token_ids[row]) <= max_length
    assert features.coverage[0] == pytest.approx((kept + 8) / 28)
    assert {piece for row in range(features.rows) for piece in tokens(features, row).split()} >= set("abcdefgh")
    assert "c" in {pointed(features, row, context) for row in range(features.rows)}


def test_a_row_too_short_for_anything_is_refused() -> None:
    with pytest.raises(SettingsError, match="max_length of at least 5; got 4"):
        rows_of(ask("a"), max_length=4)


@pytest.mark.parametrize("context", ["", "   ", "\u200b"])
def test_a_context_without_pieces_has_one_row(context: str) -> None:
    features = rows_of(ask(context, None), learn=False)
    assert tokens(features, 0) == "[CLS] q q [SEP] [SEP]"
    assert features.coverage.tolist() == [1.0]


def test_a_literal_separator_is_text() -> None:
    """JSQuAD's contexts are "title [SEP] paragraph": three pieces, in segment B, offsets as in the file."""
    context = "a [SEP] b c"
    features = rows_of(ask(context, ("b c", 8)))
    assert tokens(features, 0) == "[CLS] q q [SEP] a [ sep ] b c [SEP]"
    assert pointed(features, 0, context) == "b c"


@pytest.mark.parametrize(
    "answers",
    [
        [("x", 0)],  # something else stands there
        [("b", 0)],
        [("a b c d e f g h", 0)],  # longer than any window
        [("a", -9)],
        [("", 2)],
        [("d e ", 99)],
        [(" ", 1)],
    ],
)
def test_what_can_not_be_learned_is_left_out_and_said(answers: list[tuple[str, int]]) -> None:
    """QA-06: an answer that does not stand at its place is no training example, and never an exception."""
    context = "a b c d e f g h"
    features = rows_of(ask(context, ("c", 4)), ask(context, *answers, id="2"), max_length=9)
    (told,) = features.told
    assert told.startswith("1 questions are not learned: the answer does not stand where it is said to")
    assert told.endswith("(first: train.json: 2)")
    own = features.examples == 1
    for name in ("start", "end"):
        assert np.array_equal(np.asarray(features.targets[name]) == IGNORED, own)


def test_the_first_answer_that_pieces_bound_is_learned() -> None:
    context = "cats a b"
    tokenizer = make_tokenizer("cat ##s a b q")
    inside = ("at", 1)  # begins within a piece
    assert pointed(rows_of(ask(context, inside, ("a", 5), ("b", 7)), tokenizer=tokenizer), 0, context) == "a"
    assert pointed(rows_of(ask(context, inside), tokenizer=tokenizer), 0, context) == "cat"
    assert pointed(rows_of(ask(context, ("x", 0), ("b", 7)), tokenizer=tokenizer), 0, context) == "b"


def test_answers_too_long_to_be_predicted_are_said() -> None:
    short, long = ask("a b c d", ("a b c", 0)), ask("a b c d", ("a b c d", 0), id="2")
    said = "answers have more than 3 pieces and can't be predicted: raise max_answer_length"
    assert rows_of(short, long, long, longest=3).notes == {said: Note(2, "train.json: 2")}
    parts = [rows_of(*part, longest=3) for part in ([short], [long], [long, long])]
    assert Features.joined(parts).told == [f"3 {said} (first: train.json: 2)"]


def test_answers_must_be_given_to_learn() -> None:
    with pytest.raises(DataError, match=r"train\.json: 1: .* answers are not given"):
        rows_of(ask("a", None))


WORDS = st.sampled_from(["Она", "живёт", "в", "Осло", "😀", "plan", "Naïve", "東京都", "ﾀﾅｶ", "e\u0301t\u0301", "x"])
BLANKS = st.sampled_from([" ", "\u00a0", "  ", "\r\n", "\u3000", " . ", "\t"])


@settings(max_examples=50)
@given(st.lists(st.tuples(WORDS, BLANKS), min_size=1, max_size=15), st.data())
@pytest.mark.parametrize("rules", [{}, {"subwords": "character", "lower_case": False}], ids=["wordpiece", "characters"])
def test_every_word_can_be_pointed_at(rules: dict[str, Any], parts: list[tuple[str, str]], data: st.DataObject) -> None:
    """QA-06: any answer of whole words, in any window, comes back as it was written."""
    context = "".join(word + blank for word, blank in parts)
    tokenizer = make_tokenizer(sorted(set("Оназживётвосл😀planïnve東京都ﾀﾅｶタナカetx.")), **rules)
    begins = [sum(map(len, map("".join, parts[:index]))) for index in range(len(parts))]
    first = data.draw(st.integers(0, len(parts) - 1))
    last = data.draw(st.integers(first, min(len(parts) - 1, first + 1)))
    start, end = begins[first], begins[last] + len(parts[last][0])
    answer = context[start:end]
    features = rows_of(ask(context, (answer, start)), max_length=data.draw(st.integers(8, 40)), tokenizer=tokenizer)
    starts = np.asarray(features.targets["start"])  # -100 where the answer is too long for every window
    found = {pointed(features, row, context) for row in range(features.rows) if starts[row] >= 0}
    assert found <= {None, answer}
    for window in features.details:
        for left, right in window.spans.tolist():
            assert context[left:right] == context[left:right].strip()
