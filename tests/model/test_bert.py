import math

import pytest
import torch

from anaume.config import EncoderConfig, HeadConfig
from anaume.errors import SettingsError
from anaume.model import (
    IGNORED,
    Bert,
    classification_loss,
    generate_random_mask,
    mlm_loss,
    multi_label_loss,
    nsp_loss,
    pool,
    regression_loss,
    span_loss,
)
from tiny_models import difference, every_head, pad_rows, tiny_bert, tiny_config

PARAMETERS = {  # as published, with vocabulary 30,522 and the pooler
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}


@pytest.mark.parametrize("size", PARAMETERS)
def test_named_sizes_have_the_published_number_of_parameters(size: str) -> None:
    with torch.device("meta"):
        model = Bert(EncoderConfig.named(size, vocab_size=30522), pooler=True)
    assert sum(weight.numel() for weight in model.parameters()) == PARAMETERS[size]
    assert not list(model.buffers())


@pytest.mark.parametrize(("size", "vocab_size"), [("tiny", 1000), ("mini", 1000), ("mini", 8000)])
def test_the_first_mlm_loss_is_that_of_a_guess(size: str, vocab_size: int) -> None:
    config = EncoderConfig.named(size, vocab_size=vocab_size, num_attention_heads=4)
    model = Bert(config, {"mlm": HeadConfig(kind="mlm")}, seed=0)
    token_ids = torch.randint(5, vocab_size, (8, 64))
    masked = generate_random_mask(token_ids, token_ids > 0, mask_id=4, vocab_size=vocab_size)
    states = model(masked.token_ids, None).last_hidden_state
    loss = mlm_loss(model.head_logits("mlm", states, None, masked.positions), masked.labels)
    assert loss.item() == pytest.approx(math.log(vocab_size), rel=0.02)


def test_a_seed_decides_every_weight() -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        return Bert(tiny_config(), every_head(), seed=seed).state_dict()

    one, same, other = weights(3), weights(3), weights(4)
    for name, weight in one.items():
        assert torch.equal(weight, same[name])
        drawn = weight.dim() == 2
        assert torch.equal(weight, other[name]) != drawn, name
        if drawn:
            assert weight.abs().max() <= 0.6001
        else:
            assert torch.equal(weight, torch.full_like(weight, float("norm.weight" in name)))


def test_the_parts_are_wired_in_order() -> None:
    model = tiny_bert()
    token_ids, mask = pad_rows([[2, 7, 8, 3], [2, 5, 3]])
    segment_ids = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]])
    output = model(token_ids, mask, segment_ids, keep_hidden_states=True, keep_attentions=True)
    vectors = model.embeddings(token_ids, segment_ids)
    assert torch.equal(output.hidden_states[0], vectors)
    assert torch.equal(output.last_hidden_state, model.encoder(vectors, mask, keep_attentions=True).last_hidden_state)
    assert len(output.attentions) == 2
    without = model(token_ids, mask)
    assert not torch.equal(output.last_hidden_state, without.last_hidden_state), "segments count"
    assert without.hidden_states is None


def test_left_padding_equals_right_padding_by_its_positions() -> None:
    model = tiny_bert()
    row = [2, 7, 8, 9, 3]
    right, right_mask = pad_rows([row], 40)
    left, left_mask = pad_rows([row], 40, left=True)
    wanted = model(right, right_mask).last_hidden_state[right_mask]
    assert difference(model(left, left_mask).last_hidden_state[left_mask], wanted) <= 1e-5
    unmoved = model(left, left_mask, None, torch.arange(40)[None]).last_hidden_state[left_mask]
    assert difference(unmoved, wanted) > 1e-2, "positions counted from the padding would show"


def test_packed_rows_need_their_positions() -> None:
    with pytest.raises(ValueError, match=r"packed rows \(sequence_ids\) need position_ids"):
        tiny_bert()(torch.zeros(1, 4, dtype=torch.long), None, sequence_ids=torch.tensor([[0, 0, 1, 1]]))


@pytest.mark.parametrize("shape", [(2, 3), (1, 4), (4,)])
def test_a_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"attention_mask must have the shape of token_ids, \(2, 4\)"):
        tiny_bert()(torch.zeros(2, 4, dtype=torch.long), torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("masked", [False, True])
def test_wrong_token_ids_are_refused_with_or_without_a_mask(masked: bool) -> None:
    for token_ids, message in (
        (torch.zeros(4, dtype=torch.long), "token_ids must be 2-D"),
        (torch.zeros(1, 41, dtype=torch.long), "row of 41 tokens is longer than the position table, 40"),
        (torch.tensor([[1, 50]]), "token ID 50 at row 0, place 1 is outside its table of 50 rows"),
    ):
        mask = torch.ones(token_ids.shape, dtype=torch.bool) if masked else None
        with pytest.raises(ValueError, match=message):
            tiny_bert()(token_ids, mask)


def test_a_missing_head_is_named_with_the_nearest_name() -> None:
    model = tiny_bert({"topic": HeadConfig(kind="classification", labels=("a", "b")), "mlm": HeadConfig(kind="mlm")})
    states = torch.zeros(1, 2, 16)
    with pytest.raises(ValueError, match=r"no head called 'topics' \(did you mean 'topic'\?\); it has: topic, mlm"):
        model.head_logits("topics", states, None)
    with pytest.raises(ValueError, match=r"no head called 'nsp'; it has: none"):
        tiny_bert().head_logits("nsp", states, None)


@pytest.mark.parametrize("name", ["", "my.head", "keys", "forward"])
def test_a_head_name_torch_can_not_hold_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="a head can't be called"):
        Bert(tiny_config(), {name: HeadConfig(kind="mlm")})


