"""Entities as character spans of a text, turned into a tag for each word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from anaume.data.labelled.sources import Record, came
from anaume.data.labelled.words import cut_words
from anaume.errors import nearest

_STARTS = ("start", "start_offset", "begin")
_ENDS = ("end", "end_offset", "stop")
_TYPES = ("type", "label", "tag", "entity_group", "entity")
_NAMES = ("name", "text", "word", "mention", "surface")
_FORMS = "{span: [start, end], type}, {start, end, label} or [start, end, label]"


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity's name of a kind and its characters [start, end)."""

    start: int
    end: int
    type: str


def tag_words(record: Record, text: str, field: str) -> tuple[tuple[tuple[int, int], ...], tuple[str, ...]]:
    """Return the words of a text, cut at the bounds of its entities too, and their BIO tags. Blanks get none.

    Raises:
        DataError: a span that is outside the text, empty or blank, whose name is another than the text there, or that
            overlaps another, with row and field.
    """
    entities = read_entities(record, text, field)
    spans = cut_words(text, [place for one in entities for place in (one.start, one.end)])
    tags = ["O"] * len(spans)
    number = 0
    for entity in entities:
        prefix = "B"
        while number < len(spans) and spans[number][0] < entity.end:
            if spans[number][0] >= entity.start:
                tags[number] = f"{prefix}-{entity.type}"
                prefix = "I"
            number += 1
    return spans, tuple(tags)


def read_entities(record: Record, text: str, field: str) -> list[Entity]:
    """Return the entities of a row in the order of the text; see `tag_words`."""
    value = record.field(field)
    if not isinstance(value, list):
        raise record.error(f"field {field!r}: expected a list of entities, came {came(value)}")
    entities = [_entity(record, text, f"{field}[{number}]", one) for number, one in enumerate(value)]
    entities.sort(key=lambda entity: (entity.start, entity.end))
    for one, other in pairwise(entities):
        if other.start < one.end:
            told = " and ".join(f"{text[e.start : e.end]!r} [{e.start}, {e.end}) {e.type}" for e in (one, other))
            raise record.error(f"field {field!r}: {told} overlap; a word has one tag, so keep one of them")
    return entities


def _entity(record: Record, text: str, where: str, value: object) -> Entity:
    start, end, kind, name = _parts(record, where, value)
    if isinstance(start, bool) or isinstance(end, bool) or not isinstance(start, int) or not isinstance(end, int):
        raise record.error(f"field {where}: expected whole numbers from start to end, came {start!r:.40}, {end!r:.40}")
    if not isinstance(kind, str) or not kind.strip():
        raise record.error(f"field {where}: expected the name of a kind of entity, came {came(kind)}")
    if not 0 <= start < end <= len(text):
        raise record.error(
            f"field {where}: span [{start}, {end}) is not within the text's {len(text)} characters; count characters "
            "(code points) from 0, the end not among them"
        )
    there = text[start:end]
    if not there.strip():
        raise record.error(f"field {where}: span [{start}, {end}) holds only blanks")
    if name is not None and name != there:
        raise record.error(f"field {where}: span [{start}, {end}) is {there!r:.60} in the text, not {name!r:.60}")
    return Entity(start, end, kind.strip())


def _parts(record: Record, where: str, value: object) -> tuple[object, object, object, object]:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return value[0], value[1], value[2], None
    if not isinstance(value, Mapping):
        raise record.error(f"field {where}: expected {_FORMS}, came {came(value)}")
    span = value.get("span")
    if isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 2:
        start, end = span
    else:
        start, end = _one(record, where, value, _STARTS), _one(record, where, value, _ENDS)
    name = next((value[key] for key in _NAMES if key in value), None)
    return start, end, _one(record, where, value, _TYPES), name


def _one(record: Record, where: str, value: Mapping[str, object], names: tuple[str, ...]) -> object:
    for name in names:
        if name in value:
            return value[name]
    raise record.error(f"field {where}: no {names[0]!r}{nearest(names[0], value)}; expected {_FORMS}")
