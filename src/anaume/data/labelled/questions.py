"""Questions about a context: SQuAD 1.1 and 2.0 as they are published, JSQuAD, and flat rows.

Offsets count characters (code points) of the context as the file has it; nothing in it is trimmed or translated. A
context of JSQuAD reads `title [SEP] paragraph`: it stays so, and its offsets with it, because "[SEP]" in a text is
ordinary text to our tokenizer, never its special token.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import DecodeErrors, source_name
from anaume.data.labelled.examples import Answer, QuestionExample
from anaume.data.labelled.sources import LabelledFormat, Reading, Record, came, find_sources, read_source
from anaume.data.records import JSON, listed
from anaume.errors import AnaumeWarning, SettingsError, nearest

_START = "answer_start"


def read_questions(
    paths: str | Path | Sequence[str | Path],
    *,
    question: str = "question",
    context: str = "context",
    answers: str = "answers",
    labelled: bool = True,
    format: LabelledFormat | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[QuestionExample]:
    """Stream the questions of one or more files, in order; of SQuAD's form one article is in memory at a time.

    Rows are SQuAD's articles (paragraphs, qas), in {"data": [...]} or an array, or flat: the fields `question`,
    `context` and `answers`, a list of {text, answer_start} or {text: [...], answer_start: [...]}, in tables as JSON; or
    one answer a row, its text in `answers` or `answer`, its place in answer_start. An id that is missing is the number
    of the question. No answers, or is_impossible, means that the context holds none (SQuAD 2.0).
    labelled: False for what is to be predicted: answers are not read, and blank texts pass.

    An answer whose text does not stand at its answer_start is left out, and a question with no right one left too; an
    AnaumeWarning tells at the end how many and the first place.

    Raises:
        SettingsError: at once, for a wrong option.
        DataError: at once, for a file that is not there; while reading, with file, row and field.
    """
    reading = Reading(format=format, encoding=encoding, errors=errors, quoting=quoting, header=header)
    found = find_sources(paths, reading)
    for path, kind in found:
        if kind == "txt":
            raise SettingsError(
                f"{source_name(path)}: a txt holds no questions with contexts; json, jsonl, csv, ... do: name it with "
                "format= (--format jsonl)"
            )
    return _stream(found, reading, _Names(question, context, answers), labelled)


@dataclass(frozen=True, slots=True)
class _Names:
    question: str
    context: str
    answers: str


@dataclass(slots=True)
class _Misplaced:
    """Counts the answers that do not stand where they should."""

    answers: int = 0
    questions: int = 0
    first: str = ""

    def tell(self, source: str) -> None:
        if self.answers:
            warnings.warn(
                f"{source}: {self.answers} answers do not stand at their answer_start and were left out, and with them "
                f"{self.questions} questions that have no other; the first: {self.first}",
                AnaumeWarning,
                stacklevel=2,
            )


def _stream(
    found: list[tuple[str | Path, LabelledFormat]], reading: Reading, names: _Names, labelled: bool
) -> Iterator[QuestionExample]:
    for path, kind in found:
        source = source_name(path)
        misplaced = _Misplaced()
        count = 0
        for row in read_source(path, kind, reading):
            for record, about in _flat(source, row, names, count):
                count += 1
                if labelled:
                    _refuse_blank(record, names, about)
                answers = _answers(record, about, names.answers, misplaced) if labelled else None
                if labelled and answers is None:
                    continue
                yield QuestionExample(
                    place=record.place,
                    fields=record.fields,
                    id=about.id,
                    question=about.question,
                    context=about.context,
                    answers=answers,
                    title=about.title,
                )
        misplaced.tell(source)


@dataclass(frozen=True, slots=True)
class _About:
    id: str
    question: str
    context: str
    title: str


def _flat(source: str, row: Record, names: _Names, before: int) -> Iterator[tuple[Record, _About]]:
    """Yield the questions of a row: of an article all of them, else one."""
    if "paragraphs" not in row.fields:
        yield row, _about(row, names, _text(row, "context", names.context), row.fields.get("title"), before + 1)
        return
    title = row.fields.get("title")
    for place, paragraph in enumerate(_objects(row, "paragraphs")):
        held = Record(f"{row.place}, paragraph {place + 1}", paragraph)
        context = held.text("context")
        for fields in _objects(held, "qas"):
            before += 1
            named = fields if title is None else {**fields, "title": title}
            record = Record(f"{source}: question {before}", named)
            yield record, _about(record, names, context, title, before)


def _about(record: Record, names: _Names, context: str, title: object, number: int) -> _About:
    question = _text(record, "question", names.question)
    own = record.fields.get("id")
    if own is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
        raise record.error(f"field 'id': expected a text or a whole number, came {came(own)}")
    return _About(str(number if own is None else own), question, context, title if isinstance(title, str) else "")


def _text(record: Record, role: str, name: str) -> str:
    _require(record, role, name)
    return record.text(name)


def _require(record: Record, role: str, name: str) -> None:
    """Raise DataError where a field is not there at all, and say how another is named."""
    if name not in record.fields:
        raise record.error(
            f"no field {name!r}{nearest(name, record.fields)}; it has {listed(record.fields)}; choose with {role}= "
            f"(--column {role}=NAME)"
        )


def _refuse_blank(record: Record, names: _Names, about: _About) -> None:
    for name, value in ((names.question, about.question), (names.context, about.context)):
        if not value.strip():
            raise record.error(f"field {name!r} is blank; give it a text or leave the question out")


def _objects(record: Record, name: str) -> list[dict[str, object]]:
    value = record.field(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise record.error(f"field {name!r}: expected a list of objects, came {came(value)}")
    return value


def _answers(record: Record, about: _About, name: str, misplaced: _Misplaced) -> tuple[Answer, ...] | None:
    """Return the right answers, () if there are none to be found; None if all that are given are misplaced."""
    if str(record.fields.get("is_impossible")).lower() == "true":  # a cell of a table, too
        return ()
    given = list(_given(record, name))
    right = tuple(one for one in given if one.start >= 0 and about.context.startswith(one.text, one.start))
    if len(right) < len(given):
        wrong = next(one for one in given if one not in right)
        there = about.context[max(wrong.start, 0) : max(wrong.start, 0) + len(wrong.text)]
        misplaced.first = misplaced.first or (
            f"{record.place} (id {about.id}): {wrong.text!r:.60} should stand at {wrong.start}, where there is "
            f"{there!r:.60}"
        )
        misplaced.answers += len(given) - len(right)
        misplaced.questions += not right
    return right if right or not given else None


def _given(record: Record, name: str) -> Iterator[Answer]:
    flat = name not in record.fields and _START in record.fields and "answer" in record.fields
    if not flat:
        _require(record, "answers", name)
    value = record.field("answer" if flat else name)
    if isinstance(value, str):
        value = _of_a_cell(record, name, value)
    if isinstance(value, Mapping):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise record.error(
                f"field {name!r}: expected lists text and answer_start of one length, came {came(dict(value))}"
            )
        pairs = list(zip(texts, starts, strict=True))
    elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        pairs = [(one.get("text"), one.get("answer_start")) for one in value]
    else:
        raise record.error(f"field {name!r}: expected a list of objects with text and answer_start, came {came(value)}")
    for text, start in pairs:
        if not isinstance(text, str) or not text:
            raise record.error(f"field {name!r}: an answer's text must be a text, not empty; came {came(text)}")
        if isinstance(start, bool) or not isinstance(start, int):
            raise record.error(
                f"field {name!r}: answer_start of {text!r:.40} must be a whole number, came {came(start)}"
            )
        yield Answer(text, start)


def _of_a_cell(record: Record, name: str, cell: str) -> object:
    """Return what a cell of a table says: with a start beside it the text of the answer ("" = none), else JSON."""
    start = record.fields.get(_START)
    if start is not None:
        if not cell.strip():
            return []
        if isinstance(start, str) and start.strip().isascii() and start.strip().isdigit():
            start = int(start)
        return [{"text": cell, _START: start}]
    try:
        return JSON.decode(cell.strip())
    except (ValueError, RecursionError) as error:
        raise record.error(
            f"field {name!r}: expected a list of objects with text and {_START} (in tables as JSON, [] for no answer), "
            f"or a text, its place in a field {_START!r}; came {cell[:60]!r}"
        ) from error
