import math

import pytest
import torch
from torch import Tensor

from anaume.config import POOLING_METHODS
from anaume.model.pooling import pool, pool_packed
from tiny_models import difference

STATES = torch.tensor([[[1.0, -8.0], [2.0, -4.0], [6.0, -3.0], [90.0, 90.0]]])
MASK = torch.tensor([[True, True, True, False]])
BY_HAND = {
    "cls": [1.0, -8.0],
    "mean": [3.0, -5.0],
    "max": [6.0, -3.0],
    "mean_sqrt": [9.0 / math.sqrt(3), -15.0 / math.sqrt(3)],
}


@pytest.mark.parametrize("how", POOLING_METHODS)
def test_by_hand(how: str) -> None:
    assert pool(STATES, MASK, how)[0].tolist() == pytest.approx(BY_HAND[how])


@pytest.mark.parametrize("how", POOLING_METHODS)
@pytest.mark.parametrize("garbage", [1e30, -1e30, math.nan, math.inf])
def test_padding_does_not_count_whatever_stands_there(how: str, garbage: float) -> None:
    states = STATES.clone()
    states[0, 3] = garbage
    assert torch.equal(pool(states, MASK, how), pool(STATES, MASK, how))


@pytest.mark.parametrize("how", POOLING_METHODS)
def test_left_padding_equals_right_padding(how: str) -> None:
    assert torch.equal(pool(STATES.roll(1, dims=1), MASK.roll(1, dims=1), how), pool(STATES, MASK, how))


@pytest.mark.parametrize("how", POOLING_METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("garbage", [1.0, math.nan])
def test_a_text_without_tokens_gives_zeros_and_harms_no_neighbour(how: str, dtype: torch.dtype, garbage: float) -> None:
    states = torch.cat([STATES, torch.full_like(STATES, garbage)]).to(dtype)
    mask = torch.cat([MASK, torch.zeros_like(MASK)])
    pooled = pool(states, mask, how)
    assert pooled.dtype == dtype
    assert (pooled[1] == 0).all()
    assert pooled[0].tolist() == pytest.approx(BY_HAND[how], rel=1e-2)


def test_half_precision_sums_are_taken_in_float32() -> None:
    """3,000 ones add up to 256 in bfloat16, and 300 numbers near 1,000 leave the range of float16."""
    mask = torch.ones(1, 3000, dtype=torch.bool)
    assert pool(torch.ones(1, 3000, 1, dtype=torch.bfloat16), mask, "mean").item() == 1.0
    assert pool(torch.full((1, 3000, 1), 1000.0, dtype=torch.float16), mask, "mean").item() == 1000.0


@pytest.mark.parametrize("how", POOLING_METHODS)
def test_gradients_reach_real_tokens_only(how: str) -> None:
    states = torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[True, True, False, False], [False] * 4])
    pool(states, mask, how).sum().backward()
    assert states.grad is not None
    assert states.grad[0, :2].abs().sum() > 0
    assert (states.grad[~mask] == 0).all()


@pytest.mark.parametrize("mask", [MASK.long(), MASK.float(), MASK[:, :3], MASK[0], MASK.T])
def test_a_mask_of_another_kind_is_refused(mask: Tensor) -> None:
    with pytest.raises(ValueError, match=r"attention_mask must be bool \(1, 4\)"):
        pool(STATES, mask, "mean")


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match="no pooling is called 'sum'"):
        pool(STATES, MASK, "sum")


@pytest.mark.parametrize("how", POOLING_METHODS)
def test_packed_texts_equal_padded_rows(how: str) -> None:
    states = torch.randn(2, 6, 3)
    sequence_ids = torch.tensor([[2, 2, 0, 0, 0, -1], [4, 1, 1, 1, 1, -1]])  # text 3 is empty
    pooled = pool_packed(states, sequence_ids, 5, how)
    for text in range(5):
        rows = states[sequence_ids == text][None]
        if text == 3:
            assert (pooled[text] == 0).all()
        else:
            assert difference(pooled[text], pool(rows, torch.ones(rows.shape[:2], dtype=torch.bool), how)[0]) <= 1e-6


@pytest.mark.parametrize("how", POOLING_METHODS)
@pytest.mark.parametrize("num_texts", [0, 2])
def test_packed_rows_of_padding_alone_give_zero_vectors(how: str, num_texts: int) -> None:
    pooled = pool_packed(torch.randn(1, 3, 4), torch.full((1, 3), -1), num_texts, how)
    assert torch.equal(pooled, torch.zeros(num_texts, 4))


def test_wrong_sequence_ids_are_refused() -> None:
    states = torch.randn(1, 3, 4)
    with pytest.raises(ValueError, match="sequence_ids go up to 2, but num_texts is 2"):
        pool_packed(states, torch.tensor([[0, 1, 2]]), 2, "mean")
    with pytest.raises(ValueError, match=r"sequence_ids must be \(1, 3\)"):
        pool_packed(states, torch.tensor([[0, 1]]), 2, "mean")
