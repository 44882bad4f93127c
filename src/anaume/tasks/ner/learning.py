"""What is settled from training examples: scheme, label names, class weights; and what examples are refused for."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence

from anaume.data.labelled import TaggedExample
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest
from anaume.tasks.ner.schemes import (
    LETTERS,
    SCHEMES,
    Scheme,
    join_tag,
    scheme_of_letters,
    spans_of,
    speaks_of_entities,
    split_tag,
    strict_spans_of,
)

Place = tuple[int, int]
"""(number of an example, number of a word in it)"""


def place_of(examples: Sequence[TaggedExample], place: Place) -> str:
    """Return "dev.txt: row 3, word 2 ('York')" for a message."""
    example = examples[place[0]]
    return f"{_row(place[0], example)}, word {place[1] + 1} ({example.words[place[1]]!r:.40})"


def tags_given(number: int, example: TaggedExample) -> tuple[str, ...]:
    """Return an example's tags. Raises DataError where there are none, or not one a word."""
    if example.tags is None:
        raise DataError(f"{_row(number, example)}: no tags; expected one for each of its {len(example.spans)} words")
    if len(example.tags) != len(example.spans):
        raise DataError(
            f"{_row(number, example)}: expected one tag for each word; got {len(example.tags)} tags and "
            f"{len(example.spans)} words"
        )
    return example.tags


def known_tags(
    number: int, examples: Sequence[TaggedExample], known: Collection[str], *, plain: bool
) -> tuple[str, ...]:
    """Return an example's tags. Raises DataError for one that the head does not know, and names all of both sides.

    known  the head's tags where they are plain, else the types of its entities
    """
    tags = tags_given(number, examples[number])
    for word, tag in enumerate(tags):
        if _name(tag, plain) not in known and not (tag == "O" and not plain):
            theirs = {_name(tag, plain) for example in examples for tag in example.tags or ()}
            theirs -= set() if plain else {"O"}
            what = "tags" if plain else "types of entities"
            raise DataError(
                f"{place_of(examples, (number, word))}: the head does not know the tag {tag!r}; the {what} here: "
                f"{', '.join(sorted(theirs))}; the head's: {', '.join(sorted(known))}"
            )
    return tags


def _name(tag: str, plain: bool) -> str:
    """Return the type of an entity tag; what is none stands for itself."""
    pair = None if plain else split_tag(tag)
    return tag if pair is None or pair[0] == "O" else pair[1]


def check_spans(number: int, example: TaggedExample) -> None:
    """Raise DataError unless the words stand in the text, in order and apart."""
    before = 0
    for word, (start, end) in enumerate(example.spans):
        if not before <= start <= end <= len(example.text):
            raise DataError(
                f"{_row(number, example)}, word {word + 1}: its characters [{start}, {end}) must lie behind the word "
                f"before it, from {before}, and within the text, up to {len(example.text)}"
            )
        before = end


def settle_scheme(examples: Sequence[TaggedExample], given: str | None) -> tuple[Scheme, tuple[str, ...]]:
    """Return the scheme of the examples' tags, recognised where none is given, and the head's label names.

    The labels are the tags, sorted, or O and for each type, sorted, B and I. Raises DataError for a tag that does not
    fit, with its place, and where there is nothing to learn; SettingsError for a scheme that there is not.
    """
    named = next((scheme for scheme in SCHEMES if scheme == given), None)
    if given is not None and named is None:
        raise SettingsError(
            f"task.scheme must be one of {', '.join(SCHEMES)}; got {given!r}{nearest(str(given), SCHEMES)}"
        )
    first: dict[str, Place] = {}
    for number, example in enumerate(examples):
        for word, tag in enumerate(tags_given(number, example)):
            first.setdefault(tag, (number, word))
    if not first:
        raise DataError(f"expected words with tags to learn from; got {len(examples)} examples without any word")
    if named == "plain" or (named is None and not speaks_of_entities(first)):
        if len(first) == 1:
            raise DataError(f"nothing to learn: every word has the tag {next(iter(first))!r}; expected at least two")
        return "plain", tuple(sorted(first))
    pairs = _entity_tags(examples, first, named)
    types = sorted({type_ for letter, type_ in pairs.values() if letter != "O"})
    if not types:
        raise DataError("nothing to learn: every word has the tag 'O'; expected entities, such as B-PER")
    labels = ("O", *(join_tag(letter, type_) for type_ in types for letter in "BI"))
    if named is not None:
        return _warned(examples, [named]), labels
    found = scheme_of_letters({letter for letter, _ in pairs.values()})
    if found is None:
        places = {pair[0]: place_of(examples, first[tag]) for tag, pair in pairs.items() if pair[0] in "ESLU"}
        told = "; ".join(f"{letter} at {place}" for letter, place in places.items())
        raise DataError(f"the tags mix the letters of bioes (B I E S) and bilou (B I L U): {told}")
    return _warned(examples, ["bio", "iob1"] if found == "bio" else [found]), labels


