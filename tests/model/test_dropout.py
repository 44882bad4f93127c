"""Dropout by bits: the published one in distribution, value and gradient."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from anaume.model.dropout import Dropout, drop_unscaled, dropout

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_each_element_is_zero_at_the_rate_and_scaled_otherwise(dtype: torch.dtype, rate: float) -> None:
    torch.manual_seed(0)
    count = 200_003
    dropped = dropout(torch.full((count,), 3.0, dtype=dtype), rate)
    zeros = int((dropped == 0).sum())
    assert abs(zeros - rate * count) < 4 * math.sqrt(count * rate * (1 - rate))
    kept = dropped[dropped != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(3.0 / (1 - rate), rel=5e-3 if dtype == torch.bfloat16 else 2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_neighbours_are_dropped_independently(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    zero = dropout(torch.ones(400_000, dtype=dtype), 0.5) == 0
    for distance in (1, 2, 3, 4, 8):
        alike = (zero[distance:] == zero[:-distance]).double().mean().item()
        assert abs(alike - 0.5) < 4 * 0.5 / math.sqrt(400_000)


def test_the_mean_is_kept_to_the_last_bit_of_the_rate() -> None:
    """0.1 is 6,554 / 65,536: the scale is that of the rate that is drawn, not of the one that was asked for."""
    torch.manual_seed(2)
    kept = dropout(torch.ones(10, dtype=torch.bfloat16).repeat(2_000), 0.1).float()
    assert kept[kept != 0].unique().tolist() == [float(torch.tensor(65536 / (65536 - 6554)).bfloat16())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_gradient_goes_where_the_value_went(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    states = torch.randn(37, 11, dtype=dtype).requires_grad_()
    dropped = dropout(states, 0.3)
    upstream = torch.randn(37, 11, dtype=dtype)
    (gradient,) = torch.autograd.grad(dropped, states, upstream)
    torch.testing.assert_close(
        gradient,
        torch.where(dropped == 0, 0, upstream / 0.7),
        rtol=1e-2,
        atol=1e-6,
    )


def test_unscaled_weights_and_their_scale_make_the_same() -> None:
    weights = torch.rand(5, 7, dtype=torch.bfloat16) + 0.5
    torch.manual_seed(4)
    scaled = dropout(weights, 0.25)
    torch.manual_seed(4)
    kept, scale = drop_unscaled(weights, 0.25)
    assert torch.equal(scaled, kept * scale)
    assert drop_unscaled(weights, 0.0) == (weights, 1.0)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (2, 3, 4, 5)])
def test_any_shape_and_any_layout(shape: tuple[int, ...]) -> None:
    states = torch.ones(shape, dtype=torch.bfloat16)
    assert dropout(states, 0.5).shape == states.shape
    turned = torch.ones(6, 9, dtype=torch.bfloat16).T
    assert set(dropout(turned, 0.5).flatten().tolist()) <= {0.0, 2.0}


def test_what_is_dropped_is_zero_even_where_it_was_not_finite() -> None:
    torch.manual_seed(5)
    dropped = dropout(torch.full((1000,), math.nan), 0.5)
    assert int((dropped == 0).sum()) > 400


def test_it_follows_the_default_generator_and_does_nothing_in_eval_mode() -> None:
    module, states = Dropout(0.5), torch.ones(64)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        result: Tensor = module(states)
        return result

    assert torch.equal(drawn(7), drawn(7))
    assert not torch.equal(drawn(7), drawn(8))
    assert module.eval()(states) is states
    assert dropout(states, 0.0) is states
    with pytest.raises(ValueError, match="probability"):
        Dropout(1.5)


@pytest.mark.parametrize("scaled", [True, False])
def test_its_gradient_has_a_gradient(scaled: bool) -> None:
    torch.manual_seed(6)
    states = torch.randn(40).requires_grad_()
    dropped, rest = (dropout(states, 0.5), 2.0) if scaled else drop_unscaled(states, 0.5)
    kept = (dropped != 0).float() * (rest if scaled else 1.0)
    (first,) = torch.autograd.grad(dropped.pow(3).sum(), states, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), states)
    torch.testing.assert_close(second, 6 * kept**3 * states.detach(), rtol=1e-3, atol=1e-5)