def test_positions_that_can_not_be_used_are_refused() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm"), "span": HeadConfig(kind="span")})
    states = torch.zeros(2, 3, 16)
    for name, shape in (("mlm", (1, 2)), ("mlm", (2,)), ("span", (2, 1))):
        with pytest.raises(ValueError, match=r"positions, \(batch, places\) with batch = 2, are for an mlm head"):
            model.head_logits(name, states, None, torch.zeros(shape, dtype=torch.long))


def test_the_pooler_is_built_when_a_head_reads_it() -> None:
    mlm, nsp = HeadConfig(kind="mlm"), HeadConfig(kind="nsp")
    assert Bert(tiny_config()).pooler is None
    assert Bert(tiny_config(), pooler=True).pooler is not None
    assert Bert(tiny_config(), {"mlm": mlm}).pooler is None
    assert Bert(tiny_config(), {"mlm": mlm, "nsp": nsp}).pooler is not None
    with pytest.raises(ValueError, match="these heads read the pooler, which is switched off: nsp"):
        Bert(tiny_config(), {"mlm": mlm, "nsp": nsp}, pooler=False)


TOKEN_IDS, ATTENTION_MASK = pad_rows([[2, 7, 8, 9, 3], [2, 6, 3]])


def loss_of(kind: str, logits: torch.Tensor) -> torch.Tensor:
    labels = torch.tensor([1, 0])
    if kind == "mlm":
        return mlm_loss(logits, torch.full((2, 5), IGNORED).index_fill(1, torch.tensor([1]), 7))
    if kind == "token-classification":
        return classification_loss(logits, torch.full((2, 5), IGNORED).index_fill(1, torch.tensor([1]), 2))
    if kind == "span":
        return span_loss(logits, labels, labels + 1, ATTENTION_MASK)
    if kind == "multi-label":
        return multi_label_loss(logits, torch.tensor([[1, 0, 1], [0, 0, 0]]))
    if kind == "regression":
        return regression_loss(logits[:, 0], torch.tensor([0.5, 1.0]))
    if kind == "multiple-choice":
        return classification_loss(logits[None], torch.tensor([1]))
    return nsp_loss(logits, labels) if kind == "nsp" else classification_loss(logits, labels)


MEAN = HeadConfig(kind="classification", labels=("a", "b", "c"), pooling="mean", head_layers=2)
TRAININGS = {kind: {kind: head} for kind, head in every_head().items()}
TRAININGS["mlm + nsp"] = {name: every_head()[name] for name in ("mlm", "nsp")}
TRAININGS["classification over the mean"] = {"classification": MEAN}
TRAININGS["embeddings alone"] = {}


@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_parameter_gets_a_gradient(training: str, checkpointed: bool) -> None:
    """A part that no loss reaches stops distributed training: it must not be built."""
    model = Bert(tiny_config(hidden_dropout=0.1), TRAININGS[training], seed=0).train()
    model.encoder.gradient_checkpointing = checkpointed
    states = model(TOKEN_IDS, ATTENTION_MASK).last_hidden_state
    losses = [loss_of(name, model.head_logits(name, states, ATTENTION_MASK)) for name in model.heads]
    total = sum(losses) if losses else pool(states, ATTENTION_MASK, "mean").square()[:, 0].mean()
    total.backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    assert all(weight.grad.isfinite().all() for weight in model.parameters())


def test_a_few_steps_learn() -> None:
    model = Bert(tiny_config(initializer_range=0.05), every_head(), seed=0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    history = []
    for _ in range(25):
        states = model(TOKEN_IDS, ATTENTION_MASK).last_hidden_state
        loss = sum(loss_of(name, model.head_logits(name, states, ATTENTION_MASK)) for name in model.heads)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    assert history[-1] < 0.3 * history[0]


def test_state_dict_round_trip_is_bitwise() -> None:
    model = tiny_bert(every_head())
    twin = Bert(tiny_config(), every_head(), seed=9).eval()
    assert not torch.equal(twin(TOKEN_IDS, ATTENTION_MASK).last_hidden_state, model(TOKEN_IDS, None).last_hidden_state)
    twin.load_state_dict(model.state_dict(), strict=True)
    for mask in (None, ATTENTION_MASK):
        assert torch.equal(twin(TOKEN_IDS, mask).last_hidden_state, model(TOKEN_IDS, mask).last_hidden_state)
