import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaume.model import attention as attention_module
from anaume.model.attention import SelfAttention, plain_attention, plain_is_faster
from anaume.model.visibility import attention_bias
from tiny_models import difference, tiny_config

# A few units of rounding: bfloat16 keeps 8 bits, float16 11.
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
DTYPES = list(BOUNDS)
MASKS = {
    "none": None,
    "padding": torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 1, 0, 1, 1]]).bool(),
    "one text empty": torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]).bool(),
}


def fused(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def plain(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    return plain_attention(q, k, v, bias, 0.0)[0]


def queries_keys_values(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (scale * torch.randn(3, 2, 6, 4) for _ in range(3))
    return q.to(dtype), k.to(dtype), v.to(dtype)


def test_plain_attention_against_loops() -> None:
    q, k, v = queries_keys_values()
    mask = MASKS["padding"]
    result, weights = plain_attention(q, k, v, attention_bias(6, attention_mask=mask), 0.0)
    assert mask is not None
    for b in range(3):
        for h in range(2):
            for t in range(6):
                scores = {s: float(q[b, h, t] @ k[b, h, s]) / math.sqrt(4) for s in range(6) if mask[b, s]}
                total = sum(math.exp(score) for score in scores.values())
                wanted = sum(math.exp(score) / total * v[b, h, s] for s, score in scores.items())
                assert torch.allclose(result[b, h, t], wanted, atol=1e-6)
                for s in range(6):
                    share = math.exp(scores[s]) / total if s in scores else 0.0
                    assert float(weights[b, h, t, s]) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_both_implementations_agree(mask: str, causal: bool, scale: float) -> None:
    q, k, v = queries_keys_values(scale=scale)
    bias = attention_bias(6, attention_mask=MASKS[mask], causal=causal)
    assert difference(fused(q, k, v, bias), plain(q, k, v, bias)) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_both_implementations_agree_in_half_precision(dtype: torch.dtype, mask: str) -> None:
    q, k, v = queries_keys_values(dtype)
    bias = attention_bias(6, attention_mask=MASKS[mask], dtype=dtype)
    exact = plain(q.double(), k.double(), v.double(), None if bias is None else bias.double()).float()
    assert difference(plain(q, k, v, bias), exact) <= BOUNDS[dtype]
    assert difference(fused(q, k, v, bias), exact) <= BOUNDS[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_sum_to_one_and_are_zero_at_masked_places(dtype: torch.dtype) -> None:
    q, k, v = queries_keys_values(dtype, scale=3.0)
    mask = MASKS["padding"]
    assert mask is not None
    weights = plain_attention(q, k, v, attention_bias(6, attention_mask=mask, dtype=dtype), 0.0)[1]
    assert torch.allclose(weights.float().sum(-1), torch.ones(3, 2, 6), atol=1e-6 if dtype == torch.float32 else 2e-2)
    assert (weights[~mask[:, None, None, :].expand_as(weights)] == 0).all()
    assert (weights[mask[:, None, None, :].expand_as(weights)] > 0).float().mean() > 0.9


@pytest.mark.parametrize("implementation", [plain, fused])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0.0, 4.0])
def test_a_fully_masked_row_is_finite_and_harms_no_neighbour(implementation, dtype: torch.dtype, shift: float) -> None:
    """With shift, every score is near -90: added to the lowest float16 that is -inf, and a softmax over it NaN."""
    q, k, v = queries_keys_values(dtype)
    q, k = q + shift, k - 12 * shift
    mask = MASKS["one text empty"]
    assert mask is not None
    result = implementation(q, k, v, attention_bias(6, attention_mask=mask, dtype=dtype))
    assert result.isfinite().all()
    others = [0, 2]
    bias = attention_bias(6, attention_mask=mask[others], dtype=dtype)
    alone = implementation(q[others], k[others], v[others], bias)
    assert difference(result[others], alone) <= BOUNDS[dtype]


@pytest.mark.parametrize("implementation", [plain, fused])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_in_one_row_of_a_batch_stays_there(implementation, dtype: torch.dtype) -> None:
    q, k, v = queries_keys_values(dtype)
    bias = attention_bias(6, attention_mask=MASKS["padding"], dtype=dtype)
    clean = implementation(q, k, v, bias)
    for tensor in (q, k, v):
        tensor[1] = math.nan
    poisoned = implementation(q, k, v, bias)
    assert poisoned[1].isnan().all()
    assert difference(poisoned[[0, 2]], clean[[0, 2]]) <= BOUNDS[dtype]


@pytest.mark.parametrize("implementation", [plain, fused])
def test_what_stands_in_masked_places_changes_nothing(implementation) -> None:
    q, k, v = queries_keys_values()
    mask = MASKS["padding"]
    assert mask is not None
    bias = attention_bias(6, attention_mask=mask)
    before = implementation(q, k, v, bias)
    hidden = ~mask[:, None, :, None]
    other = implementation(q, k + 50.0 * hidden, v + 50.0 * hidden, bias)
    assert difference(other, before) <= 1e-5
    assert difference(implementation(q, k + 50.0 * hidden, v + 50.0 * hidden, None), before) > 1e-2


def test_dropout_falls_on_the_weights() -> None:
    q, k = torch.randn(2, 1, 1, 400, 4)
    identity = torch.eye(400)[None, None]
    dropped, weights = plain_attention(q, k, identity, None, 0.25)
    is_zero = dropped == 0
    assert 0.23 < is_zero.float().mean() < 0.27
    assert torch.allclose(dropped[~is_zero], weights[~is_zero] / 0.75)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 1, 400), atol=1e-5), "the weights returned are whole"


