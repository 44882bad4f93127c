import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.batching import pad, pad_to, padding_share, token_budget_batches
from anaume.errors import SettingsError

LENGTHS = st.lists(st.integers(0, 60), max_size=60)


@given(LENGTHS, st.integers(1, 100), st.integers(1, 20))
def test_batches_keep_the_budget_and_lose_no_row(lengths, max_tokens, max_rows):
    batches = token_budget_batches(lengths, max_tokens, max_rows=max_rows)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    longest = [max(lengths[index] for index in batch) for batch in batches]
    for batch, most in zip(batches, longest, strict=True):
        assert batch.dtype == np.int64
        assert 1 <= len(batch) <= max_rows
        assert len(batch) == 1 or len(batch) * most <= max_tokens
    assert longest == sorted(longest, reverse=True)
    # No batch could have taken the next row: otherwise one row a batch would pass.
    for batch, most in zip(batches[:-1], longest[:-1], strict=True):
        assert len(batch) == max_rows or (len(batch) + 1) * max(most, 1) > max_tokens
    again = token_budget_batches(np.array(lengths, dtype=np.int32), max_tokens, max_rows=max_rows)
    assert [batch.tolist() for batch in batches] == [batch.tolist() for batch in again]


@given(LENGTHS, st.integers(1, 100), st.integers(1, 20))
def test_close_batches_keep_the_budget_and_the_order_and_pad_no_more(lengths, max_tokens, max_rows):
    full = token_budget_batches(lengths, max_tokens, max_rows=max_rows)
    batches = token_budget_batches(lengths, max_tokens, max_rows=max_rows, close=True)
    assert [*np.concatenate([[], *batches])] == [*np.concatenate([[], *full])]
    for batch in batches:
        most = max(lengths[index] for index in batch)
        assert len(batch) == 1 or (len(batch) * most <= max_tokens and len(batch) <= max_rows)
    for batch, after in itertools.pairwise(batches):  # one that could have taken the next row held enough, all alike
        most, following = max(lengths[batch[0]], 1), lengths[after[0]]
        if len(batch) < max_rows and (len(batch) + 1) * most <= max_tokens:
            assert len(batch) * most >= max_tokens / 4
            assert following < 0.95 * most or len(batch) % 8 == 0


def test_close_batches_of_paragraphs_pad_less_than_three_percent():
    lengths = np.random.default_rng(0).gamma(1.3, 25, 600).astype(int).clip(6, 256)  # like paragraphs: mean 33
    close = token_budget_batches(lengths, 1024, close=True)
    assert padding_share(lengths, close) < 0.03 < padding_share(lengths, token_budget_batches(lengths, 1024))


