"""Words with a tag each: CoNLL columns, lists of words and tags, or texts with entities as character spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import STDIN, DecodeErrors, source_name
from anaume.data.labelled.conll import conll_sentences, joined
from anaume.data.labelled.examples import TaggedExample
from anaume.data.labelled.lines import lines_of_text
from anaume.data.labelled.sources import TABLES, LabelledFormat, Reading, Record, came, is_one_odd, read_source
from anaume.data.labelled.spans import tag_words
from anaume.data.labelled.words import cut_words
from anaume.data.records import listed
from anaume.data.rows import TEXT_COLUMNS, present
from anaume.errors import DataError, SettingsError, nearest

WORD_FIELDS = ("words", "tokens")
TAG_FIELDS = ("tags", "ner_tags", "ner", "labels", "pos_tags")
SPAN_FIELDS = ("entities", "spans", "labels", "label")


def read_tagged(
    paths: str | Path | Sequence[str | Path],
    *,
    words: str | int | None = None,
    tags: str | int | None = None,
    text: str | None = None,
    spans: str | None = None,
    names: Sequence[str] | None = None,
    labelled: bool = True,
    format: LabelledFormat | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[TaggedExample]:
    """Stream the sentences of one or more files, in order, in bounded memory.

    words, tags: of CoNLL columns their numbers, from 1 or -1 for the last (unless said, the first and the last); of
        json, jsonl and parquet the fields of the lists.
    text, spans: the fields of a text and of its entities, character spans [start, end); `labelled.spans` names the
        forms. Such a text is cut into words by `cut_words`, at the bounds of entities too, and its tags are BIO.
    names: what the numbers of tags stand for, from 0.
    labelled: False for what is to be predicted: tags are not read; txt and csv hold texts, which are cut into words.
    format: "conll" for columns; unless said, .json, .jsonl and .parquet as they end; what has another ending is in
        columns, except txt, csv and tsv to be predicted.
    The rest as `read_rows` takes it.

    Raises:
        SettingsError: at once, for a wrong option.
        DataError: at once, for a file that is not there; while reading, with file, row and field.
    """
    reading = Reading(format=format, encoding=encoding, errors=errors, quoting=quoting, header=header)
    chosen = _Chosen(words, tags, text, spans, names, labelled)
    found = [(path, _format(path, reading, chosen)) for path in present(paths)]
    return _stream(found, reading, chosen)


@dataclass(frozen=True, slots=True)
class _Chosen:
    words: str | int | None
    tags: str | int | None
    text: str | None
    spans: str | None
    names: Sequence[str] | None
    labelled: bool

    def column(self, what: str, asked: str | int | None, default: int) -> int:
        """Return the number of a CoNLL column."""
        try:
            return default if asked is None else int(asked)
        except ValueError:
            raise SettingsError(
                f"{what}: columns have no names, came {asked!r}; give a number from 1, or -1 for the last"
            ) from None


def _format(path: str | Path, reading: Reading, chosen: _Chosen) -> LabelledFormat:
    if reading.format is None:
        ending = Path(str(path).lower().removesuffix(".gz")).suffix
        if ending not in (".json", ".jsonl", ".ndjson", ".parquet", ".txt", ".csv", ".tsv") and str(path) != STDIN:
            return "conll"
    kind = reading.format_of(path)
    if chosen.labelled and kind == "csv":
        raise DataError(
            f"{source_name(path)}: csv holds no tagged words; they are read from CoNLL columns (format='conll'), and "
            "from json, jsonl or parquet with words and tags, or a text and its entities"
        )
    return "conll" if chosen.labelled and kind in ("txt", "tsv") else kind


def _stream(
    found: list[tuple[str | Path, LabelledFormat]], reading: Reading, chosen: _Chosen
) -> Iterator[TaggedExample]:
    for path, kind in found:
        if kind == "conll":
            word, tag = chosen.column("words", chosen.words, 1), chosen.column("tags", chosen.tags, -1)
            with reading.open(path) as file:
                yield from conll_sentences(file, word, tag if chosen.labelled else None)
            continue
        fields: _Fields | None = None
        records = read_source(path, kind, reading)
        if kind == "txt" and reading.format is None:
            records = lines_of_text(source_name(path), records, tagged=True)
        for record in records:
            fields = fields or _fields(source_name(path), kind, record.fields, chosen)
            yield _example(record, fields, chosen)


@dataclass(frozen=True, slots=True)
class _Fields:
    words: str | None
    text: str | None
    labels: str | None
    """The list of tags, one a word, or of a text's entities."""


