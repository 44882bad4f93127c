import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaume.model.encoder import Encoder, EncoderLayer, activate
from tiny_models import difference, tiny_config


def small(**settings: object) -> Encoder:
    """An encoder with weights that mix its tokens, in eval mode."""
    encoder = Encoder(tiny_config(**settings))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return encoder.eval()


def influence(encoder: Encoder, vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return (seq_len, seq_len): the size of d out[t] / d in[s]."""

    def run(given: Tensor) -> Tensor:
        return encoder(given[None], mask).last_hidden_state[0]

    jacobian = torch.autograd.functional.jacobian(run, vectors)
    return jacobian.abs().amax(dim=(1, 3))


def test_every_token_sees_both_sides() -> None:
    assert (influence(small(), torch.randn(5, 16)) > 1e-4).all()


def test_causal_tokens_see_themselves_and_what_stands_before() -> None:
    """The gradient is exactly zero from every later token, and not from any earlier one: the same block is GPT's."""
    size = influence(small(causal=True), torch.randn(5, 16))
    before = torch.ones(5, 5, dtype=torch.bool).tril()
    assert (size[before] > 1e-4).all()
    assert (size[~before] == 0).all()


@pytest.mark.parametrize("causal", [False, True])
def test_no_gradient_flows_from_padding(causal: bool) -> None:
    mask = torch.tensor([[True, True, True, False, False]])
    size = influence(small(causal=causal), torch.randn(5, 16), mask)
    assert (size[:3, 3:] == 0).all()
    assert (size[2, :3] > 1e-4).all()


def test_a_layer_against_torch_transformer_encoder_layer() -> None:
    ours = small(num_hidden_layers=1).layers[0]
    theirs = nn.TransformerEncoderLayer(
        16, 2, 64, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    )
    pairs = {
        "self_attn.in_proj_weight": ours.attention.qkv.weight,
        "self_attn.in_proj_bias": ours.attention.qkv.bias,
        "self_attn.out_proj.weight": ours.attention.output.weight,
        "self_attn.out_proj.bias": ours.attention.output.bias,
        "norm1.weight": ours.attention_norm.weight,
        "norm1.bias": ours.attention_norm.bias,
        "linear1.weight": ours.feed_forward.expand.weight,
        "linear1.bias": ours.feed_forward.expand.bias,
        "linear2.weight": ours.feed_forward.contract.weight,
        "linear2.bias": ours.feed_forward.contract.bias,
        "norm2.weight": ours.feed_forward_norm.weight,
        "norm2.bias": ours.feed_forward_norm.bias,
    }
    theirs.load_state_dict(pairs)
    assert len(pairs) == len(list(ours.parameters()))
    states = torch.randn(3, 5, 16)
    assert difference(ours(states, None)[0], theirs.train()(states)) <= 1e-5


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_activations(activation: str) -> None:
    x = torch.linspace(-4, 4, 33)
    wanted = {
        "gelu": x * (1 + torch.erf(x / 2**0.5)) / 2,
        "gelu_tanh": x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
        "relu": x.clamp(min=0),
    }
    assert torch.allclose(activate(x, activation), wanted[activation], atol=1e-6)
    encoder = small(activation=activation)
    assert all(layer.feed_forward.activation == activation for layer in encoder.layers)


def test_hidden_states_and_attentions_are_kept_when_asked_for_and_change_nothing() -> None:
    encoder = small(num_hidden_layers=3)
    vectors, mask = torch.randn(2, 6, 16), torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    plain = encoder(vectors, mask)
    assert plain.hidden_states is None
    assert plain.attentions is None

    kept = encoder(vectors, mask, keep_hidden_states=True, keep_attentions=True)
    assert difference(kept.last_hidden_state, plain.last_hidden_state) <= 1e-5
    assert len(kept.hidden_states) == 4
    assert torch.equal(kept.hidden_states[0], vectors)
    assert torch.equal(kept.hidden_states[-1], kept.last_hidden_state)
    one_layer = encoder.layers[0](vectors, None)[0]
    assert not torch.equal(kept.hidden_states[1][1], one_layer[1]), "the mask reaches the first layer"
    assert difference(kept.hidden_states[1][0], one_layer[0]) <= 1e-5
    assert len(kept.attentions) == 3
    for weights in kept.attentions:
        assert weights.shape == (2, 2, 6, 6)
        assert (weights[1, :, :, 4:] == 0).all()
        assert torch.allclose(weights.sum(-1), torch.ones(2, 2, 6), atol=1e-6)


def test_dropout_stands_after_each_half_and_on_the_weights_only_in_training() -> None:
    layer = EncoderLayer(tiny_config(hidden_dropout=0.5, attention_dropout=0.25))
    assert layer.dropout.p == 0.5
    assert layer.attention.dropout == 0.25
    states = torch.randn(2, 5, 16)
    assert not torch.equal(layer(states, None)[0], layer(states, None)[0])
    layer.eval()
    assert torch.equal(layer(states, None)[0], layer(states, None)[0])

    only_attention = EncoderLayer(tiny_config(attention_dropout=0.25))
    assert not torch.equal(only_attention(states, None)[0], only_attention(states, None)[0])


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradient_checkpointing_gives_the_same_loss_and_gradients(dropout: float, autocast: bool) -> None:
    config = tiny_config(hidden_dropout=dropout, attention_dropout=dropout, initializer_range=0.02)
    vectors, mask = torch.randn(3, 6, 16), torch.ones(3, 6, dtype=torch.bool)
    mask[0, 4:] = False
    results = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        encoder = Encoder(config).train()
        encoder.gradient_checkpointing = checkpointed
        given = vectors.clone().requires_grad_()
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = encoder(given, mask).last_hidden_state.float().square()[..., :3].mean()
        loss.backward()
        results.append([loss, given.grad, *(parameter.grad for parameter in encoder.parameters())])
    for plain, recomputed in zip(*results, strict=True):
        assert difference(recomputed, plain) <= 1e-6


def test_gradient_checkpointing_keeps_fewer_activations() -> None:
    def saved(checkpointed: bool) -> int:
        encoder = small(num_hidden_layers=4).train()
        encoder.gradient_checkpointing = checkpointed
        numbers = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal numbers
            numbers += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            encoder(torch.randn(4, 20, 16), None)
        return numbers

    assert saved(True) < 0.5 * saved(False)


@pytest.mark.parametrize(
    ("vectors", "mask", "sequence_ids", "message"),
    [
        ((5, 16), None, None, r"vectors must be \(batch, seq_len, 16\)"),
        ((2, 5, 8), None, None, r"vectors must be \(batch, seq_len, 16\)"),
        ((2, 5, 16), torch.ones(2, 4).bool(), None, r"attention_mask must be \(batch, seq_len\) = \(2, 5\)"),
        ((2, 5, 16), torch.ones(2, 5, dtype=torch.long), None, "attention_mask must be bool"),
        ((2, 5, 16), torch.ones(2, 5), None, "attention_mask must be bool"),
        ((2, 5, 16), None, torch.ones(5).long(), r"sequence_ids must be \(batch, seq_len\) = \(2, 5\)"),
    ],
)
def test_wrong_shapes_and_masks_are_refused(vectors, mask, sequence_ids, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small()(torch.randn(vectors), mask, sequence_ids=sequence_ids)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_empty_row_is_finite_and_harms_no_neighbour(dtype: torch.dtype, causal: bool, training: bool) -> None:
    encoder = small(causal=causal).to(dtype).train(training)
    vectors = torch.randn(2, 5, 16).to(dtype).requires_grad_(training)
    mask = torch.tensor([[True, True, True, False, False], [False] * 5])
    both = encoder(vectors, mask).last_hidden_state
    alone = encoder(vectors[:1], mask[:1]).last_hidden_state
    assert both.isfinite().all()
    assert difference(both[:1], alone) <= {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    if training:
        both[0, :3].float().square().sum().backward()
        assert vectors.grad is not None
        assert vectors.grad.isfinite().all()
        assert (vectors.grad[1] == 0).all()
        assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())


def test_bfloat16_and_autocast_stay_close_to_float32() -> None:
    encoder = small()
    vectors, mask = torch.randn(2, 6, 16), torch.ones(2, 6, dtype=torch.bool)
    mask[1, 4:] = False
    exact = encoder(vectors, mask).last_hidden_state
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = encoder(vectors, mask).last_hidden_state.float()
    low = copy.deepcopy(encoder).to(torch.bfloat16)(vectors.bfloat16(), mask).last_hidden_state.float()
    for result in (mixed, low):
        assert F.cosine_similarity(result[mask], exact[mask], dim=-1).min() >= 0.999


def test_the_forward_pass_compiles_whole() -> None:
    encoder = small()
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    vectors, mask = torch.randn(2, 6, 16), torch.ones(2, 6, dtype=torch.bool)
    assert difference(compiled(vectors, mask).last_hidden_state, encoder(vectors, mask).last_hidden_state) <= 1e-5