def test_against_torch_multihead_attention() -> None:
    ours = SelfAttention(tiny_config()).eval()
    theirs = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.in_proj_bias.copy_(ours.qkv.bias)
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    states = torch.randn(3, 6, 16)
    mask = MASKS["padding"]
    assert mask is not None
    bias = attention_bias(6, attention_mask=mask)
    wanted, wanted_weights = theirs(states, states, states, key_padding_mask=~mask, average_attn_weights=False)
    mixed, weights = ours(states, bias, True)
    assert difference(mixed, wanted) <= 1e-5
    assert difference(weights, wanted_weights) <= 1e-5
    mixed, weights = ours(states, bias)
    assert difference(mixed, wanted) <= 1e-5
    assert weights is None


def test_the_rule_that_picks_the_implementation() -> None:
    assert plain_is_faster(torch.zeros(1, dtype=torch.bfloat16))
    assert not plain_is_faster(torch.zeros(1))
    assert not plain_is_faster(torch.zeros(1, dtype=torch.float16))
    assert not plain_is_faster(torch.zeros(1, dtype=torch.bfloat16, device="meta"))
    with torch.no_grad():
        assert not plain_is_faster(torch.zeros(1, dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("dtype", "autocast", "gradients", "wanted"),
    [
        (torch.float32, False, True, "fused"),
        (torch.float32, False, False, "fused"),
        (torch.bfloat16, False, True, "plain"),
        (torch.bfloat16, False, False, "fused"),
        (torch.float32, True, True, "plain"),
        (torch.float32, True, False, "fused"),
    ],
)
def test_the_rule_is_followed_under_autocast_too(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, autocast: bool, gradients: bool, wanted: str
) -> None:
    ran: list[str] = []
    kernel = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: (ran.append("fused"), kernel(*a, **k))[1])
    monkeypatch.setattr(attention_module, "plain_attention", lambda *a: (ran.append("plain"), plain_attention(*a))[1])
    module = SelfAttention(tiny_config()).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), torch.set_grad_enabled(gradients):
        module(torch.randn(2, 5, 16, dtype=dtype), None)
    assert ran == [wanted]
