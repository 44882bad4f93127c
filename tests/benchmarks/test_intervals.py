"""Scores out of counts: the values of scikit-learn, and intervals that a bootstrap of the examples gives."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from benchmarks.intervals import accuracy_counts, estimate, f1_counts, span_counts

CHANCE = np.random.default_rng(0)
GOLD = CHANCE.integers(0, 4, 300)
GUESSES = np.where(CHANCE.random(300) < 0.7, GOLD, CHANCE.integers(0, 4, 300))
EXAMPLE = np.repeat(np.arange(60), 5)


def test_accuracy_and_macro_f1_are_those_of_scikit_learn() -> None:
    assert estimate(accuracy_counts(GOLD, GUESSES, EXAMPLE)).value == pytest.approx(accuracy_score(GOLD, GUESSES))
    for classes in ([0, 1, 2, 3], [1, 3]):
        ours = estimate(f1_counts(GOLD, GUESSES, EXAMPLE, classes)).value
        assert ours == pytest.approx(f1_score(GOLD, GUESSES, labels=classes, average="macro"))


def test_a_class_that_nobody_has_does_not_lower_the_mean() -> None:
    assert estimate(f1_counts(GOLD, GUESSES, EXAMPLE, [0, 1, 9])).value == pytest.approx(
        estimate(f1_counts(GOLD, GUESSES, EXAMPLE, [0, 1])).value
    )
    assert estimate(f1_counts(GOLD, GUESSES, EXAMPLE, [9])).value == 0.0


def test_an_entity_counts_when_bounds_and_type_are_right() -> None:
    gold = [{(0, 2, "PER"), (3, 4, "LOC")}, {(1, 2, "ORG")}, set()]
    found = [{(0, 2, "PER"), (3, 5, "LOC")}, {(1, 2, "PER")}, {(0, 1, "LOC")}]
    assert estimate(span_counts(gold, found)).value == pytest.approx(2 * 1 / (3 + 4))


def test_the_interval_is_that_of_the_examples_and_the_same_each_time() -> None:
    right = np.arange(400) < 300
    found = estimate(accuracy_counts(np.ones(400, int), right.astype(int), np.arange(400)))
    error = np.sqrt(0.75 * 0.25 / 400)  # of a mean of 400 coins
    assert (found.value - found.low, found.high - found.value) == pytest.approx((1.96 * error,) * 2, rel=0.15)
    assert found == estimate(accuracy_counts(np.ones(400, int), right.astype(int), np.arange(400)))


def test_words_of_one_sentence_are_drawn_together() -> None:
    """All words of a sentence right or all wrong: 10 sentences tell no more than 10 coins, however long they are."""
    gold, guesses = np.ones(1000, int), np.repeat([1, 0] * 5, 100)
    found = estimate(accuracy_counts(gold, guesses, np.repeat(np.arange(10), 100)))
    assert found.high - found.low > 0.4
