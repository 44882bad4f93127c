import pytest
import torch
import torch.nn.functional as F

from anaume.config import HeadConfig
from anaume.model.heads import Pooler, TextHead, build_head
from tiny_models import difference, every_head, pad_rows, tiny_bert, tiny_config

ROWS = [[2, 7, 8, 9, 3], [2, 6, 3]]
SHAPES = {
    "mlm": (2, 5, 50),
    "nsp": (2, 2),
    "classification": (2, 3),
    "multi-label": (2, 3),
    "regression": (2, 1),
    "token-classification": (2, 5, 3),
    "span": (2, 5, 2),
    "multiple-choice": (2,),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_shapes(kind: str) -> None:
    model = tiny_bert(every_head())
    token_ids, mask = pad_rows(ROWS)
    assert model.head_logits(kind, model(token_ids, mask).last_hidden_state, mask).shape == SHAPES[kind]


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("left", [False, True])
def test_padding_does_not_change_a_prediction(kind: str, left: bool) -> None:
    model = tiny_bert(every_head())
    row = ROWS[1]
    alone, alone_mask = pad_rows([row])
    wanted = model.head_logits(kind, model(alone, None).last_hidden_state, None)
    token_ids, mask = pad_rows([ROWS[0], row], 9, pad_id=11, left=left)
    padded = model.head_logits(kind, model(token_ids, mask).last_hidden_state, mask)[1:]
    if kind in ("mlm", "token-classification", "span"):
        padded = padded[:, mask[1]]
    assert difference(padded, wanted) <= 1e-5
    assert difference(model.head_logits(kind, model(alone, alone_mask).last_hidden_state, alone_mask), wanted) <= 1e-5


def test_pooler_by_hand() -> None:
    pooler = Pooler(tiny_config())
    states = torch.randn(2, 4, 16)
    wanted = torch.tanh(states[:, 0] @ pooler.dense.weight.T + pooler.dense.bias)
    assert torch.allclose(pooler(states, None), wanted, atol=1e-6)
    mask = torch.tensor([[True] * 4, [False, True, True, True]])
    assert torch.allclose(pooler(states, mask)[0], wanted[0], atol=1e-6)
    assert torch.allclose(pooler(states, mask)[1], torch.tanh(pooler.dense(states[1, 1])), atol=1e-6)


def test_mlm_logits_by_hand() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")})
    head, table = model.heads["mlm"], model.embeddings.token_embeddings.weight
    states = torch.randn(2, 3, 16)
    hidden = F.layer_norm(F.gelu(head.dense(states)), (16,), head.layer_norm.weight, head.layer_norm.bias, 1e-12)
    wanted = hidden @ table.T + head.bias
    assert difference(model.head_logits("mlm", states, None), wanted) <= 1e-5


def test_mlm_logits_at_positions_are_the_full_ones_gathered() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")})
    states = torch.randn(3, 7, 16)
    positions = torch.tensor([[0, 6], [3, 3], [5, 1]])
    full = model.head_logits("mlm", states, None)
    chosen = model.head_logits("mlm", states, None, positions)
    assert chosen.shape == (3, 2, 50)
    for row in range(3):
        for slot in range(2):
            assert difference(chosen[row, slot], full[row, positions[row, slot]]) <= 1e-5
    assert model.head_logits("mlm", states, None, torch.zeros(3, 0, dtype=torch.long)).shape == (3, 0, 50)


def test_the_output_matrix_is_the_token_table() -> None:
    """Tied: nothing in the head has the vocabulary's size but the bias, and both uses add to one gradient."""
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")})
    large = {name for name, weight in model.heads.named_parameters() if 50 in weight.shape}
    assert large == {"mlm.bias"}
    table = model.embeddings.token_embeddings.weight
    states = torch.randn(1, 2, 16)
    before = model.head_logits("mlm", states, None)
    with torch.no_grad():
        table[7] += 1.0
    after = model.head_logits("mlm", states, None)
    assert not torch.equal(after[..., 7], before[..., 7])
    assert difference(after[..., 8:], before[..., 8:]) <= 1e-6
    model.head_logits("mlm", states, None).sum().backward()
    assert table.grad is not None
    assert (table.grad.abs().sum(1) > 0).all()


def test_published_text_head_is_one_linear_layer_over_the_pooler() -> None:
    model = tiny_bert({"topic": HeadConfig(kind="classification", labels=("a", "b"))})
    states = torch.randn(2, 4, 16)
    dense = model.heads["topic"].dense
    wanted = dense(torch.tanh(model.pooler.dense(states[:, 0])))
    assert difference(model.head_logits("topic", states, None), wanted) <= 1e-6


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_head_layers_make_a_deeper_mlp(layers: int) -> None:
    head = build_head(tiny_config(), HeadConfig(kind="classification", labels=("a", "b", "c"), head_layers=layers))
    assert isinstance(head, TextHead)
    assert len(head.hidden) == layers - 1
    pooled = torch.randn(5, 16)
    wanted = pooled
    for layer in head.hidden:
        wanted = F.gelu(wanted @ layer.weight.T + layer.bias)
    wanted = wanted @ head.dense.weight.T + head.dense.bias
    assert difference(head.eval()(pooled), wanted) <= 1e-6


@pytest.mark.parametrize("how", ["mean", "max", "mean_sqrt"])
def test_a_text_head_over_another_pooling_reads_real_tokens_and_no_pooler(how: str) -> None:
    model = tiny_bert({"topic": HeadConfig(kind="classification", labels=("a", "b"), pooling=how)})
    assert model.pooler is None
    states = torch.randn(2, 4, 16)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    logits = model.head_logits("topic", states, mask)
    assert difference(logits[1:], model.head_logits("topic", states[1:, :2], None)) <= 1e-6
    assert difference(logits[:1], model.head_logits("topic", states[:1], None)) <= 1e-6


@pytest.mark.parametrize("kind", ["classification", "token-classification", "multiple-choice"])
def test_dropout_falls_before_the_last_layer_in_training(kind: str) -> None:
    labels = () if kind == "multiple-choice" else ("a", "b", "c")
    head = build_head(tiny_config(), HeadConfig(kind=kind, labels=labels, dropout=0.5))
    given = torch.randn(64, 16)
    assert not torch.equal(head(given), head(given))
    head.eval()
    assert torch.equal(head(given), head(given))
    assert head.dropout.p == 0.5
