"""Properties of the encoder: padding, batching and packing change nothing; order comes from the positions alone."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anaume.config import POOLING_METHODS
from anaume.model import Bert, pool, pool_packed
from tiny_models import difference, pad_rows, tiny_bert

BOUND = 1e-5  # of promise 2, in float32, times max(1, largest magnitude)
MODELS = {causal: tiny_bert(causal=causal) for causal in (False, True)}

a_row = st.lists(st.integers(0, 49), min_size=1, max_size=12)
rows_of_a_batch = st.lists(a_row, min_size=1, max_size=6)
bounded = settings(max_examples=30, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def alone(model: Bert, row: list[int]) -> Tensor:
    """The vectors of one text in a batch of its own without padding: (len(row), hidden_size)."""
    with torch.no_grad():
        return model(torch.tensor([row]), None).last_hidden_state[0]


def run(model: Bert, token_ids: Tensor, mask: Tensor | None, **other: Tensor) -> Tensor:
    with torch.no_grad():
        return model(token_ids, mask, **other).last_hidden_state


@bounded
@given(rows=rows_of_a_batch, extra=st.integers(0, 20), pad_id=st.integers(0, 49), causal=st.booleans())
def test_a_text_alone_equals_the_text_in_a_batch(rows, extra: int, pad_id: int, causal: bool) -> None:
    """NUM-01: whatever its neighbours, the width of the padding and the ID that fills it."""
    model = MODELS[causal]
    token_ids, mask = pad_rows(rows, max(map(len, rows)) + extra, pad_id=pad_id)
    together = run(model, token_ids, mask)
    for index, row in enumerate(rows):
        assert difference(together[index, : len(row)], alone(model, row)) <= BOUND


@bounded
@given(row=a_row, pad=st.integers(1, 20), pad_id=st.integers(0, 49), causal=st.booleans())
def test_left_padding_equals_right_padding(row: list[int], pad: int, pad_id: int, causal: bool) -> None:
    """NUM-05: positions count from the first real token."""
    model = MODELS[causal]
    token_ids, mask = pad_rows([row], len(row) + pad, pad_id=pad_id, left=True)
    assert difference(run(model, token_ids, mask)[0, pad:], alone(model, row)) <= BOUND


def test_forgetting_the_mask_would_show() -> None:
    """The tests above have power: without the mask the same padding changes the vectors a thousand times the bound."""
    row = [2, 7, 8, 9, 3]
    for model in MODELS.values():
        for left in (False, True):
            token_ids, mask = pad_rows([row], 12, left=left)
            real = mask[0]
            moved = difference(run(model, token_ids, None)[0, real], alone(model, row))
            right_of_a_causal_text = model.config.causal and not left
            assert (moved <= BOUND) if right_of_a_causal_text else (moved > 1000 * BOUND)


@bounded
@given(rows=rows_of_a_batch, data=st.data())
def test_the_order_of_a_batch_does_not_matter(rows, data: st.DataObject) -> None:
    model = MODELS[False]
    order = data.draw(st.permutations(range(len(rows))))
    token_ids, mask = pad_rows(rows)
    together, shuffled = run(model, token_ids, mask), run(model, token_ids[order], mask[order])
    real = mask[order]
    assert difference(shuffled[real], together[order][real]) <= BOUND


@bounded
@given(rows=st.lists(a_row, min_size=2, max_size=5), empty=st.integers(0, 4), causal=st.booleans())
def test_an_empty_text_harms_no_neighbour(rows, empty: int, causal: bool) -> None:
    model = MODELS[causal]
    token_ids, mask = pad_rows(rows)
    mask[empty % len(rows)] = False
    together = run(model, token_ids, mask)
    assert together.isfinite().all()
    for index, row in enumerate(rows):
        if index != empty % len(rows):
            assert difference(together[index, : len(row)], alone(model, row)) <= BOUND


@bounded
@given(packed=st.lists(st.lists(a_row, min_size=1, max_size=4), min_size=1, max_size=3), causal=st.booleans())
def test_packed_rows_equal_padded_rows(packed: list[list[list[int]]], causal: bool) -> None:
    """Several texts in one row, kept apart by sequence_ids, with positions that restart: same vectors, same pooling."""
    model = MODELS[causal]
    texts = [text for row in packed for text in row]
    token_ids, mask = pad_rows([[token for text in row for token in text] for row in packed])
    sequence_ids, position_ids = torch.full_like(token_ids, -1), torch.zeros_like(token_ids)
    number = 0
    for row, row_texts in enumerate(packed):
        start = 0
        for text in row_texts:
            places = slice(start, start + len(text))
            sequence_ids[row, places], position_ids[row, places] = number, torch.arange(len(text))
            start, number = start + len(text), number + 1

    states = run(model, token_ids, mask, position_ids=position_ids, sequence_ids=sequence_ids)
    without_mask = run(model, token_ids, None, position_ids=position_ids, sequence_ids=sequence_ids)
    for index, text in enumerate(texts):
        assert difference(states[sequence_ids == index], alone(model, text)) <= BOUND
        assert difference(without_mask[sequence_ids == index], alone(model, text)) <= BOUND

    padded_ids, padded_mask = pad_rows(texts)
    padded = run(model, padded_ids, padded_mask)
    for how in POOLING_METHODS:
        pooled = pool(padded, padded_mask, how)
        assert difference(pool_packed(states, sequence_ids, len(texts), how), pooled) <= BOUND


def test_packed_texts_that_saw_each_other_would_show() -> None:
    model = MODELS[False]
    token_ids = torch.tensor([[2, 7, 3, 2, 9, 3]])
    position_ids = torch.tensor([[0, 1, 2, 0, 1, 2]])
    assert difference(run(model, token_ids, None, position_ids=position_ids)[0, :3], alone(model, [2, 7, 3])) > 1e-2


@bounded
@given(row=st.lists(st.integers(0, 49), min_size=2, max_size=12, unique=True), data=st.data())
def test_attention_alone_has_no_order(row: list[int], data: st.DataObject) -> None:
    """With the position table zeroed, permuting the tokens permutes the vectors; with it, it doesn't."""
    order = data.draw(st.permutations(range(len(row))))
    permuted = [row[place] for place in order]
    ordered = MODELS[False]
    moved = difference(alone(ordered, permuted), alone(ordered, row)[order])
    assert (moved > 1e-3) if order != sorted(order) else (moved <= BOUND)

    orderless = tiny_bert()
    with torch.no_grad():
        orderless.embeddings.position_embeddings.weight.zero_()
    assert difference(alone(orderless, permuted), alone(orderless, row)[order]) <= BOUND


