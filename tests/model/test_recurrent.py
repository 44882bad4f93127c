"""The BiLSTM of a tagger: torch's own, whatever the padding."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anaume.config import HeadConfig
from anaume.model import Bert
from anaume.model.recurrent import BiLSTM
from tiny_models import difference, pad_rows, tiny_bert, tiny_config

LENGTHS = (5, 1, 3)
TAGS = {"tags": HeadConfig(kind="token-classification", labels=("a", "b"), recurrent_layers=2, dropout=0.0)}


def torch_twin(ours: BiLSTM, width: int, size: int, layers: int) -> nn.LSTM:
    """torch's bidirectional LSTM with our weights."""
    twin = nn.LSTM(width, size, layers, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for number in range(layers):
            for side, suffix in ((ours.ahead[number], ""), (ours.back[number], "_reverse")):
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                    getattr(twin, f"{name}_l{number}{suffix}").copy_(getattr(side, f"{name}_l0"))
    return twin


@pytest.mark.parametrize("layers", [1, 2])
def test_it_is_torchs_over_packed_rows(layers: int) -> None:
    ours = BiLSTM(6, 4, layers, 0.0)
    twin = torch_twin(ours, 6, 4, layers)
    states = torch.randn(len(LENGTHS), max(LENGTHS), 6)
    packed = nn.utils.rnn.pack_padded_sequence(states, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    wanted, _ = nn.utils.rnn.pad_packed_sequence(twin(packed)[0], batch_first=True)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    assert difference(ours(states, mask)[mask], wanted[mask]) <= 1e-6
    assert difference(ours(states[:1], None), wanted[:1]) <= 1e-6


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(left: bool) -> None:
    model = tiny_bert(TAGS)
    row = [2, 6, 9, 3]
    alone, _ = pad_rows([row])
    wanted = model.head_logits("tags", model(alone, None).last_hidden_state, None)
    token_ids, mask = pad_rows([[2, 7, 8, 9, 6, 3], row], 9, pad_id=11, left=left)
    found = model.head_logits("tags", model(token_ids, mask).last_hidden_state, mask)
    assert difference(found[1:, mask[1]], wanted) <= 1e-5


def test_both_directions_are_read() -> None:
    model = BiLSTM(3, 4, 1, 0.0)
    states = torch.randn(1, 5, 3, requires_grad=True)
    model(states, None)[0, 2].sum().backward()
    assert states.grad is not None
    assert (states.grad[0].abs().sum(dim=1) > 0).all()


def test_the_seed_draws_all_of_it() -> None:
    one, other, third = (Bert(tiny_config(), TAGS, seed=seed).state_dict() for seed in (3, 3, 4))
    names = [name for name in one if "recurrent" in name]
    assert len(names) == 16
    for name in names:
        assert torch.equal(one[name], other[name])
        assert not torch.equal(one[name], third[name])
        assert one[name].abs().max() <= 8**-0.5


def test_dropout_falls_between_the_layers() -> None:
    states = torch.randn(2, 4, 3)
    model = BiLSTM(3, 4, 2, 0.5)
    assert not torch.equal(model(states, None), model(states, None))
    model.eval()
    assert torch.equal(model(states, None), model(states, None))
    single = BiLSTM(3, 4, 1, 0.5)
    assert torch.equal(single(states, None), single(states, None))
