"""TSDAE: what is deleted, and what the decoder's loss is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.model import Bert
from anaume.tasks.similarity import Similarity
from anaume.tasks.similarity.denoising import kept_places
from anaume.training.finetuning.example_parts import example_part
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_labels import texts
from tiny_models import tiny_bert

ROWS = [np.arange(length) for length in (2, 3, 4, 7, 12, 42)]


@pytest.mark.parametrize("share", [0.1, 0.6, 0.95])
def test_so_many_pieces_go_and_special_tokens_stay(share: float) -> None:
    for seed in range(20):
        kept = kept_places(ROWS, range(len(ROWS)), share=share, seed=seed, step=3)
        for row, own in zip(ROWS, kept, strict=True):
            pieces = len(row) - 2
            assert own[0] == 0
            assert own[-1] == len(row) - 1
            assert own.tolist() == sorted(set(own.tolist()))
            gone = 0 if pieces < 2 else min(pieces - 1, max(1, round(share * pieces)))
            assert len(own) - 2 == pieces - gone


def test_seed_step_row_and_place_decide_and_nothing_else() -> None:
    def kept(rows: list[int], **other: int) -> list[list[int]]:
        given = {"seed": 1, "step": 2, **other}
        found = kept_places([ROWS[row] for row in rows], rows, share=0.6, seed=given["seed"], step=given["step"])
        return [own.tolist() for own in found]

    together = kept([3, 4, 5])
    assert kept([5]) + kept([3, 4]) == [together[2], *together[:2]]
    assert kept([5], step=3) != kept([5]) != kept([5], seed=2)
    assert kept_places([ROWS[5]], [6], share=0.6, seed=1, step=2)[0].tolist() != together[2]


def decoded_by_hand(model: Bert, vector: Tensor, tokens: list[int]) -> float:
    """The cross-entropy of tokens 1 .. n - 1 by one causal layer, written out with the weights alone."""
    w = {name.removeprefix("heads.similarity.decoder."): own for name, own in model.state_dict().items()}
    table, n = w["embeddings.token_embeddings.weight"], len(tokens) - 1

    def norm(states: Tensor, name: str) -> Tensor:
        return F.layer_norm(states, states.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    def linear(states: Tensor, name: str) -> Tensor:
        return states @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    read = table[tokens[:-1]] + w["embeddings.segment_embeddings.weight"][0]
    read = norm(read + w["embeddings.position_embeddings.weight"][:n], "embeddings.layer_norm")
    states = read + linear(vector, "dense")
    layer, heads = "layers.layers.0", model.config.num_attention_heads
    size = states.shape[1] // heads
    mixed = []
    for part in range(heads):
        q, k, v = (
            own[:, part * size : (part + 1) * size] for own in linear(states, f"{layer}.attention.qkv").chunk(3, dim=1)
        )
        rows = []
        for place in range(n):
            weights = (k[: place + 1] @ q[place] / math.sqrt(size)).softmax(dim=0)
            rows.append(weights @ v[: place + 1])
        mixed.append(torch.stack(rows))
    attended = linear(torch.cat(mixed, dim=1), f"{layer}.attention.output")
    states = norm(states + attended, f"{layer}.attention_norm")
    inner = F.gelu(linear(states, f"{layer}.feed_forward.expand"))
    states = norm(states + linear(inner, f"{layer}.feed_forward.contract"), f"{layer}.feed_forward_norm")
    chances = (states @ table.T + w["bias"]).log_softmax(dim=1)
    return -sum(float(chances[place, token]) for place, token in enumerate(tokens[1:]))


def test_the_loss_is_that_of_every_token_given_the_vector_and_those_before() -> None:
    rows = [SimilarityExample(text=text) for text in texts(5, 3)]
    task = Similarity.fit(rows, objective="tsdae")
    model = tiny_bert({"similarity": task.head}, vocab_size=len(VOCAB)).eval()
    features = task.features(rows, tiny_tokenizer(), 40, learn=True)
    part, real = example_part(features, range(5), task, 0, torch.device("cpu"), seed=1, step=4)
    assert real < features.token_ids.starts[-1]  # something was deleted
    logits = model.head_logits("similarity", part.read(model, "similarity"), part.batch.attention_mask)
    found = task.loss_in(model, logits, part.batch, task.count(part.batch))
    kept = task.kept_places([features.token_ids[row] for row in range(5)], range(5), seed=1, step=4)
    assert kept is not None
    wanted, count = 0.0, 0
    for row in range(5):
        tokens = features.token_ids[row]
        seen = torch.from_numpy(tokens[kept[row]]).long()[None]
        vector = model(seen, None).last_hidden_state[0].mean(dim=0)  # not normalised
        with torch.no_grad():
            wanted += decoded_by_hand(model, vector, tokens.tolist())
        count += len(tokens) - 1
    assert found.item() == pytest.approx(wanted / count, rel=1e-5)
    found.backward()
    for name, own in model.named_parameters():  # encoder, decoder and the table they share
        assert own.grad is not None, name
        assert own.grad.abs().max() > 0.0, name


def test_what_does_not_fit_is_refused() -> None:
    pair = SimilarityExample(text="a", positives=("b",), place="made: row 1")
    with pytest.raises(DataError, match="made: row 1: tsdae learns from single texts, and this is a pair"):
        Similarity.fit([pair], objective="tsdae")
    single = [SimilarityExample(text="a")]
    with pytest.raises(SettingsError, match=r"task.dimensions mean nothing to tsdae"):
        Similarity.fit(single, objective="tsdae", dimensions=(4, 16))
    with pytest.raises(SettingsError, match=r"task.deleted must lie between 0 and 1"):
        Similarity.fit(single, objective="tsdae", deleted=1.0)
