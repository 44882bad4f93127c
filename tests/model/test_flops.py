"""The formulas count what torch counts."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anaume.config import EncoderConfig, HeadConfig
from anaume.model import Bert, encoder_flops, training_flops

CONFIG = EncoderConfig(vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=2, intermediate_size=40)


@pytest.mark.parametrize("length", [1, 7, 30])
def test_the_formula_counts_what_torch_counts(length: int) -> None:
    model = Bert(CONFIG, seed=0).eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        model(torch.ones(5, length, dtype=torch.long), None, keep_attentions=True)  # the plain products are counted
    assert encoder_flops(CONFIG, [length] * 5) == counter.get_total_flops()


def test_rows_of_several_lengths_add_up() -> None:
    parts = [encoder_flops(CONFIG, [length]) for length in (3, 0, 11)]
    assert encoder_flops(CONFIG, iter([3, 0, 11])) == sum(parts)
    assert parts[1] == 0.0 < parts[0] < parts[2] * 3 / 11, "attention grows with the square"


@pytest.mark.parametrize("places", [0, 4])
def test_training_is_forward_and_backward_of_the_body_and_the_head_at_its_places(places: int) -> None:
    rows, length = 5, 12
    model = Bert(CONFIG, {"mlm": HeadConfig(kind="mlm")}, seed=0)
    positions = torch.arange(places).expand(rows, places)
    counter = FlopCounterMode(display=False)
    with counter:
        output = model(torch.ones(rows, length, dtype=torch.long), None, keep_attentions=True)
        loss: torch.Tensor = output.last_hidden_state.sum()
        if places:
            loss = loss + model.head_logits("mlm", output.last_hidden_state, None, positions).sum()
        loss.backward()
    counted = training_flops(CONFIG, tokens=rows * length, places=rows * places, seq_len=length)
    assert counted == counter.get_total_flops()
