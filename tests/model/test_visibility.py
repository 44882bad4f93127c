import pytest
import torch

from anaume.model.visibility import attention_bias, positions_from_mask


def visible(bias: torch.Tensor | None) -> list[list[list[bool]]]:
    assert bias is not None
    return [[[value == 0 for value in row] for row in text[0]] for text in bias.tolist()]


def test_nothing_hidden_needs_no_bias() -> None:
    assert attention_bias(4) is None


def test_padding_hides_the_same_places_from_every_token() -> None:
    mask = torch.tensor([[True, True, False], [False, True, True]])
    bias = attention_bias(3, attention_mask=mask)
    assert bias is not None
    assert bias.shape == (2, 1, 1, 3)
    assert visible(bias) == [[[True, True, False]], [[False, True, True]]]


def test_causal_is_a_triangle() -> None:
    assert visible(attention_bias(3, causal=True)) == [[[True, False, False], [True, True, False], [True, True, True]]]


def test_texts_of_a_packed_row_do_not_see_each_other_nor_padding() -> None:
    assert visible(attention_bias(4, sequence_ids=torch.tensor([[5, 5, 2, -1]]))) == [
        [
            [True, True, False, False],
            [True, True, False, False],
            [False, False, True, False],
            [False, False, False, False],
        ]
    ]


def test_all_three_together() -> None:
    bias = attention_bias(
        4,
        attention_mask=torch.tensor([[True, False, True, True]]),
        sequence_ids=torch.tensor([[0, 0, 0, 1]]),
        causal=True,
    )
    assert visible(bias) == [
        [
            [True, False, False, False],
            [True, False, False, False],
            [True, False, True, False],
            [False, False, False, True],
        ]
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_bias_stays_finite_under_negative_scores_and_hides_under_any(dtype: torch.dtype) -> None:
    bias = attention_bias(1, attention_mask=torch.tensor([[False]]), dtype=dtype)
    assert bias is not None
    assert bias.dtype == dtype
    assert (bias - torch.tensor(1000.0, dtype=dtype)).isfinite().all()
    assert torch.exp((bias + torch.tensor(1000.0, dtype=dtype)).float()).item() == 0.0


def test_a_float32_bias_stays_finite_in_bfloat16() -> None:
    bias = attention_bias(1, attention_mask=torch.tensor([[False]]))
    assert bias is not None
    assert bias.to(torch.bfloat16).isfinite().all()


def test_positions_are_counted_from_the_first_real_token() -> None:
    rows = {
        "right padding": ([1, 1, 1, 0, 0], [0, 1, 2]),
        "left padding": ([0, 0, 1, 1, 1], [0, 1, 2]),
        "a hole hides a token but moves no other": ([0, 1, 0, 1, 1], [0, 2, 3]),
        "no padding": ([1, 1, 1, 1, 1], [0, 1, 2, 3, 4]),
    }
    mask = torch.tensor([mask for mask, _ in rows.values()]).bool()
    positions = positions_from_mask(mask)
    assert positions.dtype == torch.int64
    for row, row_mask, (_, wanted) in zip(positions, mask, rows.values(), strict=True):
        assert row[row_mask].tolist() == wanted


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 3)])
def test_rows_without_a_real_token_get_positions_inside_the_table(shape: tuple[int, int]) -> None:
    positions = positions_from_mask(torch.zeros(shape, dtype=torch.bool))
    assert positions.shape == shape
    assert ((positions >= 0) & (positions < 3)).all()