def _entity_tags(
    examples: Sequence[TaggedExample], first: Mapping[str, Place], given: Scheme | None
) -> dict[str, tuple[str, str]]:
    """Cut tags into letter and type. Raises DataError for one that is no tag of the scheme (None = of any)."""
    letters = "BIESLU" if given is None else LETTERS[given]
    bare = all(len(tag) == 1 for tag in first)
    pairs = {}
    for tag, place in first.items():
        pair = split_tag(tag)
        if pair is None or pair[0] not in f"O{letters}" or (tag != "O" and (not pair[1]) != bare):
            forms = " ".join(letter if bare else f"{letter}-TYPE" for letter in letters)
            raise DataError(
                f"{place_of(examples, place)}: {tag!r} is no entity tag; expected O or one of {forms}"
                f"{f' (scheme {given})' if given else ''}. For tags that mean no entities: task.scheme=plain"
            )
        pairs[tag] = pair
    return pairs


def _warned(examples: Sequence[TaggedExample], meant: Sequence[Scheme]) -> Scheme:
    """Return the scheme that spells most of the entities as they are, of those meant; warn if it doesn't spell all."""
    total = 0
    spelled: dict[Scheme, int] = dict.fromkeys(meant, 0)
    first: dict[Scheme, str] = {}
    for number, example in enumerate(examples):
        tags = tags_given(number, example)
        count = len(spans_of(tags))
        total += count
        for scheme in meant:
            fitting = len(strict_spans_of(tags, scheme))
            spelled[scheme] += fitting
            if fitting < count:
                first.setdefault(scheme, _row(number, example))
    best = max(meant, key=lambda scheme: spelled[scheme])
    if spelled[best] < total:
        warnings.warn(
            f"{total - spelled[best]:,} of {total:,} entities are not spelled as {best} spells them (first: "
            f"{first[best]}); each is taken to begin at B, or where none of its type goes on",
            AnaumeWarning,
            stacklevel=4,
        )
    return best


def settle_weights(
    given: str | Mapping[str, float] | None, labels: Sequence[str], counts: Mapping[str, int]
) -> tuple[float, ...] | None:
    """Return a weight for each label. "balanced" leaves 1 to labels that no word has. Raises SettingsError."""
    if given is None or given == "none":
        return None
    if given == "balanced":
        met = {label: count for label, count in counts.items() if count}
        return tuple(sum(met.values()) / (len(met) * met[label]) if label in met else 1.0 for label in labels)
    if not isinstance(given, Mapping):
        raise SettingsError(f'task.class_weights must be "none", "balanced" or a weight for each label; got {given!r}')
    for label, weight in given.items():
        if label not in labels:
            raise SettingsError(
                f"task.class_weights: there is no label {label!r}{nearest(str(label), labels)}; there are: "
                f"{', '.join(labels)}"
            )
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise SettingsError(f"task.class_weights: the weight of {label} must be a number from 0; got {weight!r}")
    return tuple(float(given.get(label, 1.0)) for label in labels)


def settle_smoothing(given: float) -> float:
    """Return the label smoothing. Raises SettingsError."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < 1:
        raise SettingsError(f"task.label_smoothing must be at least 0 and below 1; got {given!r}")
    return float(given)


def warn_of_lost(counts: Sequence[tuple[int, int]], examples: Sequence[TaggedExample], what: str) -> None:
    """Say how many entities, or words, can't be learned as they are tagged, from (lost, all) of each example."""
    lost = sum(count for count, _ in counts)
    if lost:
        first = next(number for number, (count, _) in enumerate(counts) if count)
        warnings.warn(
            f"{lost:,} of {sum(total for _, total in counts):,} {what} can't be learned as they are tagged (first: "
            f"{_row(first, examples[first])}): a piece of the tokenizer reaches over their bounds, or it keeps "
            "nothing of them; a vocabulary made for this text has finer pieces",
            AnaumeWarning,
            stacklevel=4,
        )


def _row(number: int, example: TaggedExample) -> str:
    return example.place or f"example {number + 1}"
