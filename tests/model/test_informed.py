"""The start that knows frequencies and neighbours: what it promises before the first step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from anaume.config import EncoderConfig, HeadConfig
from anaume.errors import SettingsError
from anaume.model import Bert
from anaume.model.informed import know_frequencies, see_neighbours


def bert(**other: object) -> Bert:
    config = {"vocab_size": 500, "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4} | other
    return Bert(EncoderConfig(**config), {"token": HeadConfig(kind="mlm")}, seed=0).eval()  # type: ignore[arg-type]


def weights(model: Bert, length: int = 64, layer: int = 0, **given: object) -> torch.Tensor:
    """Return a layer's attention to distances, (heads, 2 x length - 1): the mean over the places that have them."""
    ids = torch.randint(5, 500, (8, length), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        output = model(ids, None, keep_attentions=True, **given)
    found = output.attentions[layer]
    return torch.stack(
        [torch.diagonal(found, distance, 2, 3).mean((0, 2)) for distance in range(1 - length, length)], dim=1
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("width", [128, 256])
def test_heads_look_at_their_neighbours_first(seed: int, width: int) -> None:
    model = bert(hidden_size=width)
    see_neighbours(model)
    found = weights(model)
    assert (found.argmax(1) - 63).tolist() == [-1, 1, -2, 2]
    assert found.max(1).values.min() > 0.3
    assert (weights(model, layer=1).argmax(1) - 63).tolist() == [-3, 3, -4, 4]
    assert (weights(bert(hidden_size=width)).max(1).values < 0.1).all(), "drawn at random they look everywhere alike"


def test_a_causal_models_heads_look_back() -> None:
    model = bert(causal=True)
    see_neighbours(model)
    assert (weights(model)[:, :64].argmax(1) - 63).tolist() == [-1, -2, -3, -4]


def test_places_count_within_each_text_of_a_row() -> None:
    model = bert()
    see_neighbours(model)
    length = 32
    halves = torch.arange(2).repeat_interleave(length // 2).expand(8, length)
    places = torch.arange(length // 2).repeat(2).expand(8, length)
    found = weights(model, length, sequence_ids=halves, position_ids=places)
    assert (found.argmax(1) - (length - 1)).tolist() == [-1, 1, -2, 2]


def test_the_rest_stays_as_it_was_drawn() -> None:
    model, other = bert(), bert()
    see_neighbours(model)
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, other.state_dict()[name])]
    assert changed == [
        "embeddings.token_embeddings.weight",
        "embeddings.segment_embeddings.weight",
        "embeddings.position_embeddings.weight",
        "encoder.layers.0.attention.qkv.weight",
        "encoder.layers.1.attention.qkv.weight",
    ]
    tokens = model.embeddings.token_embeddings.weight
    assert torch.equal(tokens[:, 32:], other.embeddings.token_embeddings.weight[:, 32:])
    assert not tokens[:, :32].any()


def test_heads_without_room_for_an_angle_stay_as_they_are() -> None:
    model, other = bert(num_attention_heads=128), bert(num_attention_heads=128)
    see_neighbours(model)
    assert all(torch.equal(own, drawn) for own, drawn in zip(model.parameters(), other.parameters(), strict=True))


def test_the_first_predictions_are_the_frequencies() -> None:
    model = bert()
    counts = torch.randint(0, 1000, (500,), generator=torch.Generator().manual_seed(2))
    counts[7] = 0
    know_frequencies(model.heads["token"].bias, counts)  # type: ignore[arg-type]
    shares = F.softmax(model.heads["token"].bias.detach().double(), dim=0)  # type: ignore[operator]
    expected = (counts + 1).double() / (counts + 1).sum()
    torch.testing.assert_close(shares, expected, atol=1e-7, rtol=1e-5)
    with pytest.raises(SettingsError, match="500 entries and there are counts of 3"):
        know_frequencies(model.heads["token"].bias, counts[:3])  # type: ignore[arg-type]
