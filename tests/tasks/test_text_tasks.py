"""What all tasks over whole texts share: rows, pairs, windows, coverage, what users may hand over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anaume.data.labelled import ChoiceExample, TextExample
from anaume.errors import DataError, SettingsError, TokenizerError
from anaume.tasks.classification import Classification, PairClassification
from anaume.tasks.multi_label import MultiLabel
from anaume.tasks.regression import Regression
from anaume.tasks.task import Task
from tiny_bundles import tiny_tokenizer
from tiny_labels import examples, logits

LONG = "my dog is cute and the bank of the river is open"  # 12 pieces
KNOWN = Classification.fit(examples(20))
EITHER = Classification(KNOWN.head)  # of a foreign checkpoint: what it learned from is not known


def test_a_text_is_a_row_and_a_pair_is_one_with_segments() -> None:
    rows = [TextExample(text="my dog", label="animal"), TextExample(text="", pair="the river", label="place")]
    features = EITHER.features(rows, tiny_tokenizer(), 16, learn=True)
    assert [features.segment_ids[row].tolist() for row in range(2)] == [[0, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert features.targets["labels"].tolist() == [0, 1]  # type: ignore[union-attr]
    assert (features.rows, features.examples.tolist(), features.pieces, features.unknown) == (2, [0, 1], 4, 0)
    assert EITHER.features(rows, tiny_tokenizer(), 16, learn=False).targets == {}
    assert len(EITHER.features([], tiny_tokenizer(), 16, learn=False)) == 0


def test_a_long_text_is_cut_and_its_coverage_says_so() -> None:
    features = KNOWN.features([TextExample(text=LONG), TextExample(text="dog")], tiny_tokenizer(), 8, learn=False)
    assert features.coverage.tolist() == [pytest.approx(0.5), 1.0]
    assert features.cut == 1
    found = KNOWN.decode(logits([[0, 1], [1, 0]]), features, [])
    assert [one.coverage for one in found] == [pytest.approx(0.5), 1.0]
    assert [one.window for one in found] == [None, None]
    assert "window" not in found[0].record()


def test_windows_hold_the_whole_text_share_the_stride_and_learn_its_label() -> None:
    task = Classification.fit(examples(20), stride=2)
    rows = [TextExample(text="dog", label="animal"), TextExample(text=LONG, label="place")]
    features = task.features(rows, tiny_tokenizer(), 8, learn=True)
    assert features.examples.tolist() == [0, 1, 1, 1]
    assert features.targets["labels"].tolist() == [0, 1, 1, 1]  # type: ignore[union-attr]
    assert features.coverage.tolist() == [1.0, 1.0]
    spans = features.details[1:]
    assert [LONG[start:end].split() for start, end in spans] == [
        LONG.split()[0:6], LONG.split()[4:10], LONG.split()[8:12],
    ]  # fmt: skip


def test_windows_are_averaged_and_the_one_that_decided_is_told() -> None:
    rows = [TextExample(text="dog"), TextExample(text=LONG)]
    said = logits([[1, 0], [0, 0], [0, 3], [0, -1]])
    task = Classification.fit(examples(20), stride=2)
    features = task.features(rows, tiny_tokenizer(), 8, learn=False)
    short, long = task.decode(said, features, rows)
    assert short.window is None
    each = [1 / (1 + np.exp(-gap)) for gap in (0, 3, -1)]
    assert long.probabilities["place"] == pytest.approx(np.mean(each))
    assert (long.label, long.window) == ("place", features.details[2])
    assert long.record()["window"] == list(features.details[2])

    numbers = Regression.fit([TextExample(text="", label=value) for value in (0.0, 4.0)], stride=2)
    features = numbers.features(rows, tiny_tokenizer(), 8, learn=False)
    value = numbers.decode(logits([[1], [0], [0.5], [1]]), features, rows)[1]
    assert (value.value, value.window) == (pytest.approx(3.0), features.details[2])  # mean 2, spread 2

    several = MultiLabel.fit([TextExample(text="", label=label) for label in (("a", "b"), ())], stride=2)
    features = several.features(rows, tiny_tokenizer(), 8, learn=False)
    labels = several.decode(logits([[0, 0], [-9, 0], [9, -9], [-9, -9]]), features, rows)[1]
    assert (labels.labels, labels.window) == ((), features.details[2])
    assert labels.probabilities["a"] == pytest.approx(1 / 3, abs=1e-3)


def test_pairs_are_cut_and_never_windowed() -> None:
    task = Classification(KNOWN.head, stride=2)
    features = task.features([TextExample(text=LONG, pair=LONG)], tiny_tokenizer(), 15, learn=False)
    assert (features.rows, features.details) == (1, [None])
    assert features.coverage.tolist() == [pytest.approx(0.5)]


@pytest.mark.parametrize("label", ["y", 1.5, ("a", "b")])
def test_a_stride_that_could_never_be_used_is_refused_before_anything_is_learned(label: Any) -> None:
    """Short texts learn as well with it; the first long one to be predicted failed, and nothing could be done then."""
    other = {"y": "z", 1.5: 2.5, ("a", "b"): ()}[label]
    kind: Any = {str: Classification, float: Regression, tuple: MultiLabel}[type(label)]
    alone = [TextExample(text="a", label=one) for one in (label, other)]
    kind.fit(alone, stride=5).features(alone, tiny_tokenizer(), 8, learn=True)
    with pytest.raises(SettingsError, match=r"task\.stride is 6, and a window of 8 tokens has room for 6 pieces"):
        kind.fit(alone, stride=6).features(alone, tiny_tokenizer(), 8, learn=True)
    pairs = [TextExample(text="a", pair="b", label=one) for one in (label, other)]
    with pytest.raises(
        SettingsError, match=r"task\.stride reads long texts in windows, and pairs are cut: leave it out"
    ):
        kind.fit(pairs, stride=2).features(pairs, tiny_tokenizer(), 8, learn=True)


@pytest.mark.parametrize("label", ["y", 1.5, ("a", "b")])
def test_what_it_did_not_learn_from_is_refused(label: Any) -> None:
    """A table with two columns of texts would be read as pairs, and nobody would know."""
    other = {"y": "z", 1.5: 2.5, ("a", "b"): ()}[label]
    kind: Any = {str: Classification, float: Regression, tuple: MultiLabel}[type(label)]
    alone = [TextExample(text="a", label=one, place="t: row 2") for one in (label, other)]
    pairs = [TextExample(text="a", pair="b", label=one, place="t: row 2") for one in (label, other)]
    for learned, refused, said in (
        (alone, pairs, "t: row 2: the model learned from texts, and this is a pair; --column text=NAME"),
        (
            pairs,
            alone,
            "t: row 2: the model learned from pairs, and this is one text; --column text=NAME --column pair=",
        ),
    ):
        fitted = kind.fit(learned)
        for task in (fitted, kind.restore(fitted.head, fitted.settings())):
            assert task.features(learned, tiny_tokenizer(), 16, learn=False).rows == 2
            with pytest.raises(DataError, match=said):
                task.features(refused, tiny_tokenizer(), 16, learn=False)
    assert kind.fit([*alone, *pairs]).features([*alone, *pairs], tiny_tokenizer(), 16, learn=True).rows == 4


def test_windows_that_could_not_move_on_are_refused() -> None:
    task = Classification.fit(examples(20), stride=6)
    with pytest.raises(TokenizerError, match="no room is left to move forward; raise max_length or lower stride"):
        task.features([TextExample(text=LONG)], tiny_tokenizer(), 8, learn=False)


@pytest.mark.parametrize("stride", [-1, True, 1.0, "2"])
def test_a_stride_that_is_none_is_refused(stride: Any) -> None:
    with pytest.raises(SettingsError, match=r"task\.stride, the pieces windows share, must be a whole number"):
        Classification.fit(examples(20), stride=stride)


PAIRED = PairClassification.fit([TextExample(text="a", pair="b", label=label) for label in "yn"])


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        (KNOWN, 7, "input 3: classification reads a text or a pair (text, text); got int 7"),
        (KNOWN, ("a", "b", "c"), "reads a text or a pair (text, text); got tuple"),
        (PAIRED, "a text", "input 3: pair-classification reads a pair (text, text); got str 'a text'"),
        (PAIRED, ("a", 3), "got tuple ('a', 3)"),
    ],
)
def test_what_is_handed_over_must_fit(task: Task[Any, Any], given: object, said: str) -> None:
    with pytest.raises(DataError) as caught:
        task.example(given, "input 3")
    assert said in str(caught.value)


def test_texts_and_pairs_are_what_users_hand_over() -> None:
    assert KNOWN.example("a", "p") == TextExample(text="a", place="p")
    assert PAIRED.example(["a", "b"], "p") == TextExample(text="a", pair="b", place="p")


def test_examples_of_another_task_are_refused_by_their_row() -> None:
    alone = TextExample(text="a", label="y", place="x.tsv: row 4")
    with pytest.raises(DataError, match=r"x\.tsv: row 4: pair-classification reads a pair a row; came one text"):
        PAIRED.features([alone], tiny_tokenizer(), 16, learn=True)
    other: Any = ChoiceExample(question="q", options=("a", "b"), place="c.csv: row 2")
    with pytest.raises(DataError, match=r"c\.csv: row 2: classification reads a text or a pair a row; came ChoiceExa"):
        KNOWN.features([other], tiny_tokenizer(), 16, learn=False)
