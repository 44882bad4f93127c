"""Tiny models and the bound of promise 2, for every test that runs a model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anaume.config import EncoderConfig, HeadConfig
from anaume.model import Bert


def tiny_config(**other: Any) -> EncoderConfig:
    """Settings of a model that runs in a millisecond.

    The weights are drawn wide (0.3): with the published 0.02 a tiny encoder hardly mixes its tokens, and a test that
    looks for leaks would pass whatever leaked. Dropout is off.
    """
    settings: dict[str, Any] = {
        "vocab_size": 50,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 40,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "initializer_range": 0.3,
    }
    return EncoderConfig(**{**settings, **other})


def tiny_bert(heads: dict[str, HeadConfig] | None = None, *, pooler: bool | None = None, **settings: Any) -> Bert:
    """A tiny model in eval mode, with random biases and norms, so that none of them can be forgotten unseen."""
    model = Bert(tiny_config(**settings), heads, pooler=pooler, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def every_head() -> dict[str, HeadConfig]:
    """One head of every kind, under the name of its kind."""
    labels = ("a", "b", "c")
    return {
        "mlm": HeadConfig(kind="mlm"),
        "nsp": HeadConfig(kind="nsp"),
        "classification": HeadConfig(kind="classification", labels=labels),
        "multi-label": HeadConfig(kind="multi-label", labels=labels),
        "regression": HeadConfig(kind="regression"),
        "token-classification": HeadConfig(kind="token-classification", labels=labels),
        "span": HeadConfig(kind="span"),
        "multiple-choice": HeadConfig(kind="multiple-choice"),
    }


def pad_rows(rows: list[list[int]], seq_len: int | None = None, *, pad_id: int = 0, left: bool = False) -> Any:
    """Return token_ids (batch, seq_len) int64 and attention_mask (batch, seq_len) bool of lists of token IDs."""
    width = max(map(len, rows)) if seq_len is None else seq_len
    token_ids = torch.full((len(rows), width), pad_id)
    attention_mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for index, row in enumerate(rows):
        places = slice(width - len(row), width) if left else slice(0, len(row))
        token_ids[index, places] = torch.tensor(row)
        attention_mask[index, places] = True
    return token_ids, attention_mask


def difference(given: Tensor, wanted: Tensor) -> float:
    """Return max |given - wanted| / max(1, max |wanted|): promise 2 keeps it under 1e-5 in float32."""
    assert given.shape == wanted.shape
    assert given.isfinite().all()
    assert wanted.isfinite().all()
    if wanted.numel() == 0:
        return 0.0
    given, wanted = given.detach().float(), wanted.detach().float()
    return float((given - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))
