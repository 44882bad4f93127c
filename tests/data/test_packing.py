"""Short rows in longer ones: nothing is lost, nothing mixes, and the way back is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.packing import PACKED, pack

PAD = 0


@given(lengths=st.lists(st.integers(1, 2 * PACKED), max_size=30))
def test_every_token_is_there_once_and_the_way_back_is_exact(lengths: list[int]) -> None:
    starts = np.cumsum([0, *lengths])
    rows = [np.arange(start, start + length) + 1 for start, length in zip(starts, lengths, strict=False)]
    segments = [(row % 3).astype(np.uint8) for row in rows]
    packed = pack(rows, segments, PAD)
    real = packed.sequence_ids >= 0
    assert sorted(packed.token_ids[real].tolist()) == list(range(1, sum(lengths) + 1))
    assert (packed.token_ids[~real] == PAD).all()
    assert packed.tokens == sum(lengths)
    assert packed.attention_mask.sum(axis=1).tolist() == lengths
    for number, row in enumerate(rows):
        places = packed.places[number, : len(row)]
        assert packed.token_ids.flatten()[places].tolist() == row.tolist()
        assert packed.segment_ids.flatten()[places].tolist() == segments[number].tolist()
        assert packed.position_ids.flatten()[places].tolist() == list(range(len(row)))
        assert len({*packed.sequence_ids.flatten()[places].tolist()}) == 1
    width = packed.token_ids.shape[1]
    owners = {(place // width, packed.sequence_ids.flatten()[place]) for place in packed.places[:, 0].tolist()}
    assert len(owners) == len(rows)  # no two rows of a packed row share a number
    assert packed.places.size == 0 or 0 <= packed.places.min() <= packed.places.max() < packed.token_ids.size


@pytest.mark.parametrize(
    ("lengths", "shape"), [([100, 60, 28], (2, 128)), ([300, 20], (1, 320)), ([301, 20], (2, 320)), ([5, 4], (1, 32))]
)
def test_rows_are_as_wide_as_they_must_be(lengths: list[int], shape: tuple[int, int]) -> None:
    packed = pack([np.ones(length, int) for length in lengths], [np.zeros(length, int) for length in lengths], PAD)
    assert packed.token_ids.shape == shape
