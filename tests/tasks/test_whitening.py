"""Whitened vectors have mean 0 and no correlations."""

from __future__ import annotations

import numpy as np
import pytest

from anaume.errors import DataError
from anaume.tasks.whitening import Whitening


def test_mean_zero_variance_one_and_nothing_in_common() -> None:
    draw = np.random.default_rng(0)
    vectors = (draw.normal(size=(400, 6)) @ draw.normal(size=(6, 6)) + 3.0).astype(np.float32)
    white = Whitening.of(vectors)(vectors)
    assert white.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-5)
    assert np.cov(white.T, bias=True) == pytest.approx(np.eye(6), abs=1e-4)
    few = Whitening.of(vectors, 2)
    assert few(vectors) == pytest.approx(white[:, :2])
    # The first direction is that of the largest variance.
    values, turned = np.linalg.eigh(np.cov(vectors.T, bias=True))
    assert abs(few.matrix[:, 0] @ turned[:, -1]) * np.sqrt(values[-1]) == pytest.approx(1.0, abs=1e-3)


def test_fewer_vectors_than_numbers() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    white = Whitening.of(vectors)(vectors)
    assert white.shape == (3, 2)
    assert np.isfinite(white).all()
    for same in (vectors[:1], np.ones((4, 3), np.float32)):
        with pytest.raises(DataError, match="whitening needs vectors that differ"):
            Whitening.of(same)
