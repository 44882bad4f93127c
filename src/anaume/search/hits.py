"""What a search finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A passage that was found."""

    id: str
    """The document's id."""
    text: str
    """The passage: characters `start` to `end` of the document."""
    start: int
    end: int
    passage: int
    """Which of the document's passages it is, from 0."""
    passages: int
    """How many it has."""
    score: float
    """What hits are ordered by: the cosine, -1 to 1 (the product, for a model made for it); of a hybrid search the sum
    of reciprocal ranks; after reranking the cross-encoder's."""
    coverage: float
    """The share of the passage that the model saw, 0 to 1."""
    metadata: dict[str, Any]
    """The document's other fields."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Every score that took part: "vector", "words" (BM25), "fused", "rerank"."""
