"""What a vector depends on, and nothing else, changes its fingerprint."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from anaume.bundle.fingerprint import vector_fingerprint, weights_fingerprint
from anaume.config import EmbeddingConfig
from anaume.tokenization import Tokenizer
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_models import every_head, tiny_bert

BASE = EmbeddingConfig(pooling="mean", max_length=20, prompts={"query": "q ", "passage": "p "}, default_prompt="query")


def test_the_encoder_alone_counts() -> None:
    plain = weights_fingerprint(tiny_bert())
    assert weights_fingerprint(tiny_bert(every_head())) != ""
    model = tiny_bert(every_head())
    before = weights_fingerprint(model)
    for name, parameter in model.named_parameters():
        if name.startswith(("heads.", "pooler.")):
            parameter.data.add_(1.0)
    assert weights_fingerprint(model) == before
    assert weights_fingerprint(tiny_bert()) == plain


@pytest.mark.parametrize("name", [name for name, _ in tiny_bert().named_parameters()])
def test_every_encoder_tensor_counts(name: str) -> None:
    model = tiny_bert()
    before = weights_fingerprint(model)
    parameter = model.get_parameter(name).data
    parameter.view(-1)[-1] = torch.nextafter(parameter.view(-1)[-1], torch.tensor(torch.inf))
    assert weights_fingerprint(model) != before


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": 4}, {"layer_norm_eps": 1e-6}, {"activation": "relu"}, {"causal": True}]
)
def test_settings_that_change_what_the_tensors_compute_count(change: dict[str, Any]) -> None:
    assert weights_fingerprint(tiny_bert(**change)) != weights_fingerprint(tiny_bert())


@pytest.mark.parametrize("change", [{"hidden_dropout": 0.5}, {"attention_dropout": 0.5}])
def test_dropout_does_not(change: dict[str, Any]) -> None:
    assert weights_fingerprint(tiny_bert(**change)) == weights_fingerprint(tiny_bert())


def test_the_content_counts_and_not_its_precision() -> None:
    """A bfloat16 copy whose values are the same has the same fingerprint; training mode and layout do not matter."""
    model = tiny_bert().to(torch.bfloat16)
    half = weights_fingerprint(model)
    model = model.float().train()
    assert weights_fingerprint(model) == half
    weight = model.encoder.layers[0].feed_forward.expand.weight
    weight.data = weight.data.t().contiguous().t()
    assert weights_fingerprint(model) == half


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "max"},
        {"normalize": True},
        {"max_length": 21},
        {"prompts": {"query": "q", "passage": "p "}},
        {"default_prompt": None},
        {"include_prompt": False},
    ],
    ids=str,
)
def test_how_a_text_becomes_a_vector_counts(change: dict[str, Any]) -> None:
    tokenizer = tiny_tokenizer()
    before = vector_fingerprint(tokenizer, "w", BASE)
    assert vector_fingerprint(tokenizer, "w", dataclasses.replace(BASE, **change)) != before
    assert vector_fingerprint(tokenizer, "other", BASE) != before
    assert vector_fingerprint(tokenizer, "w", BASE, long="window") != before
    assert vector_fingerprint(tokenizer, "w", BASE, dimensions=8) != before
    assert vector_fingerprint(tiny_tokenizer(lower_case=False), "w", BASE) != before


@pytest.mark.parametrize("swap", [(5, 6), (30, 31)])
def test_the_order_of_the_vocabulary_counts(swap: tuple[int, int]) -> None:
    vocab = list(VOCAB)
    vocab[swap[0]], vocab[swap[1]] = vocab[swap[1]], vocab[swap[0]]
    assert vector_fingerprint(Tokenizer(vocab), "w", BASE) != vector_fingerprint(tiny_tokenizer(), "w", BASE)


def test_what_gives_the_same_vectors_has_the_same_fingerprint() -> None:
    tokenizer = tiny_tokenizer()
    turned = dataclasses.replace(BASE, prompts=dict(reversed(list(BASE.prompts.items()))))
    assert vector_fingerprint(tokenizer, "w", turned) == vector_fingerprint(tokenizer, "w", BASE)
    assert vector_fingerprint(tokenizer, "w", BASE, long="error") == vector_fingerprint(tokenizer, "w", BASE)
    none = dataclasses.replace(BASE, pooling=None, similarity="dot")
    assert vector_fingerprint(tokenizer, "w", none) == vector_fingerprint(tokenizer, "w", BASE)


def test_it_is_the_same_in_every_process_and_release() -> None:
    """Pinned: stored vectors carry these for years. Change them only with the format version."""
    model = tiny_bert()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).view(parameter.shape) / 64 + number)
    weights = weights_fingerprint(model)
    assert weights == "1e3eac7aa06a9da2fe5c5c4fa76fae223a631b6a153b33598adc9ba623a22467"
    assert (
        vector_fingerprint(tiny_tokenizer(), weights, BASE)
        == "30cff826476a81fc34d5394e16b94aa09a1f953700601b433d50cfa965d78443"
    )
