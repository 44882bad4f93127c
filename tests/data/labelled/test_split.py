"""The held-out part: its size, its classes, no copies on both sides, the same every time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.labelled import (
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
    count_seen,
    split_examples,
)
from anaume.errors import DataError, SettingsError


def texts(labels):
    return [TextExample(text=f"text {number}", label=label) for number, label in enumerate(labels)]


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=60), st.floats(0.05, 0.95), st.integers(0, 5))
def test_every_example_is_on_one_side_in_input_order(labels, share, seed):
    examples = texts(labels)
    train, dev = split_examples(examples, share, seed)
    numbers = {example.text: number for number, example in enumerate(examples)}
    for part in (train, dev):
        assert part
        assert [numbers[example.text] for example in part] == sorted(numbers[example.text] for example in part)
    assert sorted(numbers[example.text] for example in [*train, *dev]) == list(range(len(examples)))
    assert (train, dev) == split_examples(examples, share, seed)


def test_classes_keep_their_share_and_the_sizes_add_up():
    examples = texts(["a"] * 80 + ["b"] * 17 + ["c"] * 3)
    train, dev = split_examples(examples, 0.1, 0)
    assert len(dev) == 10
    assert Counter(example.label for example in dev) == {"a": 8, "b": 2}
    train, dev = split_examples(examples, 0.5, 0)
    assert Counter(example.label for example in dev)["c"] in (1, 2)
    assert "c" in {example.label for example in train}
    alone = texts(["a"] * 9 + ["b"])
    assert all(alone[-1] in split_examples(alone, 0.9, seed)[0] for seed in range(9))


def test_other_seeds_split_otherwise_and_this_one_as_ever():
    examples = texts(["a"] * 20)
    parts = {tuple(example.text for example in split_examples(examples, 0.2, seed)[1]) for seed in range(8)}
    assert len(parts) == 8
    assert [example.text for example in split_examples(examples, 0.2, 0)[1]] == [
        "text 0",
        "text 14",
        "text 15",
        "text 17",
    ]


def test_what_dev_shares_with_train_is_counted():
    train = texts(["a"] * 5)
    assert count_seen(train, [train[2], train[2], TextExample(text="text 2", pair="p", label="a")]) == 2
    assert count_seen([], train) == count_seen(train, []) == 0
    one, other = (QuestionExample(id=name, question=name, context="c", title="t", answers=()) for name in "ab")
    elsewhere = QuestionExample(id="c", question="a", context="d", title="t", answers=())
    assert count_seen([one], [other, elsewhere]) == 1  # an article in two parts is no copy
    near, far = (SimilarityExample(text="q", positives=(name,)) for name in ("p", "r"))
    assert count_seen([near], [near, far]) == 1


def test_copies_stay_together():
    examples = [TextExample(text=f"text {number % 10}", pair="p", label="ab"[number % 2]) for number in range(40)]
    train, dev = split_examples(examples, 0.4, 1)
    assert len(dev) == 16
    assert not {example.text for example in train} & {example.text for example in dev}
    questions = [
        QuestionExample(id=str(number), question="q", context=f"c {number % 9}", title=f"t {number % 3}", answers=())
        for number in range(30)
    ]
    train, dev = split_examples(questions, 0.34, 0)
    assert len({example.title for example in dev}) == 1
    assert len(dev) == 10


def test_numbers_and_tags_are_not_classes():
    numbers = [TextExample(text=str(number), label=float(number)) for number in range(20)]
    assert len(split_examples(numbers, 0.2, 0)[1]) == 4
    tagged = [TaggedExample(text=f"a {number}", spans=((0, 1),), tags=("O",)) for number in range(20)]
    assert len(split_examples(tagged, 0.2, 0)[1]) == 4


def test_what_can_not_be_split_is_refused():
    for share in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(SettingsError, match="between 0 and 1"):
            split_examples(texts("ab"), share, 0)
    with pytest.raises(DataError, match="2 examples with 1 different contents"):
        split_examples([TextExample(text="a", label="x")] * 2, 0.5, 0)
    train, dev = split_examples(texts("ab"), 0.1, 0)
    assert (len(train), len(dev)) == (1, 1)
