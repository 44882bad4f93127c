"""What vectors of texts learn from: pairs, triplets, scored pairs, labelled NLI, queries with passages, bare texts.

A pair is two texts that are near each other (query and positive), or two with a score or a class (STS-B, SICK, SNLI,
JGLUE, STS 2012-2016: the layouts that `texts.py` knows). Negatives are texts that are far from the query.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import STDIN, DecodeErrors, source_name
from anaume.data.labelled.examples import SimilarityExample
from anaume.data.labelled.labels import class_label, number_label
from anaume.data.labelled.sources import LabelledFormat, Reading, Record, came, find_sources, read_source
from anaume.data.labelled.texts import LABEL_COLUMNS, PAIR_COLUMNS, KnownLayout
from anaume.data.records import listed
from anaume.data.rows import TEXT_COLUMNS
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest
from anaume.logs import get_logger

log = get_logger(__name__)

QUERY_COLUMNS = ("query", "anchor", "question", *TEXT_COLUMNS)
POSITIVE_COLUMNS = ("positive", "positives", "pos", "passage", "document", "answer", "context")
NEGATIVE_COLUMNS = ("negative", "negatives", "neg", "hard_negative", "hard_negatives")
SCORE_COLUMNS = ("score", "scores", "margin", "margins", "relatedness_score", "similarity")
CLASS_COLUMNS = LABEL_COLUMNS["class"]

_NUMBERED = re.compile(r"(?:hard_)?neg(?:ative)?[ _-]?(\d+)")
_NO_GOLD = "-"  # SNLI and MNLI, where annotators did not agree


def read_similar(
    paths: str | Path | Sequence[str | Path],
    *,
    query: str | None = None,
    positive: str | None = None,
    negative: str | Sequence[str] | None = None,
    score: str | None = None,
    label: str | None = None,
    labelled: bool = True,
    format: LabelledFormat | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[SimilarityExample]:
    """Stream the examples of one or more files, in order, in bounded memory.

    query, positive, negative, score, label: columns, where they are not the usual ones. Named texts are read alone: a
        score or a class then only where it is named, too. A table of two columns with other names holds pairs. A file
        of one text a row (a txt without tabs: a line) gives examples without a second text.
    positive, negative: a text or a list of texts; negative may be several columns, in a list or parted by commas
        (negative_1, negative_2, ... are found). A blank in one of several columns is no text.
    score: a number; with negatives, one for each, in a list if there are several.
    label: a class. A column called label whose JSON or Parquet value is no whole number is a score (JSTS).
    labelled: False reads texts alone.

    Rows that their annotators left without a class (gold_label "-") are left out, which an AnaumeWarning counts.

    Raises:
        SettingsError: at once, for a score and a label, or another wrong option.
        DataError: at once, for a file that is not there; while reading, with file, row and field.
    """
    if score is not None and label is not None:
        raise SettingsError(f"pairs have a score or a class: name one of score={score!r} and label={label!r}")
    reading = Reading(format=format, encoding=encoding, errors=errors, quoting=quoting, header=KnownLayout(header))
    found = find_sources(paths, reading)
    chosen = _Roles(query, positive, _several(negative), score, label)
    return _stream(found, reading, chosen, labelled)


@dataclass(frozen=True, slots=True)
class _Roles:
    """Which column is what; () and None = there is none, or it is not settled yet."""

    query: str | None
    positive: str | None
    negative: tuple[str, ...]
    score: str | None
    label: str | None

    @property
    def named(self) -> list[str]:
        return [name for name in (self.query, self.positive, *self.negative, self.score, self.label) if name]


def _is_table(path: str | Path, reading: Reading) -> bool:
    """Whether a .txt is a table (SICK): its first line has tabs. Else it holds a text a line."""
    with reading.open(path) as file:
        return "\t" in next(iter(file.lines()), "")


def _several(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return ()
    return tuple(columns.split(",")) if isinstance(columns, str) else tuple(columns)


def _stream(
    found: list[tuple[str | Path, LabelledFormat]], reading: Reading, chosen: _Roles, labelled: bool
) -> Iterator[SimilarityExample]:
    for path, kind in found:
        source, undecided = source_name(path), 0
        if kind == "txt" and reading.format is None and str(path) != STDIN and _is_table(path, reading):
            kind = "tsv"
        settled: dict[tuple[str, ...], tuple[_Roles, bool]] = {}  # rows of JSON may differ in their fields
        for record in read_source(path, kind, reading):
            names = tuple(record.fields)
            if names not in settled:
                settled[names] = _settle(record.place if settled else source, record.fields, chosen, labelled)
            roles, scored = settled[names]
            if roles.label == "gold_label" and record.fields.get("gold_label") == _NO_GOLD:
                undecided += 1
                continue
            yield _example(record, roles, scored)
        if not settled:
            raise DataError(f"{source}: no rows in it (read as {kind})")
        if undecided:
            warnings.warn(
                f"{source}: {undecided} rows were left out: their gold_label is '-', so the annotators did not agree",
                AnaumeWarning,
                stacklevel=2,
            )


def _settle(place: str, fields: dict[str, object], chosen: _Roles, labelled: bool) -> tuple[_Roles, bool]:
    """Settle the columns of records with these fields; and whether their labels are scores."""
    for name in chosen.named:
        if name not in fields:
            raise DataError(f"{place}: no column {name!r}{nearest(name, fields)}; it has {listed(fields)}")
    query, positive, two = chosen.query, chosen.positive, None
    if query is None and positive is None:
        two = next((two for two in PAIR_COLUMNS if two[0] in fields and two[1] in fields), None)
        own = _first(POSITIVE_COLUMNS, fields)
        if own is not None and _first(QUERY_COLUMNS, fields) is not None:
            query, positive = _first(QUERY_COLUMNS, fields), own
        elif two is not None:
            query, positive = two
        else:
            query, positive = _unusual(place, fields)
    elif query is None:
        query = _first(QUERY_COLUMNS, {name: 0 for name in fields if name != positive})
        if query is None:
            raise DataError(f"{place}: {positive!r} is whose positive? --column query=NAME: {listed(fields)}")
    elif positive is None:
        positive = _first(POSITIVE_COLUMNS, fields)
    negative = chosen.negative or (_negatives(fields) if positive is not None else ())
    score, label = chosen.score, chosen.label
    if labelled and not chosen.named and positive is not None:
        score = _first(SCORE_COLUMNS, fields)
        label = _first(CLASS_COLUMNS, fields) if score is None and not negative else None
    if not labelled:
        score = label = None
    if label == "label" and chosen.label is None and isinstance(fields[label], float):
        score, label = label, None
    roles = _Roles(query, positive, negative, score, label)
    log.debug("%s: %s", place, roles)
    return roles, score is not None


def _unusual(place: str, fields: dict[str, object]) -> tuple[str, str | None]:
    """Return the columns of query and positive where neither has a usual name."""
    names = [name for name in fields if name not in (*SCORE_COLUMNS, *CLASS_COLUMNS)]
    alone = _first(TEXT_COLUMNS, fields)
    if alone is not None or len(names) == 1:
        return alone or names[0], None
    if len(names) == 2 and len(fields) == 2:
        log.info("%s: pairs are read from its two columns, %s", place, listed(names))
        return names[0], names[1]
    raise DataError(
        f"{place}: which columns hold the texts? Usual names are query and positive (and negative), or sentence1 and "
        f"sentence2; choose with --column query=NAME and --column positive=NAME: {listed(fields)}"
    )


def _first(usual: Sequence[str], fields: dict[str, object] | dict[str, int]) -> str | None:
    return next((name for name in usual if name in fields), None)


def _negatives(fields: dict[str, object]) -> tuple[str, ...]:
    if (one := _first(NEGATIVE_COLUMNS, fields)) is not None:
        return (one,)
    numbered = sorted((int(match[1]), name) for name in fields if (match := _NUMBERED.fullmatch(name)))
    return tuple(name for _, name in numbered)


def _example(record: Record, roles: _Roles, scored: bool) -> SimilarityExample:
    assert roles.query is not None
    query = record.text(roles.query)
    if not query.strip():
        raise record.error(f"field {roles.query!r} is blank; give it a text or leave the row out")
    positives = () if roles.positive is None else _texts(record, roles.positive, needed=True)
    negatives: tuple[str, ...] = ()
    for name in roles.negative:
        negatives += _texts(record, name, needed=len(roles.negative) == 1)
    if both := set(positives) & set(negatives):
        raise record.error(f"the text {min(both)!r:.60} is positive and negative at once")
    return SimilarityExample(
        place=record.place,
        fields=record.fields,
        text=query,
        positives=positives,
        negatives=negatives,
        label=_label(record, roles, scored, len(negatives)),
    )


def _texts(record: Record, name: str, *, needed: bool) -> tuple[str, ...]:
    """Return the text or texts of a field; of one that is not needed, blank and null are none."""
    value = record.field(name) if needed else record.fields.get(name)
    found = value if isinstance(value, list) else [value]
    if not needed:
        found = [text for text in found if text is not None and not (isinstance(text, str) and not text.strip())]
    for text in found:
        if not isinstance(text, str):
            raise record.error(f"field {name!r}: expected a text or a list of texts, came {came(value)}")
        if not text.strip():
            raise record.error(f"field {name!r} is blank; give it a text or leave the row out")
    if needed and not found:
        raise record.error(f"field {name!r}: an empty list; give it a text or leave the row out")
    return tuple(dict.fromkeys(found))


def _label(record: Record, roles: _Roles, scored: bool, negatives: int) -> str | float | tuple[float, ...] | None:
    if not scored:
        return None if roles.label is None else class_label(record, roles.label)
    name = roles.score
    assert name is not None
    if not negatives:
        return number_label(record, name)
    value = record.fields.get(name)
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) != negatives:
        raise record.error(f"field {name!r}: {len(numbers)} scores, expected {negatives}, one for each negative")
    return tuple(number_label(Record(record.place, {name: number}), name) for number in numbers)
