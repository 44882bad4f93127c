"""Two models on the same rows: the paired bootstrap on data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from anaume.config import HeadConfig
from anaume.errors import SettingsError
from anaume.tasks.classification import Classification
from anaume.tasks.comparing import compare
from anaume.tasks.regression import Regression

TWO = Classification(HeadConfig(kind="classification", labels=("a", "b")))


def rows(right: list[bool]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([[0.0, 0.0 if own else 1.0] for own in right])


def test_a_model_that_is_right_where_the_other_is_and_more_differs() -> None:
    """Right on 80 and on 60 of 100, never the other way round: the difference of a resample is Binomial(100, 0.2)."""
    found = compare(TWO, rows([True] * 80 + [False] * 20), rows([True] * 60 + [False] * 40), resamples=300)
    assert found.difference == pytest.approx(0.2)
    assert (found.low, found.high) == (pytest.approx(0.122, abs=0.015), pytest.approx(0.278, abs=0.015))
    assert found.p == pytest.approx(2 / 301)  # none of the resamples says otherwise
    assert (found.differ, found.metric, found.examples, found.resamples) == (True, "accuracy", 100, 300)


def test_the_same_answers_do_not_differ() -> None:
    one = rows([True, False] * 20)
    found = compare(TWO, one, one, resamples=50)
    assert (found.difference, found.low, found.high, found.p, found.differ) == (0.0, 0.0, 0.0, 1.0, False)


def test_wins_and_losses_alike_do_not_differ_and_the_seed_decides() -> None:
    one, other = rows([True] * 10 + [False] * 10), rows([False] * 10 + [True] * 10)
    found = compare(TWO, one, other, resamples=41, seed=1)
    assert not found.differ
    assert found.p > 0.3
    assert found == compare(TWO, one, other, resamples=41, seed=1)
    assert found != compare(TWO, one, other, resamples=41, seed=2)


def test_resamples_without_a_score_are_left_out_and_none_at_all_is_an_error() -> None:
    task = Regression(HeadConfig(kind="regression"))
    labels = np.array([1.0, 1.0, 1.0, 5.0])
    one, other = np.stack([labels, labels], axis=1), np.stack([labels, -labels], axis=1)
    found = compare(task, one, other, resamples=60)
    assert found.difference == 2.0
    assert found.resamples < 60
    with pytest.raises(SettingsError, match="spearman is not defined on these examples"):
        compare(task, one[:3], other[:3], resamples=10)


@pytest.mark.parametrize("count", [0, 2])
def test_other_numbers_of_examples_are_refused(count: int) -> None:
    with pytest.raises(SettingsError, match="the same examples, at least one; got"):
        compare(TWO, rows([True] * count), rows([True] * (3 * count)))
