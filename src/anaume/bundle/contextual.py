"""The contextual vectors of texts, token by token, of any layers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anaume.bundle.embedding import checked_texts, require_finite
from anaume.data import pad, token_budget_batches
from anaume.engines import Batch, Engine, Vectors
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer


@dataclass(frozen=True)
class TokenVectors:
    """The contextual vectors of one text, token by token."""

    tokens: tuple[str, ...]
    """Special tokens included."""
    offsets: tuple[tuple[int, int], ...]
    """Character positions of each token in the original text; (0, 0) for special tokens."""
    layers: tuple[int, ...]
    """Which layers the vectors are from; 0 = the input embeddings."""
    vectors: Vectors
    """(layers, tokens, hidden_size) float32."""


@dataclass(frozen=True)
class TokenEmbeddings:
    """The vectors of one text, a token each, as MaxSim compares them."""

    tokens: tuple[str, ...]
    """Special ones included, the prompt's, and a query's [MASK]s, where it has some."""
    vectors: Vectors
    """(tokens, size) float32, each of length 1."""
    coverage: float
    """The share of the text that the model saw, 0 to 1."""


def token_vectors(
    texts: Sequence[str],
    layers: Sequence[int] | None,
    *,
    tokenizer: Tokenizer,
    engine: Engine,
    num_hidden_layers: int,
    max_length: int,
) -> list[TokenVectors]:
    """Run each text by itself; `Bundle.hidden_states` says what the arguments mean and what is raised."""
    count = num_hidden_layers + 1
    wanted = _layers(layers, count)
    results = []
    for index, text in enumerate(checked_texts(texts)):
        encoding = tokenizer.encode(text, max_length=max_length, truncation="error")
        states = engine.hidden_states(Batch(*pad([encoding.token_ids], tokenizer.pad_id))).hidden_states
        assert states is not None
        vectors = np.stack([states[layer][0].numpy() for layer in wanted])
        require_finite(vectors[None], index)
        layers_named = tuple(layer % count for layer in wanted)
        results.append(TokenVectors(tuple(encoding.tokens), tuple(encoding.offsets), layers_named, vectors))
    return results


def layer_states(
    token_ids: Sequence[Sequence[int]],
    segment_ids: Sequence[Sequence[int]] | None,
    *,
    engine: Engine,
    pad_id: int,
) -> Iterator[tuple[int, Tensor]]:
    """Yield each row's number and what the encoder makes of it, layer by layer, in the order that runs fastest.

    token_ids, segment_ids  rows, special tokens included; None = all segments are 0
    yields                  (num_hidden_layers + 1, tokens, hidden_size) float32 on the CPU, 0 = the encoder's input
    """
    lengths = [len(row) for row in token_ids]
    for batch in token_budget_batches(lengths, engine.max_batch_tokens, close=True):
        padded, attention_mask = pad([token_ids[row] for row in batch], pad_id)
        segments = None if segment_ids is None else pad([segment_ids[row] for row in batch], 0)[0]
        states = engine.hidden_states(Batch(padded, attention_mask, segments)).hidden_states
        assert states is not None
        layers = torch.stack(states)
        for place, row in enumerate(batch.tolist()):
            yield row, layers[:, place, : lengths[row]]


def _layers(layers: Sequence[int] | None, count: int) -> list[int]:
    """Return layers as given, each checked to be one of `count`."""
    try:
        wanted = [-1] if layers is None else [operator.index(layer) for layer in layers]
    except TypeError:
        wanted = []
    if not wanted or isinstance(layers, str):
        raise SettingsError(f"layers must be a list of at least one whole number; got {layers!r}")
    for layer in wanted:
        if not -count <= layer < count:
            raise SettingsError(f"layer {layer} is not one of the {count} (0 = input, {count - 1} = last)")
    return wanted
