from __future__ import annotations

import math

import pytest
import scipy.stats

from anaume.training.finetuning.spread import Spread


def test_mean_and_interval_by_hand() -> None:
    """Student's t at 0.975 with 2 degrees of freedom is 4.302653."""
    spread = Spread.of([0.80, 0.90, 0.85])
    assert spread is not None
    half = 4.302653 * 0.05 / math.sqrt(3)
    assert (spread.mean, spread.deviation, spread.count) == (pytest.approx(0.85), pytest.approx(0.05), 3)
    assert (spread.low, spread.high) == (pytest.approx(0.85 - half, rel=1e-6), pytest.approx(0.85 + half, rel=1e-6))


def test_the_interval_is_scipys() -> None:
    values = [0.61, 0.58, 0.64, 0.55, 0.60]
    spread = Spread.of(values)
    assert spread is not None
    low, high = scipy.stats.t.interval(0.95, 4, sum(values) / 5, scipy.stats.sem(values))
    assert (spread.low, spread.high) == (pytest.approx(low), pytest.approx(high))


def test_the_interval_stays_within_what_a_score_can_be() -> None:
    spread = Spread.of([0.95, 1.0, 0.95], (0.0, 1.0))
    assert spread is not None
    assert (spread.high, spread.deviation) == (1.0, pytest.approx(0.0288675))
    assert spread.low == pytest.approx(0.9666667 - 4.302653 * 0.0288675 / math.sqrt(3))


def test_one_value_has_no_interval_and_none_has_nothing() -> None:
    assert Spread.of([0.5]) == Spread(0.5, None, None, None, 1)
    assert Spread.of([]) is None
