"""Losses over vectors, by few-line computations of their papers' formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from anaume.errors import SettingsError
from anaume.model.vector_losses import (
    angle_similarity,
    cosent_loss,
    cosine_loss,
    in_batch_loss,
    margin_mse_loss,
    triplet_loss,
)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def cosine(u: Tensor, v: Tensor) -> float:
    return float(u @ v / (u.norm() * v.norm()))


def test_in_batch_by_hand() -> None:
    queries, candidates = drawn(2, 4), drawn(5, 4, seed=1)
    near = torch.tensor([[1, 0, 0, 1, 0], [0, 1, 0, 0, 0]], dtype=torch.bool)
    far = torch.tensor([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]], dtype=torch.bool)

    def one(query: int, positive: int, negatives: list[int]) -> float:
        scores = [20 * cosine(queries[query], candidates[c]) for c in [positive, *negatives]]
        return math.log(sum(math.exp(score - scores[0]) for score in scores))

    wanted = ((one(0, 0, [1, 2]) + one(0, 3, [1, 2])) / 2 + one(1, 1, [0, 4])) / 2
    assert in_batch_loss(queries, candidates, near, far).item() == pytest.approx(wanted, abs=1e-5)
    halved = in_batch_loss(queries, candidates, near, far, count=torch.tensor(4.0))
    assert halved.item() == pytest.approx(wanted / 2, abs=1e-5)


def test_in_batch_without_negatives_or_positives_is_zero_with_finite_gradients() -> None:
    queries = drawn(2, 4).requires_grad_()
    near = torch.tensor([[True, False, False], [False, False, False]])
    far = torch.tensor([[False, False, False], [True, False, True]])
    loss = in_batch_loss(queries, drawn(3, 4), near, far)
    loss.backward()
    assert loss.item() == 0.0
    assert queries.grad is not None
    assert queries.grad.abs().max() == 0.0


@pytest.mark.parametrize("scale", [20.0, 3.0])
def test_cosent_by_hand(scale: float) -> None:
    similarities, labels = torch.tensor([0.9, 0.1, 0.4, 0.4]), torch.tensor([1.0, 3.0, 3.0, 0.0])
    wrong = [(0, 1), (0, 2), (3, 0), (3, 1), (3, 2)]  # (lower label, higher label)
    wanted = math.log1p(sum(math.exp(scale * float(similarities[i] - similarities[j])) for i, j in wrong))
    assert cosent_loss(similarities, labels, scale=scale).item() == pytest.approx(wanted, abs=1e-5)
    assert cosent_loss(similarities, torch.ones(4)).item() == 0.0


@pytest.mark.parametrize("size", [6, 5])
def test_angle_is_real_and_imaginary_part_of_the_quotient(size: int) -> None:
    u, v = drawn(3, size), drawn(3, size, seed=1)
    for row, found in enumerate(angle_similarity(u, v)):
        one, other = ([*x[row].tolist(), *[0.0] * (size % 2)] for x in (u, v))
        half = len(one) // 2
        z = [complex(a, b) for a, b in zip(one[:half], one[half:], strict=True)]
        w = [complex(a, b) for a, b in zip(other[:half], other[half:], strict=True)]
        # z / w up to |w|, each vector brought to length 1 first
        turned = [a * b.conjugate() for a, b in zip(z, w, strict=True)]
        length = float(u[row].norm() * v[row].norm())
        assert found.item() == pytest.approx(abs(sum(t.real + t.imag for t in turned)) / length, abs=1e-5)


def test_cosine_triplet_and_margins_by_hand() -> None:
    a, p, n = (drawn(3, 4, seed=seed) for seed in range(3))
    targets = torch.tensor([0.0, 0.5, 1.0])
    wanted = sum((cosine(a[i], p[i]) - float(targets[i])) ** 2 for i in range(3)) / 3
    assert cosine_loss(a, p, targets).item() == pytest.approx(wanted, abs=1e-6)
    distances = [(float((a[i] - p[i]).norm()), float((a[i] - n[i]).norm())) for i in range(3)]
    for margin in (1.0, 5.0):
        wanted = sum(max(near - far + margin, 0.0) for near, far in distances) / 3
        assert triplet_loss(a, p, n, margin=margin).item() == pytest.approx(wanted, abs=1e-5)
    wanted = sum((float(a[i] @ p[i] - a[i] @ n[i]) - float(targets[i])) ** 2 for i in range(3)) / 3
    assert margin_mse_loss(a, p, n, targets).item() == pytest.approx(wanted, abs=1e-5)


def test_equal_vectors_have_finite_gradients() -> None:
    a = drawn(2, 4).requires_grad_()
    triplet_loss(a, a.detach(), a.detach()).backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()


def test_vectors_that_do_not_match_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"cosine_loss needs vectors that match; got \(2, 4\) and \(2, 3\)"):
        cosine_loss(drawn(2, 4), drawn(2, 3), torch.zeros(2))
    with pytest.raises(SettingsError, match="in_batch_loss needs vectors that match"):
        in_batch_loss(drawn(2, 4), drawn(3, 5), torch.ones(2, 3).bool(), torch.ones(2, 3).bool())
