"""Scores of rankings, by hand and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from anaume.tasks.retrieval import cosines, intervals, nearest_rows, ranking_scores


def test_by_hand() -> None:
    """Relevant: a (grade 3), b (1), z (2, never found); found at ranks 2 and 4."""
    found = ranking_scores(["x", "a", "y", "b"], {"a": 3, "b": 1, "z": 2, "y": 0})
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert found["ndcg@10"] == pytest.approx((3 / math.log2(3) + 1 / math.log2(5)) / ideal)
    assert found["mrr@10"] == 0.5
    assert found["recall@1"] == 0.0
    assert found["recall@10"] == pytest.approx(2 / 3)
    assert found["map@100"] == pytest.approx((1 / 2 + 2 / 4) / 3)


def test_beyond_ten_and_below_zero() -> None:
    ranked = [f"x{number}" for number in range(10)] + ["a"]
    found = ranking_scores(ranked, {"a": 1, "x0": -1})
    assert (found["ndcg@10"], found["mrr@10"], found["recall@10"]) == (0.0, 0.0, 0.0)
    assert found["recall@100"] == 1.0
    assert found["map@100"] == pytest.approx(1 / 11)


@pytest.mark.parametrize("seed", range(5))
def test_as_scikit_learn_has_it(seed: int) -> None:
    draw = np.random.default_rng(seed)
    grades, scores = draw.integers(0, 4, 60), draw.normal(size=60)
    grades[0] = 2
    order = np.argsort(-scores).tolist()
    found = ranking_scores(order, dict(enumerate(grades.tolist())))
    assert found["ndcg@10"] == pytest.approx(ndcg_score([grades], [scores], k=10))
    assert found["map@100"] == pytest.approx(average_precision_score(grades > 0, scores))


def test_nearest_rows_in_order_and_equals_by_row() -> None:
    candidates = np.array([[1, 0], [0, 1], [1, 0], [1, 1], [-1, 0]], dtype=np.float32)
    queries = np.array([[2, 0], [0, 3]], dtype=np.float32)
    (first, scores), (second, _) = nearest_rows(queries, candidates, depth=3)
    assert (first.tolist(), second.tolist()) == ([0, 2, 3], [1, 3, 0])
    assert scores == pytest.approx([1, 1, math.sqrt(0.5)])
    (dotted, _), _ = nearest_rows(queries, 2 * candidates, depth=9, dot=True)
    assert dotted.tolist() == [0, 2, 3, 1, 4]


def test_cosines_of_zero_vectors_are_zero() -> None:
    u = np.array([[3, 4], [0, 0]], dtype=np.float32)
    assert cosines(u, np.array([[4, 3], [1, 1]], dtype=np.float32)) == pytest.approx([0.96, 0.0])


def test_intervals_hold_the_mean_and_shrink() -> None:
    draw = np.random.default_rng(0)
    few, many = ([{"a": float(value)} for value in draw.random(count)] for count in (20, 2000))
    small, large = intervals(few)["a"], intervals(many)["a"]
    for one, rows in ((small, few), (large, many)):
        assert one.low < one.mean < one.high
        assert one.mean == pytest.approx(np.mean([row["a"] for row in rows]))
    # The usual interval of a mean, within a tenth.
    half = 1.96 * np.std([row["a"] for row in many]) / math.sqrt(2000)
    assert (large.high - large.low) / 2 == pytest.approx(half, rel=0.1)