def test_close_batches_of_short_texts_come_in_few_shapes():
    lengths = [np.random.default_rng(seed).gamma(4, 2, 4096).astype(int).clip(3, 64) for seed in range(10)]
    batches = [(own, batch) for own in lengths for batch in token_budget_batches(own, 512, close=True)]
    shapes = {(len(batch), own[batch].max()) for own, batch in batches}
    counts = [len(batch) for own, batch in batches if len(batch) > 16 and len(batch) < 512 // own[batch].max()]
    assert counts
    assert sum(count % 8 > 0 for count in counts) <= 10  # the last batch of each takes what is left
    assert len(shapes) < 140


def test_equal_lengths_stay_in_input_order():
    assert [batch.tolist() for batch in token_budget_batches([2, 3, 2, 3, 9], 6)] == [[4], [1, 3], [0, 2]]
    many = np.random.default_rng(2).integers(1, 4, 500)  # enough that an unstable sort would show
    order = np.concatenate(token_budget_batches(many, 30)).tolist()
    assert order == sorted(range(500), key=lambda index: (-many[index], index))


@pytest.mark.parametrize("max_rows", [1, 8, 1024])
def test_results_go_back_in_input_order(max_rows):  # TRN-05
    lengths = np.random.default_rng(0).integers(0, 40, 33)
    out = np.full(33, -1)
    batches = token_budget_batches(lengths, 64, max_rows=max_rows)
    assert np.concatenate(batches).tolist() != list(range(33))
    for indices in batches:
        out[indices] = lengths[indices] * 1000 + indices
    assert out.tolist() == (lengths * 1000 + np.arange(33)).tolist()


def test_no_rows_make_no_batches():  # LIM-07
    assert token_budget_batches([], 10) == []
    assert padding_share([], []) == 0.0
    token_ids, attention_mask = pad([], 0)
    assert token_ids.shape == attention_mask.shape == (0, 0)
    assert pad([], 0, seq_len=4)[0].shape == (0, 4)


@pytest.mark.parametrize(("lengths", "how"), [([1], (0,)), ([1], (-5,)), ([3, -1], (10,))])
def test_batch_settings_are_checked(lengths, how):
    with pytest.raises(SettingsError):
        token_budget_batches(lengths, *how)
    with pytest.raises(SettingsError):
        token_budget_batches(lengths, 10, max_rows=0)


def test_pad_fills_on_the_right_and_masks_by_length_not_by_id():
    token_ids, attention_mask = pad([[5, 0, 6], [7], []], 0)
    assert token_ids.tolist() == [[5, 0, 6], [7, 0, 0], [0, 0, 0]]
    assert attention_mask.tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert token_ids.dtype == np.int64
    assert attention_mask.dtype == np.bool_
    assert pad([[1]], 9, seq_len=3)[0].tolist() == [[1, 9, 9]]


def test_padding_twice_keeps_the_mask():  # LIM-04: [CLS] a b c [SEP] = 5 real tokens
    token_ids, attention_mask = pad([[2, 10, 11, 12, 3]], 0, seq_len=32)
    assert attention_mask.sum() == 5
    for width in (32, 40, 40):
        wider, mask = pad_to(token_ids, attention_mask, width, 0)
        assert mask.sum() == 5
        assert mask.dtype == np.bool_
        assert wider.shape == mask.shape == (1, width)
        assert (wider[:, :32] == token_ids).all()
        assert not wider[:, 32:].any()
        assert not mask[:, 32:].any()


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5), st.integers(6, 9), st.integers(9, 12))
def test_padding_in_steps_equals_padding_at_once(sequences, first, second):
    stepwise = pad_to(*pad_to(*pad(sequences, 0), first, 0), second, 0)
    for one, other in zip(stepwise, pad(sequences, 0, seq_len=second), strict=True):
        np.testing.assert_array_equal(one, other)


def test_padding_never_cuts():
    with pytest.raises(SettingsError, match="sequence 1 has 3 tokens, more than seq_len 2"):
        pad([[1], [1, 2, 3]], 0, seq_len=2)
    token_ids, attention_mask = pad([[1, 2, 3]], 0)
    with pytest.raises(SettingsError, match="3 wide, more than seq_len 2"):
        pad_to(token_ids, attention_mask, 2, 0)


def test_pad_to_takes_only_a_bool_mask_of_the_same_shape():
    token_ids, attention_mask = pad([[1, 2]], 0)
    with pytest.raises(SettingsError, match="bool attention_mask"):
        pad_to(token_ids, attention_mask.astype(np.int64), 4, 0)
    with pytest.raises(SettingsError, match="same shape"):
        pad_to(token_ids, attention_mask[:, :1], 4, 0)


def test_padding_share_is_known_and_sorting_lowers_it():
    assert padding_share([4, 2], [np.array([0, 1])]) == pytest.approx(2 / 8)
    assert padding_share([4, 2], [np.array([0]), np.array([1])]) == 0.0
    assert padding_share([0, 0], [np.array([0, 1])]) == 0.0
    lengths = np.random.default_rng(1).integers(1, 100, 200)
    unsorted = [np.arange(start, start + 20) for start in range(0, 200, 20)]
    assert padding_share(lengths, token_budget_batches(lengths, 1024)) < padding_share(lengths, unsorted) / 3


@pytest.mark.parametrize("budget", [1024, 2048])
def test_passages_sorted_by_length_are_padded_by_less_than_three_in_a_hundred(budget: int) -> None:
    # As paragraphs of the standard library are: 35 tokens on average, the longest cut at 256.
    lengths = np.random.default_rng(0).lognormal(3.2, 0.8, 4096).astype(np.int64).clip(3, 256)
    assert padding_share(lengths, token_budget_batches(lengths, budget)) < 0.03
