"""Named entities, and any other tags of words: 固有表現抽出. Words in, a tag each out, with the entities."""

from anaume.tasks.ner.entities import Entity, TaggedPrediction
from anaume.tasks.ner.schemes import SCHEMES, Scheme, Span, spans_of, strict_spans_of, tags_of
from anaume.tasks.ner.scores import entity_scores
from anaume.tasks.ner.task import Ner

__all__ = [
    "SCHEMES",
    "Entity",
    "Ner",
    "Scheme",
    "Span",
    "TaggedPrediction",
    "entity_scores",
    "spans_of",
    "strict_spans_of",
    "tags_of",
]
