import math

import pytest
import torch

from anaume.errors import AnaumeError
from anaume.model.embeddings import InputEmbeddings, initialize

SIZES = {"vocab_size": 30, "hidden_size": 8, "max_position_embeddings": 12, "segment_vocab_size": 2}
# Standard deviation of a standard normal cut at two standard deviations: 1 - 2 z phi(z) / (2 Phi(z) - 1) at z = 2.
CUT_STD = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))


def small() -> InputEmbeddings:
    return InputEmbeddings(**SIZES).eval()


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, True, False, 1.5, "8", None])
def test_each_size_must_be_positive(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be positive") as caught:
        InputEmbeddings(**{**SIZES, name: value})
    assert isinstance(caught.value, AnaumeError)
    assert repr(value) in str(caught.value)


def test_parts_have_their_names_and_shapes() -> None:
    embeddings = InputEmbeddings(30, 8, 12)  # also positionally, with two segments
    assert embeddings.token_embeddings.weight.shape == (30, 8)
    assert embeddings.segment_embeddings.weight.shape == (2, 8)
    assert embeddings.position_embeddings.weight.shape == (12, 8)
    assert embeddings.layer_norm.normalized_shape == (8,)
    assert embeddings.layer_norm.eps == 1e-12
    assert embeddings.dropout.p == 0.1
    assert not list(embeddings.buffers()), "constants stay out of the state dict"


def test_none_means_segment_zero_and_counted_positions() -> None:
    embeddings = small()
    token_ids = torch.randint(30, (3, 7))
    zeros = torch.zeros_like(token_ids)
    places = torch.arange(7).expand(3, 7)
    plain = embeddings(token_ids)
    assert torch.equal(plain, embeddings(token_ids, zeros))
    assert torch.equal(plain, embeddings(token_ids, None, places))
    assert torch.equal(plain, embeddings(token_ids, zeros, places))
    assert not torch.equal(plain, embeddings(token_ids, zeros + 1))
    assert not torch.equal(plain, embeddings(token_ids, None, places + 1))


def test_sum_then_layer_norm_by_hand() -> None:
    embeddings = small()
    with torch.no_grad():
        embeddings.layer_norm.weight.copy_(torch.randn(8))
        embeddings.layer_norm.bias.copy_(torch.randn(8))
    token_ids, segment_ids, position_ids = torch.tensor([[4, 9]]), torch.tensor([[0, 1]]), torch.tensor([[3, 11]])
    result = embeddings(token_ids, segment_ids, position_ids)
    for place, (token, segment, position) in enumerate([(4, 0, 3), (9, 1, 11)]):
        total = (
            embeddings.token_embeddings.weight[token]
            + embeddings.segment_embeddings.weight[segment]
            + embeddings.position_embeddings.weight[position]
        ).double()
        centred = total - total.mean()
        normalized = centred / (centred.square().mean() + 1e-12).sqrt()
        wanted = normalized * embeddings.layer_norm.weight + embeddings.layer_norm.bias
        assert torch.allclose(result[0, place].double(), wanted, atol=1e-6)


def test_dropout_comes_last_and_only_in_training() -> None:
    embeddings = small()
    token_ids = torch.randint(30, (64, 12))
    kept_whole = embeddings(token_ids)
    dropped = embeddings.train()(token_ids)
    is_zero = dropped == 0
    assert 0.07 < is_zero.float().mean() < 0.13
    assert torch.allclose(dropped[~is_zero], kept_whole[~is_zero] / 0.9, atol=1e-6)


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3), ()])
def test_token_ids_must_be_two_dimensional(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"token_ids must be 2-D, \(batch, seq_len\)"):
        small()(torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("name", ["segment_ids", "position_ids"])
@pytest.mark.parametrize("shape", [(2, 4), (1, 5), (5,), (2, 5, 1)])
def test_other_ids_must_have_the_shape_of_token_ids(name: str, shape: tuple[int, ...]) -> None:
    ids = {name: torch.zeros(shape, dtype=torch.long)}
    with pytest.raises(ValueError, match=rf"{name} must have the shape of token_ids, \(2, 5\)"):
        small()(torch.zeros(2, 5, dtype=torch.long), **ids)


def test_a_row_longer_than_the_position_table_is_refused() -> None:
    assert small()(torch.zeros(1, 12, dtype=torch.long)).shape == (1, 12, 8)
    with pytest.raises(ValueError, match=r"row of 13 tokens is longer than the position table, 12"):
        small()(torch.zeros(1, 13, dtype=torch.long))


def test_a_packed_row_may_be_longer_than_the_position_table() -> None:
    restarting = torch.arange(24).remainder(12)[None]
    assert small()(torch.zeros(1, 24, dtype=torch.long), None, restarting).shape == (1, 24, 8)


@pytest.mark.parametrize(
    ("name", "rows", "wrong"),
    [("token", 30, 30), ("token", 30, -1), ("segment", 2, 2), ("segment", 2, -1), ("position", 12, 12)],
)
def test_an_id_outside_its_table_is_named_with_row_and_place(name: str, rows: int, wrong: int) -> None:
    ids = {kind: torch.zeros(3, 6, dtype=torch.long) for kind in ("token", "segment", "position")}
    ids[name][1, 4] = wrong
    ids[name][2, 0] = wrong
    with pytest.raises(ValueError, match=rf"{name} ID {wrong} at row 1, place 4 is outside its table of {rows} rows"):
        small()(ids["token"], ids["segment"], ids["position"])


def test_empty_batches_and_int32_ids_are_fine() -> None:
    assert small()(torch.zeros(0, 5, dtype=torch.long)).shape == (0, 5, 8)
    embeddings, token_ids = small(), torch.randint(30, (2, 5))
    assert torch.equal(embeddings(token_ids.int()), embeddings(token_ids))


@pytest.mark.parametrize("std", [0.02, 0.3])
def test_weights_are_drawn_from_a_normal_cut_at_two_std(std: float) -> None:
    embeddings = InputEmbeddings(2000, 64, 64, initializer_range=std)
    for table in (embeddings.token_embeddings, embeddings.position_embeddings, embeddings.segment_embeddings):
        weight = table.weight.detach()
        assert weight.abs().max() <= 2 * std + 1e-7
        assert abs(weight.mean()) < 5 * std / math.sqrt(weight.numel())
    drawn = embeddings.token_embeddings.weight.detach()
    assert float(drawn.std()) == pytest.approx(CUT_STD * std, rel=0.01)
    assert float(drawn.abs().max()) > 1.95 * std
    assert torch.equal(embeddings.layer_norm.weight, torch.ones(64))
    assert torch.equal(embeddings.layer_norm.bias, torch.zeros(64))


def test_initialize_draws_linear_layers_too_and_repeats_under_a_generator() -> None:
    def drawn(seed: int) -> torch.nn.Sequential:
        parts = torch.nn.Sequential(torch.nn.Linear(200, 100), torch.nn.LayerNorm(100), torch.nn.Linear(100, 3, False))
        with torch.no_grad():
            parts[1].weight.fill_(7.0)
        initialize(parts, 0.02, torch.Generator().manual_seed(seed))
        return parts

    one, same, other = drawn(0), drawn(0), drawn(1)
    assert float(one[0].weight.detach().std()) == pytest.approx(CUT_STD * 0.02, rel=0.03)
    assert torch.equal(one[0].bias, torch.zeros(100))
    assert torch.equal(one[1].weight, torch.ones(100))
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
    assert not torch.equal(one[0].weight, other[0].weight)
