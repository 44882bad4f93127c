"""Questions with options: SWAG, ARC, JCommonsenseQA, and any rows with a question, options and the right one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import DecodeErrors, source_name
from anaume.data.labelled.examples import ChoiceExample
from anaume.data.labelled.sources import LabelledFormat, Reading, Record, came, find_sources, read_source
from anaume.data.records import listed
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest

QUESTION_FIELDS = ("question", "context", "premise", "text")
OPTION_FIELDS = ("options", "choices", "endings", "answers")
KEY_FIELDS = ("answerKey", "answer_key")
"""Hold the name of the right option: a letter, A the first, or a number, 1 the first."""
LABEL_FIELDS = ("label", *KEY_FIELDS, "answer")

_NUMBERED = re.compile(r"(ending|choice|option|answer|solution|alternative)_?(\d+)")


def read_choices(
    paths: str | Path | Sequence[str | Path],
    *,
    question: str | None = None,
    options: str | Sequence[str] | None = None,
    label: str | None = None,
    labelled: bool = True,
    format: LabelledFormat | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[ChoiceExample]:
    """Stream the examples of one or more files, in order, in bounded memory. Rows may differ in how many options.

    Known by name or content: SWAG (the question is sent1, an option sent2 and an ending), ARC's csv without a header
    (a question, its choices, the key), JCommonsenseQA (question, choice0, choice1, ...), and a list of options, of
    texts or {text: [...], label: [...]}. Options that are empty or null are no options.
    question, label: fields, where they are not the usual ones; options: the field of the list, or a field for each, in
        a list or parted by commas.
    label: the number of the right option, from 0, or a letter, A the first; in answerKey a number counts from 1; or
        the right option's very text.
    labelled: False for what is to be predicted: labels are not read, and blank questions pass.

    A labelled row without any options, or whose label names one that it does not have, is left out (the csv of ARC has
    both); an AnaumeWarning tells at the end how many and the first place. To be predicted, it is an error.

    Raises:
        SettingsError: at once, for a wrong option.
        DataError: at once, for a file that is not there; while reading, with file, row and field.
    """
    reading = Reading(format=format, encoding=encoding, errors=errors, quoting=quoting, header=_Layout(header))
    found = find_sources(paths, reading)
    for path, kind in found:
        if kind == "txt":
            raise SettingsError(
                f"{source_name(path)}: a txt holds no questions with options; csv, jsonl, ... do: name it with format= "
                "(--format jsonl)"
            )
    return _stream(found, reading, _Chosen(question, options, label, labelled))


@dataclass(frozen=True, slots=True)
class _Chosen:
    question: str | None
    options: str | Sequence[str] | None
    label: str | None
    labelled: bool


@dataclass(frozen=True, slots=True)
class _Fields:
    question: str
    options: str | Sequence[str]
    label: str | None
    begin: str | None = None
    """What stands before every option (SWAG's sent2)."""


def _stream(
    found: list[tuple[str | Path, LabelledFormat]], reading: Reading, chosen: _Chosen
) -> Iterator[ChoiceExample]:
    for path, kind in found:
        source = source_name(path)
        fields: _Fields | None = None
        unfit = _Unfit()
        for record in read_source(path, kind, reading):
            fields = fields or _fields(source, record.fields, chosen)
            example = _example(record, fields, unfit)
            if example is not None:
                yield example
        unfit.tell(source)


@dataclass(slots=True)
class _Unfit:
    """Counts the labelled rows that have no right option, and those whose label can be read in two ways."""

    bare: int = 0
    astray: int = 0
    first: str = ""
    twofold: int = 0
    """Not left out: labels that are the number of one option and the text of another."""
    first_twofold: str = ""

    def tell(self, source: str) -> None:
        if self.twofold:
            warnings.warn(
                f"{source}: {self.twofold} labels are the number of one option and the text of another, and were read "
                f"as numbers; the first: {self.first_twofold}; where texts are meant, give the option's number",
                AnaumeWarning,
                stacklevel=2,
            )
        if self.first:
            warnings.warn(
                f"{source}: {self.bare + self.astray} rows were left out: {self.bare} have no options, {self.astray} a "
                f"label that names none of theirs; the first: {self.first}",
                AnaumeWarning,
                stacklevel=2,
            )


def _fields(source: str, fields: dict[str, object], chosen: _Chosen) -> _Fields:
    """Settle the fields of one file by its first record."""
    options = chosen.options
    if isinstance(options, str) and options not in fields and "," in options:
        options = options.split(",")
    given = [options] if isinstance(options, str) else list(options or ())
    for name in (chosen.question, *given, chosen.label if chosen.labelled else None):
        if name is not None and name not in fields:
            raise DataError(f"{source}: no field {name!r}{nearest(name, fields)}; it has {listed(fields)}")
    options = options or _option_fields(fields)
    if not options:
        raise DataError(
            f"{source}: no options among its fields: {listed(fields)}; a list is expected "
            f"({listed(OPTION_FIELDS)}), or ending0, ending1, ...; choose with options= (--column options=A,B,C,D)"
        )
    begin = None
    question = chosen.question
    if question is None and "sent2" in fields and "sent1" in fields:
        question, begin = "sent1", "sent2"
    names = [name for name in QUESTION_FIELDS if name in fields]
    if question is None and names:
        question = names[0]
    if question is None:
        raise DataError(
            f"{source}: no question among its fields: {listed(fields)}; choose with question= (--column question=NAME)"
        )
    label = None
    if chosen.labelled:
        label = chosen.label or next((name for name in LABEL_FIELDS if name in fields and name != options), None)
        if label is None:
            raise DataError(
                f"{source}: no label column: none of its columns is called {listed(LABEL_FIELDS)}; choose one with "
                f"label= (--column label=NAME): {listed(fields)}"
            )
    return _Fields(question, options, label, begin)


def _option_fields(fields: dict[str, object]) -> str | list[str] | None:
    for name in OPTION_FIELDS:
        if isinstance(fields.get(name), list | Mapping):
            return name
    numbered: dict[str, list[tuple[int, str]]] = {}
    for name in fields:
        if match := _NUMBERED.fullmatch(name):
            numbered.setdefault(match[1], []).append((int(match[2]), name))
    if not numbered:
        return None
    most = max(numbered.values(), key=len)
    return [name for _, name in sorted(most)]


def _example(record: Record, fields: _Fields, unfit: _Unfit) -> ChoiceExample | None:
    """Return the example; None for a labelled row without a right option, which is counted."""
    question = record.text(fields.question)
    begin = "" if fields.begin is None else record.text(fields.begin)
    if fields.label is not None and not question.strip() and not begin.strip():
        raise record.error(f"field {fields.question!r} is blank; give it a text or leave the row out")
    options, keys = _options(record, fields.options)
    kept = [place for place, option in enumerate(options) if option.strip()]
    if not kept and fields.label is not None:
        unfit.bare += 1
        unfit.first = unfit.first or record.place
        return None
    if len(kept) < 2:
        raise record.error(f"{len(kept)} options, expected at least 2; give it more or leave the row out")
    label = None
    if fields.label is not None:
        place = _label(record, fields.label, options, keys)
        value = record.fields[fields.label]
        by_name = keys is not None or fields.label in KEY_FIELDS
        if isinstance(value, str) and not by_name and options.count(value) == 1 and options.index(value) != place:
            unfit.twofold += 1
            unfit.first_twofold = unfit.first_twofold or f"{record.place}, {fields.label} {value!r:.40}"
        if place not in kept:
            unfit.astray += 1
            unfit.first = unfit.first or (
                f"{record.place}, {fields.label} {record.fields[fields.label]!r:.40}, {len(kept)} options"
            )
            return None
        label = kept.index(place)
    told = tuple(f"{begin} {options[place]}".strip() if begin else options[place] for place in kept)
    return ChoiceExample(place=record.place, fields=record.fields, question=question, options=told, label=label)


def _options(record: Record, fields: str | Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return all options, "" for one that is missing, and their names where the row gives them."""
    keys: list[str] | None = None
    value: object
    if isinstance(fields, str):
        value = record.field(fields)
        if isinstance(value, Mapping):
            names, value = value.get("label"), value.get("text")
            keys = [str(name) for name in names] if isinstance(names, list) else None
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            keys = [str(one.get("label")) for one in value]
            value = [one.get("text") for one in value]
    else:
        value = [record.fields.get(name) for name in fields]
    if not isinstance(value, list) or not all(one is None or isinstance(one, str) for one in value):
        raise record.error(f"options: expected a list of texts, came {came(value)}")
    if keys is not None and len(keys) != len(value):
        raise record.error(f"options: {len(value)} texts and {len(keys)} names; one for each is expected")
    return [one or "" for one in value], keys


def _label(record: Record, name: str, options: list[str], keys: list[str] | None) -> int:
    """Return the place of the right option, which may be one that is not there."""
    value = record.field(name)
    if isinstance(value, bool) or not isinstance(value, int | str) or (isinstance(value, str) and not value.strip()):
        raise record.error(f"field {name!r}: expected the right option's number, letter or text, came {came(value)}")
    text = str(value).strip()
    if keys is not None and text in keys:
        return keys.index(text)
    if re.fullmatch(r"\d+", text, re.ASCII):
        return int(text) - (1 if name in KEY_FIELDS else 0)
    if re.fullmatch("[A-Za-z]", text) and text not in options:
        return ord(text.upper()) - ord("A")
    if options.count(str(value)) == 1:
        return options.index(str(value))
    raise record.error(
        f"field {name!r}: {text!r:.40} is neither a number, a letter nor one of the {len(options)} options"
    )


def _names_options(cells: list[str]) -> bool:
    """Whether a first row that could be ARC's is a header: it ends in the names of options, A, B, C, ... or 1, 2, 3."""
    count = int(cells[-1]) if cells[-1].isdigit() else ord(cells[-1]) - ord("A") + 1
    return count > 2 and cells[-count:] in (list("ABCDE"[:count]), list("12345"[:count]))


@dataclass(frozen=True)
class _Layout:
    """Tells the columns of ARC's csv, which has no header, from its first row."""

    header: bool

    def __call__(self, cells: list[str]) -> Sequence[str] | None:
        is_row = len(cells) >= 4 and re.fullmatch("[A-E1-5]", cells[-1]) and cells[0] and cells[1] and cells[2]
        if is_row and not _names_options(cells):
            return ("question", *(f"choice{place}" for place in range(len(cells) - 2)), KEY_FIELDS[0])
        return None if self.header else [str(place) for place in range(1, len(cells) + 1)]
