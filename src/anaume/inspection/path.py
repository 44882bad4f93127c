"""The way of one text through the model: its tokens side by side, then every station with name and shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anaume.bundle import Bundle
from anaume.data import pad
from anaume.engines import Batch, TorchEngine


@dataclass(frozen=True)
class TokenRow:
    """One token of the row, as the model receives it."""

    token: str
    token_id: int
    segment: int
    position: int
    real: bool
    """What the attention mask says: True = real token."""
    text: str
    """The characters of the original text; "" for special tokens."""


@dataclass(frozen=True)
class Station:
    """One place the text passes."""

    name: str
    shape: tuple[int, ...]
    meaning: str
    length: float | None
    """Mean Euclidean length of the vectors here; None where there are no vectors."""


@dataclass(frozen=True)
class TextPath:
    """Tokens and stations of one text or pair."""

    rows: tuple[TokenRow, ...]
    stations: tuple[Station, ...]


def encode_row(bundle: Bundle, text: str, pair: str | None = None) -> tuple[Batch, list[str], list[tuple[int, int]]]:
    """Return a text or pair as a batch of one row, with its tokens and their offsets; too long is refused."""
    encoding = bundle.tokenizer.encode(text, pair, max_length=bundle.config.max_position_embeddings, truncation="error")
    token_ids, attention_mask = pad([encoding.token_ids], bundle.tokenizer.pad_id)
    segment_ids = np.array([encoding.segment_ids], dtype=np.int64)
    return Batch(token_ids, attention_mask, segment_ids=segment_ids), encoding.tokens, encoding.offsets


def inspection_engine(bundle: Bundle) -> TorchEngine:
    """Return an engine that runs the bundle's very model, in float32 on the CPU, keeping what it computes."""
    return TorchEngine(bundle.model, bundle.embedding, precision="float32", device="cpu")


def trace_path(bundle: Bundle, text: str, pair: str | None = None) -> TextPath:
    """Follow a text through tokenizer, embeddings, every layer and the pooling of the bundle's own model.

    Raises TokenizerError (a ValueError) when the text is longer than the position table.
    """
    batch, tokens, offsets = encode_row(bundle, text, pair)
    assert batch.segment_ids is not None
    rows = []
    for place, (token, (start, end)) in enumerate(zip(tokens, offsets, strict=True)):
        segment = int(batch.segment_ids[0, place])
        source = text if segment == 0 else pair or ""
        token_id, real = int(batch.token_ids[0, place]), bool(batch.attention_mask[0, place])
        rows.append(TokenRow(token, token_id, segment, place, real, source[start:end]))

    engine = inspection_engine(bundle)
    tables = bundle.model.embeddings
    token_ids, segment_ids = torch.from_numpy(batch.token_ids), torch.from_numpy(batch.segment_ids)
    positions = torch.arange(len(tokens))[None]
    with torch.inference_mode():
        looked_up = (
            ("token_embeddings", tables.token_embeddings(token_ids), "one row of the table a token: static"),
            ("segment_embeddings", tables.segment_embeddings(segment_ids), "text A or B"),
            ("position_embeddings", tables.position_embeddings(positions), "place in the row"),
        )
    states = engine.hidden_states(batch).hidden_states
    assert states is not None
    stations = [Station("token_ids", tuple(batch.token_ids.shape), "whole numbers, one a token", None)]
    stations += [_station(name, vectors, meaning) for name, vectors, meaning in looked_up]
    stations.append(_station("input", states[0], "the sum of the three, layer-normalised"))
    for layer, vectors in enumerate(states[1:], start=1):
        stations.append(_station(f"layer {layer}", vectors, "contextual: attention, then feed-forward"))
    how = bundle.embedding.pooling or "mean"
    pooled = f"{how} over the real tokens" + (", scaled to length 1" if bundle.embedding.normalize else "")
    stations.append(_station("embedding", torch.from_numpy(engine.embed(batch)), pooled))
    return TextPath(tuple(rows), tuple(stations))


def _station(name: str, vectors: torch.Tensor, meaning: str) -> Station:
    return Station(name, tuple(vectors.shape), meaning, float(vectors.norm(dim=-1).mean()))
