import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data import pad
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from anaume.tokenization.rows import RowEncoder

ONE = Tokenizer.train(["the dog is cute", "the dog plays, 猫もいる"], vocab_size=60, min_frequency=1)
ENCODER = RowEncoder(ONE)
TEXTS = st.lists(st.text("thedogis cute,。猫Z\ud800\u0301", max_size=20), max_size=12)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(2, 12), st.booleans())
def test_rows_are_those_of_encode_batch(texts, max_length, many):
    texts = texts * (20 if many else 1)  # enough for the bulk encoder
    rows, wanted = ENCODER.encode(texts, max_length), ONE.encode_batch(texts, max_length=max_length)
    assert len(rows) == len(wanted)
    assert rows.lengths.tolist() == [len(encoding) for encoding in wanted]
    assert rows.kept.tolist() == [encoding.pieces for encoding in wanted]
    assert rows.total.tolist() == [encoding.coverage[0].total for encoding in wanted]
    assert rows.unknown.tolist() == [encoding.unknown for encoding in wanted]
    assert rows.coverage.tolist() == [encoding.coverage[0].share for encoding in wanted]
    order = np.random.default_rng(0).permutation(len(texts))[:7]
    if len(order):
        ids, mask = pad([wanted[index].token_ids for index in order], ONE.pad_id)
        padded = rows.padded(order)
        assert (padded[0].tolist(), padded[1].tolist()) == (ids.tolist(), mask.tolist())
        assert (padded[0].dtype, padded[1].dtype) == (ids.dtype, mask.dtype)


def test_a_length_without_room_is_refused():
    with pytest.raises(SettingsError, match="max_length"):
        ENCODER.encode(["dog"], 1)
