"""Tag schemes: what the letter before a tag's type says of where an entity begins and ends.

    words       Anna   Meier  visited  Paris  Berlin
    iob1        I-PER  I-PER  O        I-LOC  B-LOC   B only where an entity touches one of its own type
    bio (IOB2)  B-PER  I-PER  O        B-LOC  B-LOC
    bioes       B-PER  E-PER  O        S-LOC  S-LOC
    bilou       B-PER  L-PER  O        U-LOC  U-LOC
    plain       NNP    NNP    VBD      NNP    NNP     no entities: parts of speech and the like

Tags may be bare letters (B, I, O): all entities are then of one type, "".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

Scheme = Literal["iob1", "bio", "bioes", "bilou", "plain"]

SCHEMES: tuple[Scheme, ...] = ("iob1", "bio", "bioes", "bilou", "plain")

LETTERS: dict[Scheme, str] = {"iob1": "BI", "bio": "BI", "bioes": "BIES", "bilou": "BILU"}
"""The letters a scheme's entities are spelled with."""

# Of an entity: its first word, those inside, its last one, its only one.
_SPELLING: dict[Scheme, str] = {"iob1": "IIII", "bio": "BIIB", "bioes": "BIES", "bilou": "BILU"}
_TYPED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_MEANT = re.compile(r"[BIESLU]-.+", re.DOTALL | re.IGNORECASE)


class Span(NamedTuple):
    """An entity: the words start .. stop - 1."""

    type: str
    start: int
    stop: int


def split_tag(tag: str) -> tuple[str, str] | None:
    """Return the letter and the type of an entity tag, ("O", "") of one outside; None for any other tag."""
    if tag in ("O", "B", "I", "E", "S", "L", "U"):
        return tag, ""
    typed = _TYPED.fullmatch(tag)
    return (typed[1], typed[2]) if typed else None


def join_tag(letter: str, type_: str) -> str:
    """Put a tag together; bare where the type is ""."""
    return f"{letter}-{type_}" if type_ else letter


def speaks_of_entities(tags: Collection[str]) -> bool:
    """Whether a set of tags means entities: one has a letter and a type, whatever its case, or all are bare letters.

    A tag set of nothing but O speaks of entities, too: of none.
    """
    if any(_MEANT.fullmatch(tag) for tag in tags):
        return True
    letters = set(tags)
    return letters <= set("BIO") or ("O" in letters and (letters <= set("BIOES") or letters <= set("BIOLU")))


def scheme_of_letters(letters: Collection[str]) -> Scheme | None:
    """Return what the letters of entity tags belong to; "bio" where it may be iob1 as well, None where they clash."""
    found = set(letters) - {"O"}
    return next((scheme for scheme in ("bio", "bioes", "bilou") if found <= set(LETTERS[scheme])), None)


def spans_of(tags: Sequence[str]) -> list[Span]:
    """Read entities out of tags of any scheme, leniently, as conlleval does.

    An entity begins at B, S or U, and at any other letter where none of its type goes on; it ends behind E, L, S or U,
    and before the next beginning or O. Tags that are no entity tags count as O.
    """
    spans: list[Span] = []
    open_: Span | None = None
    for place, tag in enumerate(tags):
        letter, type_ = split_tag(tag) or ("O", "")
        if open_ is not None and letter in "IEL" and type_ == open_.type:
            open_ = Span(type_, open_.start, place + 1)
        else:
            if open_ is not None:
                spans.append(open_)
            open_ = None if letter == "O" else Span(type_, place, place + 1)
        if open_ is not None and letter not in "BI":
            spans.append(open_)
            open_ = None
    return spans if open_ is None else [*spans, open_]


def strict_spans_of(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """Read the entities that are spelled as the scheme spells them; others are dropped: in bio, one without its B."""
    spans = spans_of(tags)
    spelled = tags_of(spans, len(tags), scheme)
    return [span for span in spans if spelled[span.start : span.stop] == list(tags[span.start : span.stop])]


def tags_of(spans: Sequence[Span], count: int, scheme: Scheme) -> list[str]:
    """Spell entities, in order and apart, as the tags of `count` words."""
    tags = ["O"] * count
    first, inside, last, only = tuple(_SPELLING[scheme])
    before = Span("", -1, -1)
    for span in spans:
        letters = [first, *inside * (span.stop - span.start - 2), last] if span.stop - span.start > 1 else [only]
        if scheme == "iob1" and (before.type, before.stop) == (span.type, span.start):
            letters[0] = "B"
        tags[span.start : span.stop] = [join_tag(letter, span.type) for letter in letters]
        before = span
    return tags


def scheme_of_labels(labels: Sequence[str]) -> Scheme:
    """Return the scheme of a head's label names, "plain" where they name no entities."""
    pairs = {pair for pair in map(split_tag, labels) if pair}
    entities = pairs - {("O", "")}
    spoken = entities and "O" in labels and speaks_of_entities(labels)
    scheme = scheme_of_letters({letter for letter, _ in entities}) if spoken else None
    if scheme != "bio":
        return scheme or "plain"
    # A head of IOB1 tags lacks the B of types that never touched.
    return "bio" if all(("B", type_) in entities for _, type_ in entities) else "iob1"
