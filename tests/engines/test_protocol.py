"""A batch is checked when it is made: every engine is given the same, whatever it would take by itself (ONX-03)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from anaume.config import EmbeddingConfig
from anaume.engines import Batch, StaticEngine, TorchEngine
from anaume.errors import SettingsError
from tiny_models import tiny_bert

IDS, MASK = np.full((2, 4), 7), np.ones((2, 4), np.bool_)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint16])
def test_ids_of_any_integer_type_are_the_same_ids(dtype: Any) -> None:
    segments = (IDS * 0 + 1).astype(dtype)
    batch = Batch(IDS.astype(dtype), MASK, segments)
    assert batch.segment_ids is not None
    assert (batch.token_ids.dtype, batch.segment_ids.dtype) == (np.int64, np.int64)
    embedding = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
    for engine in (TorchEngine(tiny_bert(), embedding, device="cpu"), StaticEngine(torch.rand(50, 4))):
        assert np.array_equal(engine.embed(batch), engine.embed(Batch(IDS, MASK, IDS * 0 + 1)))
    assert Batch(IDS, MASK).token_ids is IDS  # nothing is copied that is right


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((IDS[0], MASK[0]), r"token_ids must be \(batch, seq_len\); got the shape \(4,\)"),
        ((IDS + 0.5, MASK), r"token_ids must be whole numbers.*\(2, 4\); got float64 \(2, 4\)"),
        ((IDS, MASK.astype(np.int64)), "attention_mask must be bool, True = real token.*got int64"),
        ((IDS, MASK[:1]), r"attention_mask must be bool.*\(2, 4\); got bool \(1, 4\)"),
        ((IDS, MASK, IDS[:, :3]), r"segment_ids must be whole numbers.*\(2, 4\); got int64 \(2, 3\)"),
        ((IDS, MASK, None, MASK[:, :3]), r"pooling_mask must be bool, True = counts.*got bool \(2, 3\)"),
    ],
)
def test_other_shapes_and_types_are_refused(given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Batch(*given)
