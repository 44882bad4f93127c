"""Batches and heads that every engine of graphs is compared on."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from anaume.config import HeadConfig
from anaume.engines import Batch, Vectors
from tiny_models import every_head

LABELS = ("a", "b", "c")
SHAPES = ((1, 1), (1, 2), (2, 1), (3, 7), (17, 40), (64, 12))


def needs(*names: str) -> pytest.MarkDecorator:
    """A mark that skips a test where a library is not installed, naming it."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def heads_of_all_kinds() -> dict[str, HeadConfig]:
    """Every kind of head, and those that read other layers, pool, or stand behind a BiLSTM."""
    return {
        **every_head(),
        "lstm": HeadConfig(kind="token-classification", labels=LABELS, recurrent_layers=2),
        "mixed": HeadConfig(kind="token-classification", labels=LABELS, layers="weighted-all"),
        "before": HeadConfig(kind="classification", labels=LABELS, layers="second-to-last", pooling="mean"),
        "deep": HeadConfig(kind="classification", labels=LABELS, head_layers=2, pooling="max"),
        "root": HeadConfig(kind="regression", pooling="mean_sqrt"),
        "late": HeadConfig(kind="late-interaction", size=8),
    }


def padded_batch(rows: int, seq_len: int, *, vocab_size: int = 50, empty: bool = False) -> Batch:
    """Random tokens in two segments; rows padded on the right, the second half of them far; `empty`: one is nothing."""
    generator = np.random.default_rng((rows, seq_len))
    lengths = np.maximum(1, seq_len - np.arange(rows) * seq_len // (rows + 1))
    if empty and rows > 2:
        lengths[2] = 0
    mask = np.arange(seq_len) < lengths[:, None]
    token_ids = generator.integers(0, vocab_size, (rows, seq_len)) * mask
    segments = (np.arange(seq_len) > seq_len // 2).astype(np.int64) * mask
    return Batch(token_ids, mask, segments)


def apart(got: Vectors, wanted: Vectors, batch: Batch) -> float:
    """max |got - wanted| / max(1, max |wanted|), padding of per-token results apart."""
    assert got.shape == wanted.shape
    assert got.dtype == np.float32
    if wanted.ndim == 3:
        got, wanted = got[batch.attention_mask], wanted[batch.attention_mask]
    return float(np.abs(got - wanted).max(initial=0.0) / max(1.0, np.abs(wanted).max(initial=0.0)))
