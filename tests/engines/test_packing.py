"""Packed linear layers: the same numbers, and only where they pay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anaume.config import EmbeddingConfig
from anaume.engines import TorchEngine, packing
from anaume.engines.packing import PackedLinear, pack, packing_pays
from tiny_graphs import padded_batch
from tiny_models import tiny_bert

DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture(autouse=True)
def anew() -> None:
    packing_pays.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 96), (3, 7, 96), (40, 96), (2, 512, 96)], ids=str)
@torch.no_grad()
def test_a_packed_layer_gives_the_layer_s_numbers(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if not packing._works(dtype):
        pytest.skip("this torch has not the operators")
    layer, states = nn.Linear(96, 64).to(dtype), torch.randn(shape).to(dtype)
    got, wanted = PackedLinear(layer)(states), layer(states)
    assert got.dtype == dtype
    torch.testing.assert_close(got, wanted, atol=1e-5 if dtype == torch.float32 else 2e-2, rtol=1e-2)


def test_large_layers_alone_are_packed_and_the_caller_s_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    if not packing._works(torch.float32):
        pytest.skip("this torch has not the operators")
    monkeypatch.setattr(packing, "_SMALLEST", 33 * 32)
    model = nn.Sequential(nn.Linear(32, 64), nn.Sequential(nn.Linear(32, 32)), nn.LSTM(64, 64))
    with torch.no_grad():
        pack(model)
    assert [type(part) for part in model] == [PackedLinear, nn.Sequential, nn.LSTM]
    assert type(model[1][0]) is nn.Linear


@pytest.mark.parametrize("change", ["in place", "behind torch"])
@torch.no_grad()
def test_an_engine_with_packed_layers_sees_trained_weights(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not packing._works(torch.float32):
        pytest.skip("this torch has not the operators")
    model, embedding, batch = tiny_bert(), EmbeddingConfig(pooling="mean", normalize=True), padded_batch(5, 9)
    monkeypatch.setattr("anaume.engines.torch_engine.packing_pays", lambda dtype: False)
    plain = TorchEngine(model, embedding, device="cpu")
    before = plain.embed(batch)
    monkeypatch.setattr("anaume.engines.torch_engine.packing_pays", lambda dtype: True)
    monkeypatch.setattr(packing, "_SMALLEST", 1)
    engine = TorchEngine(model, embedding, device="cpu")
    assert abs(engine.embed(batch) - before).max() < 1e-5
    assert any(isinstance(part, PackedLinear) for part in engine._eval_twin().modules())
    assert not any(isinstance(part, PackedLinear) for part in model.modules())
    bias = model.encoder.layers[0].feed_forward.expand.bias
    (bias if change == "in place" else bias.data).add_(torch.arange(len(bias)) % 3)
    assert abs(engine.embed(batch) - plain.embed(batch)).max() < 1e-5
    assert abs(engine.embed(batch) - before).max() > 1e-3


def test_operators_that_are_missing_or_wrong_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "processor_vendor", lambda: "AuthenticAMD")
    monkeypatch.setattr(PackedLinear, "forward", lambda self, states: states[..., :48] * 0 + 9)
    assert not packing_pays(torch.float32)

    def missing(self: PackedLinear, layer: nn.Linear) -> None:
        raise AttributeError("'_OpNamespace' 'mkldnn' object has no attribute '_reorder_linear_weight'")

    packing_pays.cache_clear()
    monkeypatch.setattr(PackedLinear, "__init__", missing)
    assert not packing_pays(torch.float32)


def test_only_processors_that_gain_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "processor_vendor", lambda: "GenuineIntel")
    assert not packing_pays(torch.float32)
    monkeypatch.setattr(packing, "has_bfloat16", lambda device: False)
    assert not packing_pays(torch.bfloat16)
