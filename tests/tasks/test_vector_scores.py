"""Correlations as scipy has them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from anaume.tasks.vector_scores import correlation, sts_scores


@pytest.mark.parametrize("seed", range(3))
def test_correlations_are_scipys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one, other = draw.integers(0, 6, 50).astype(float), draw.normal(size=50)  # many ties on one side
    assert correlation("spearman", one, other) == pytest.approx(spearmanr(one, other)[0], abs=1e-12)
    assert correlation("pearson", one, other) == pytest.approx(pearsonr(one, other)[0], abs=1e-12)


def test_a_constant_side_has_none_and_the_reason_is_said() -> None:
    assert math.isnan(correlation("pearson", np.ones(3), np.arange(3.0)))
    told = sts_scores(np.ones(3), np.arange(3.0))
    assert (told["spearman"], told["pearson"]) == (None, None)
    assert told["reason"] == "no correlation is defined: the scores are all the same"
