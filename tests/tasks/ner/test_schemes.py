"""Tag schemes: every one spells every sequence of entities, and reads back what it spelled."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.tasks.ner.schemes import (
    SCHEMES,
    Scheme,
    Span,
    scheme_of_labels,
    spans_of,
    speaks_of_entities,
    split_tag,
    strict_spans_of,
    tags_of,
)

ENTITY_SCHEMES = [scheme for scheme in SCHEMES if scheme != "plain"]
TYPES = st.sampled_from(["PER", "LOC", "人名", "MISC-x", "O", "B"])
ANY_TAGS = st.lists(st.one_of(st.just("O"), st.tuples(st.sampled_from("BIESLU"), st.sampled_from(["PER", "LOC"]))))


@st.composite
def spelled(draw: st.DrawFn, types: st.SearchStrategy[str] = TYPES) -> tuple[list[Span], int]:
    """Entities in order and apart, touching or not, and the number of words."""
    spans, place = [], 0
    for gap, length, type_ in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), types), max_size=6)):
        spans.append(Span(type_, place + gap, place + gap + length))
        place += gap + length
    return spans, place + draw(st.integers(0, 2))


@pytest.mark.parametrize("scheme", ENTITY_SCHEMES)
@settings(max_examples=40)
@given(made=spelled())
def test_what_a_scheme_spells_it_reads_back(scheme: Scheme, made: tuple[list[Span], int]) -> None:
    spans, count = made
    tags = tags_of(spans, count, scheme)
    assert len(tags) == count
    assert spans_of(tags) == spans
    assert strict_spans_of(tags, scheme) == spans


@pytest.mark.parametrize("scheme", ENTITY_SCHEMES)
@pytest.mark.parametrize("other", ENTITY_SCHEMES)
@settings(max_examples=15)
@given(made=spelled(), bare=st.booleans())
def test_every_scheme_to_every_other_and_back(
    scheme: Scheme, other: Scheme, made: tuple[list[Span], int], bare: bool
) -> None:
    spans = [span._replace(type="") for span in made[0]] if bare else made[0]
    tags = tags_of(spans, made[1], scheme)
    there = tags_of(spans_of(tags), len(tags), other)
    assert tags_of(spans_of(there), len(there), scheme) == tags


@given(pairs=ANY_TAGS)
def test_broken_tags_too_are_read_as_entities_in_order_and_apart(pairs: list[str | tuple[str, str]]) -> None:
    """Every word inside is in one entity of its type, and a strict reading finds some of the same."""
    tags = [pair if isinstance(pair, str) else "-".join(pair) for pair in pairs]
    spans = spans_of(tags)
    held = {word: span.type for span in spans for word in range(span.start, span.stop)}
    assert held == {word: tag[2:] for word, tag in enumerate(tags) if tag != "O"}
    assert all(one.stop <= other.start for one, other in itertools.pairwise(spans))
    for scheme in ENTITY_SCHEMES:
        assert set(strict_spans_of(tags, scheme)) <= set(spans)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("iob1", "I-PER I-PER O I-LOC B-LOC"),
        ("bio", "B-PER I-PER O B-LOC B-LOC"),
        ("bioes", "B-PER E-PER O S-LOC S-LOC"),
        ("bilou", "B-PER L-PER O U-LOC U-LOC"),
    ],
)
def test_the_table(scheme: Scheme, tags: str) -> None:
    spans = [Span("PER", 0, 2), Span("LOC", 3, 4), Span("LOC", 4, 5)]
    assert tags_of(spans, 5, scheme) == tags.split()


@pytest.mark.parametrize(
    ("tags", "lenient", "strict"),
    [
        ("I-FOOD I-FOOD O", [("FOOD", 0, 2)], []),
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)], [("PER", 0, 1)]),
        ("O I-PER B-PER I-PER", [("PER", 1, 2), ("PER", 2, 4)], [("PER", 2, 4)]),
        ("B I O I", [("", 0, 2), ("", 3, 4)], [("", 0, 2)]),
    ],
)
def test_a_stray_inside_tag_begins_an_entity_leniently_and_none_strictly(
    tags: str, lenient: list[tuple[str, int, int]], strict: list[tuple[str, int, int]]
) -> None:
    assert spans_of(tags.split()) == lenient
    assert strict_spans_of(tags.split(), "bio") == strict


def test_strictly_an_entity_of_bioes_must_end() -> None:
    assert strict_spans_of(["B-PER", "I-PER", "O", "S-PER", "E-PER"], "bioes") == [("PER", 3, 4)]
    assert strict_spans_of(["B-PER", "L-PER", "B-PER"], "bilou") == [("PER", 0, 2)]


def test_which_tags_are_entity_tags() -> None:
    assert split_tag("B-PER-x") == ("B", "PER-x")
    assert split_tag("O") == ("O", "")
    assert [tag for tag in ("X", "b-per", "B_PER", "M-PER", "PER", "B-", "-PER", "", "O-PER") if split_tag(tag)] == []
    assert speaks_of_entities({"O"})
    assert speaks_of_entities({"B", "I", "O"})
    assert speaks_of_entities({"b-per", "NN"}), "so that it is refused, not learned as a part of speech"
    assert not speaks_of_entities({"NN", "VB", "O"})
    assert not speaks_of_entities({"B", "I", "E", "S"}), "Italian parts of speech"


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-MISC I-MISC B-PER I-PER", "bio"),
        ("B-LOC B-PER O I-PER I-LOC", "bio"),
        ("O I-MISC I-PER B-LOC I-LOC", "iob1"),
        ("O I-PER", "iob1"),
        ("O B-PER I-PER E-PER S-PER", "bioes"),
        ("O B-PER I-PER L-PER U-PER", "bilou"),
        ("O B I", "bio"),
        ("O B-PER I-PER X [CLS]", "bio"),
        ("LABEL_0 LABEL_1", "plain"),
        ("ADJ NOUN VERB", "plain"),
        ("O", "plain"),
        ("O PER LOC", "plain"),
    ],
)
def test_the_scheme_of_a_foreign_head(labels: str, scheme: str) -> None:
    assert scheme_of_labels(labels.split()) == scheme
