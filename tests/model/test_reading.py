"""Which layers a head reads, and how they become one state."""

from __future__ import annotations

import pytest
import torch

from anaume.config import HEAD_LAYERS, HeadConfig
from anaume.errors import SettingsError
from anaume.model.reading import LayerMix, layer_numbers
from tiny_models import difference, pad_rows, tiny_bert, tiny_config

ROWS = [[2, 7, 8, 9, 3], [2, 6, 3]]
LABELS = ("a", "b", "c")
NUMBERS = {
    "last": [6],
    "second-to-last": [5],
    "embeddings": [0],
    "last-four": [3, 4, 5, 6],
    "weighted-last-four": [3, 4, 5, 6],
    "weighted-all": [1, 2, 3, 4, 5, 6],
}


@pytest.mark.parametrize("layers", HEAD_LAYERS)
def test_the_layers_by_number(layers: str) -> None:
    assert list(layer_numbers(tiny_config(num_hidden_layers=6), layers)) == NUMBERS[layers]


@pytest.mark.parametrize("layers", ["last-four", "weighted-last-four"])
def test_four_layers_of_fewer_are_refused(layers: str) -> None:
    with pytest.raises(SettingsError, match="needs 4 layers; the encoder has 2"):
        tiny_bert({"tags": HeadConfig(kind="token-classification", labels=LABELS, layers=layers)})


@pytest.mark.parametrize("layers", HEAD_LAYERS)
def test_a_token_head_by_hand(layers: str) -> None:
    model = tiny_bert(
        {"tags": HeadConfig(kind="token-classification", labels=LABELS, layers=layers)}, num_hidden_layers=6
    )
    token_ids, mask = pad_rows(ROWS)
    output = model(token_ids, mask, keep_hidden_states=True)
    read = [output.hidden_states[number] for number in NUMBERS[layers]]
    head = model.heads["tags"]
    if layers.startswith("weighted"):
        with torch.no_grad():
            head.mix.weights.copy_(torch.arange(len(read)).float())
        shares = torch.arange(len(read)).float().exp()
        state = sum(share * layer for share, layer in zip(shares / shares.sum(), read, strict=True))
    else:
        state = torch.cat(read, dim=-1)
    wanted = state @ head.dense.weight.T + head.dense.bias
    assert difference(model.head_logits("tags", model.read_by("tags", output), mask), wanted) <= 1e-5


@pytest.mark.parametrize("layers", HEAD_LAYERS)
@pytest.mark.parametrize("pooling", ["mean", "max", "mean_sqrt", "cls"])
def test_a_text_head_pools_each_layer_and_then_mixes(layers: str, pooling: str) -> None:
    head = HeadConfig(kind="classification", labels=LABELS, layers=layers, pooling=pooling, head_layers=2)
    model = tiny_bert({"topic": head}, num_hidden_layers=6)
    assert (model.pooler is not None) == (layers == "last" and pooling == "cls")
    token_ids, mask = pad_rows(ROWS)
    whole = model.head_logits("topic", model.read_by("topic", model(token_ids, mask, keep_hidden_states=True)), mask)
    assert whole.shape == (2, 3)
    alone, _ = pad_rows(ROWS[1:])
    read = model.read_by("topic", model(alone, None, keep_hidden_states=True))
    assert difference(whole[1:], model.head_logits("topic", read, None)) <= 1e-5


def test_a_weighted_sum_begins_as_the_mean_and_learns() -> None:
    mix = LayerMix(tiny_config(num_hidden_layers=6), "weighted-all")
    states = torch.randn(6, 2, 3, 16)
    mixed = mix(states)
    assert torch.allclose(mixed, states.mean(dim=0), atol=1e-6)
    mixed.square().sum().backward()
    assert mix.weights.grad.abs().min() > 0
    assert mix.weights.grad.sum().abs() < 1e-4  # a constant added to all changes nothing