def influence(model: Bert, token_ids: Tensor) -> Tensor:
    """Return (seq_len, seq_len): how strongly output t depends on input vector s, by the gradient."""
    vectors = model.embeddings(token_ids).detach()

    def outputs(given: Tensor) -> Tensor:
        return model.encoder(given, None).last_hidden_state[0]

    return torch.autograd.functional.jacobian(outputs, vectors)[:, :, 0].abs().amax(dim=(1, 3))


@settings(max_examples=8, deadline=None)
@given(row=st.lists(st.integers(0, 49), min_size=2, max_size=8))
def test_bert_sees_both_sides_and_gpt_what_stands_before(row: list[int]) -> None:
    """One flag apart. d out[t] / d in[s] is the whole truth about who can see whom, whatever the code looks like."""
    token_ids = torch.tensor([row])
    assert (influence(MODELS[False], token_ids) > 1e-5).all()
    causal = influence(MODELS[True], token_ids)
    before = torch.ones_like(causal, dtype=torch.bool).tril()
    assert (causal[before] > 1e-5).all()
    assert (causal[~before] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_direction_of_every_vector(dtype: torch.dtype) -> None:
    rows = [[2, 7, 8, 9, 3], [2, 6, 3], [2, 30, 31, 32, 33, 34, 35, 36, 3]]
    token_ids, mask = pad_rows(rows, 12)
    low = run(tiny_bert().to(dtype), token_ids, mask).float()
    together = run(MODELS[False], token_ids, mask)
    cosines = torch.nn.functional.cosine_similarity(low[mask], together[mask], dim=-1)
    assert cosines.min() >= 0.999


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rows = [[2, 7, 8, 9, 3], [2, 6, 3], [2, 30, 31, 32, 33, 34, 35, 36, 3]] * 8
    token_ids, mask = pad_rows(rows)
    one = run(MODELS[False], token_ids, mask)
    torch.set_num_threads(2)
    two = run(MODELS[False], token_ids, mask)
    torch.set_num_threads(1)
    assert difference(two[mask], one[mask]) <= BOUND
