"""What is found in a tagged text: entities with their characters in the original, and a tag a word."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from anaume.tasks.task import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One entity of a text."""

    label: str
    """Its type; "entity" where tags are bare letters."""
    start: int
    end: int
    """Characters [start, end) of the original text."""
    text: str
    """Those characters."""
    score: float
    """The mean probability of its words' labels, 0 to 1; words without any piece apart."""
    strict: bool
    """Whether a strict reading finds it too: in bio, it begins with B-."""


@dataclass(frozen=True, kw_only=True)
class TaggedPrediction(Prediction):
    """The tags of a text's words, one each and in order, and what they say."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    """In the scheme of the file that was learned from; they spell exactly `entities`."""
    probabilities: tuple[float, ...]
    """Of each word's label as the model gave it; 0 for a word without any piece (see `pieces.py`)."""
    entities: tuple[Entity, ...]
    """By a lenient reading, in order; () for tags that mean no entities."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON, the entities first."""
        return {
            "entities": [asdict(entity) for entity in self.entities],
            "tags": list(self.tags),
            "words": list(self.words),
            "probabilities": list(self.probabilities),
            "coverage": self.coverage,
        }
