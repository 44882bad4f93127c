"""Whether a model is still what it was, however it was changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from anaume.engines.watching import Watch
from anaume.model import Bert
from tiny_models import tiny_bert


def in_place(model: Bert) -> None:
    model.encoder.layers[0].attention.qkv.bias.add_(1.0)  # type: ignore[operator,union-attr]


def behind_torch(model: Bert) -> None:
    model.encoder.layers[0].attention.qkv.bias.data.add_(1.0)  # type: ignore[operator,union-attr]


def by_a_new_tensor(model: Bert) -> None:
    layer_norm = model.embeddings.layer_norm
    layer_norm.weight = nn.Parameter(layer_norm.weight.clone())


def by_a_new_part(model: Bert) -> None:
    model.embeddings.layer_norm = nn.LayerNorm(model.config.hidden_size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("change", [in_place, behind_torch, by_a_new_tensor, by_a_new_part])
@torch.no_grad()
def test_every_change_is_seen_and_nothing_else_is(change: Callable[[Bert], None], dtype: torch.dtype) -> None:
    model = tiny_bert().to(dtype)
    watch = Watch(model)
    assert not watch.changed()
    model.train()
    assert not watch.changed()
    change(model)
    assert watch.changed()
    assert not Watch(model).changed()