def _fields(source: str, kind: LabelledFormat, fields: dict[str, object], chosen: _Chosen) -> _Fields:
    """Settle the fields of one file by its first record."""
    asked = [("words", chosen.words), ("tags", chosen.tags), ("text", chosen.text), ("spans", chosen.spans)]
    for what, name in asked:
        if name is not None and name not in fields:
            raise DataError(f"{source}: {what}: no field {name!r}{nearest(str(name), fields)}; it has {listed(fields)}")
    words = None if chosen.words is None else str(chosen.words)
    if words is None and chosen.text is None and chosen.spans is None:
        words = next((name for name in WORD_FIELDS if isinstance(fields.get(name), list)), None)
    text = chosen.text if words is None else None
    if words is None and text is None:
        text = next((name for name in TEXT_COLUMNS if name in fields), None)
        if text is None and len(fields) == 1 and not is_one_odd(fields):
            text = next(iter(fields))
        if text is None:
            table = "; are they words with tags? format='conll' (--format conll) reads them" if kind in TABLES else ""
            raise DataError(
                f"{source}: neither words ({listed(WORD_FIELDS)}) nor a text ({listed(TEXT_COLUMNS)}) among its "
                f"fields: {listed(fields)}; choose with words= or text= (--column text=NAME){table}"
            )
    if not chosen.labelled:
        return _Fields(words, text, None)
    labels = (None if chosen.tags is None else str(chosen.tags)) if words is not None else chosen.spans
    usual = TAG_FIELDS if words is not None else SPAN_FIELDS
    labels = labels or next((name for name in usual if name in fields), None)
    if labels is None:
        option, what = ("tags", "tags") if words is not None else ("spans", "entities")
        raise DataError(
            f"{source}: no {what} ({listed(usual)}) among its fields: {listed(fields)}; choose with {option}= "
            f"(--column {option}=NAME)"
        )
    return _Fields(words, text, labels)


def _example(record: Record, fields: _Fields, chosen: _Chosen) -> TaggedExample:
    place, own = record.place, record.fields
    if fields.words is not None:
        words = _words(record, fields.words, empty=not chosen.labelled)
        tags = None if fields.labels is None else _tags(record, fields.labels, len(words), chosen.names)
        text, spans = joined(words)
        return TaggedExample(place=place, fields=own, text=text, spans=spans, tags=tags)
    assert fields.text is not None
    text = record.text(fields.text)
    if fields.labels is None:
        return TaggedExample(place=place, fields=own, text=text, spans=cut_words(text))
    if not text.strip():
        raise record.error(f"field {fields.text!r} is blank; give it a text or leave the row out")
    spans, tags = tag_words(record, text, fields.labels)
    return TaggedExample(place=place, fields=own, text=text, spans=spans, tags=tags)


def _words(record: Record, name: str, *, empty: bool) -> list[str]:
    value = record.field(name)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise record.error(f"field {name!r}: expected a list of words, came {came(value)}")
    if not value and not empty:
        raise record.error(f"field {name!r} has no words; give it some or leave the row out")
    if blank := next((place for place, word in enumerate(value) if not word.strip()), None):
        raise record.error(f"field {name!r}: word {blank} (from 0) is blank: {value[blank]!r}")
    return list(value)


def _tags(record: Record, name: str, count: int, names: Sequence[str] | None) -> tuple[str, ...]:
    value = record.field(name)
    if not isinstance(value, list):
        raise record.error(f"field {name!r}: expected a list of tags, one a word, came {came(value)}")
    if len(value) != count:
        raise record.error(f"field {name!r}: {len(value)} tags for {count} words; one a word is expected")
    if all(isinstance(tag, str) and tag.strip() for tag in value):
        return tuple(tag.strip() for tag in value)
    if not all(isinstance(tag, int) and not isinstance(tag, bool) for tag in value):
        raise record.error(f"field {name!r}: expected names of tags, came {came(value)}")
    if names is None:
        raise record.error(
            f"field {name!r} holds numbers ({', '.join(map(str, value[:3]))}, ...), not the names of tags; say what "
            "they stand for, in order from 0: names=[...] (--column names=O,B-PER,I-PER)"
        )
    if wrong := [tag for tag in value if not 0 <= tag < len(names)]:
        raise record.error(f"field {name!r}: tag {wrong[0]} has no name; {len(names)} are given, from 0")
    return tuple(names[tag] for tag in value)
