"""Texts and pairs of texts with a class, a number, or several labels; columns by name, or as known data sets have them.

Known by their header: GLUE (CoLA's test, SST-2, MRPC, RTE, WNLI, QNLI, MNLI, QQP, STS-B), SNLI, JGLUE's pairs, SICK.
Known by their first row, since they have no header: CoLA's train and dev (source, label, star, sentence), STS 2012-2016
(score and two texts).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import STDIN, DecodeErrors, source_name
from anaume.data.labelled.examples import TextExample
from anaume.data.labelled.labels import LabelKind, class_label, flags_label, names_label, number_label
from anaume.data.labelled.lines import lines_of_text
from anaume.data.labelled.sources import LabelledFormat, Reading, Record, find_sources, is_one_odd, read_source
from anaume.data.records import listed
from anaume.data.rows import TEXT_COLUMNS
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest
from anaume.logs import get_logger

log = get_logger(__name__)

PAIR_COLUMNS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
    ("sentence_A", "sentence_B"),
    ("text", "pair"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("s1", "s2"),
)
LABEL_COLUMNS: dict[LabelKind, tuple[str, ...]] = {
    "class": ("label", "gold_label", "is_duplicate", "Quality", "entailment_judgment", "class", "category"),
    "number": ("score", "relatedness_score", "similarity", "label"),
    "names": ("labels", "label"),
}
_NO_GOLD = "-"  # SNLI and MNLI, where annotators did not agree


def read_texts(
    paths: str | Path | Sequence[str | Path],
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | Sequence[str] | None = None,
    paired: bool | None = None,
    kind: LabelKind = "class",
    labelled: bool = True,
    keep_blank: bool | None = None,
    separator: str = "|",
    names: Sequence[str] | None = None,
    format: LabelledFormat | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[TextExample]:
    """Stream the examples of one or more files, in order, in bounded memory.

    text, pair, label: columns, where they are not the usual ones. Of a file with two columns, label apart, the other
        is the text.
    paired: True refuses files without a second text, False takes none; None: as the columns are.
    kind: "class" (a name), "number" (float, finite) or "names" (all labels of a row).
    labelled: False for files to be predicted: labels are not read, and a txt has a text a line.
    keep_blank: whether blank texts pass; unless said, they do where nothing is learned from them.
    separator, names: with "names", what parts "a|c"; and what the flags of [1, 0, 1] stand for. `label` may be several
        columns of flags, in a list or parted by commas, whose names the labels then are.
    The rest as `read_rows` takes it; `.json` is read too (an array of objects, or one a line), and a labelled .txt as
    tsv (SICK).

    Raises:
        SettingsError: at once, for a wrong option.
        DataError: at once, for a file that is not there; while reading, with file, row and field.
    """
    if kind not in LABEL_COLUMNS:
        raise SettingsError(f"unknown kind of label {kind!r}{nearest(kind, LABEL_COLUMNS)}: {', '.join(LABEL_COLUMNS)}")
    if not separator:
        raise SettingsError("the separator of labels must not be empty")
    if label is not None and not isinstance(label, str) and kind != "names":
        raise SettingsError(f"one label column is needed, came {listed(label)}; several are the task multi-label")
    if paired is False and pair is not None:
        raise SettingsError(f"one text a row is asked for, so no pair column {pair!r}")
    reading = Reading(format=format, encoding=encoding, errors=errors, quoting=quoting, header=KnownLayout(header))
    chosen = _Chosen(text, pair, label, paired, kind, labelled, labelled if keep_blank is None else not keep_blank)
    found = find_sources(paths, reading)
    # A generator of its own: the checks above then run when this is called, not at the first row.
    return _stream(found, reading, chosen, separator, names)


@dataclass(frozen=True, slots=True)
class _Chosen:
    text: str | None
    pair: str | None
    label: str | Sequence[str] | None
    paired: bool | None
    kind: LabelKind
    labelled: bool
    refuse_blank: bool


@dataclass(frozen=True, slots=True)
class _Columns:
    text: str
    pair: str | None
    label: str | Sequence[str] | None


def _stream(
    found: list[tuple[str | Path, LabelledFormat]],
    reading: Reading,
    chosen: _Chosen,
    separator: str,
    names: Sequence[str] | None,
) -> Iterator[TextExample]:
    for path, kind in found:
        if kind == "txt" and chosen.labelled and str(path) != STDIN and reading.format is None:
            kind = "tsv"
        columns: _Columns | None = None
        undecided = 0
        records = read_source(path, kind, reading)
        if kind == "txt" and reading.format is None:
            records = lines_of_text(source_name(path), records, tagged=False)
        for record in records:
            if columns is None:
                columns = _choose(source_name(path), record.fields, chosen)
            if columns.label == "gold_label" and record.fields.get("gold_label") == _NO_GOLD:
                undecided += 1
                continue
            first = _text(record, columns.text, refuse_blank=chosen.refuse_blank)
            second = None if columns.pair is None else _text(record, columns.pair, refuse_blank=chosen.refuse_blank)
            label = None if columns.label is None else _label(record, columns.label, chosen.kind, separator, names)
            yield TextExample(place=record.place, fields=record.fields, text=first, pair=second, label=label)
        if columns is None and chosen.labelled:
            hint = ", whose first line names the columns" if kind in ("csv", "tsv") else ""
            raise DataError(f"{source_name(path)}: no rows in it (read as {kind}{hint})")
        if undecided:
            warnings.warn(
                f"{source_name(path)}: {undecided} rows were left out: their gold_label is '-', so the annotators did "
                "not agree",
                AnaumeWarning,
                stacklevel=2,
            )


def _text(record: Record, name: str, *, refuse_blank: bool) -> str:
    value = record.text(name)
    if refuse_blank and not value.strip():
        raise record.error(f"field {name!r} is blank; give it a text or leave the row out")
    return value


def _label(
    record: Record, column: str | Sequence[str], kind: LabelKind, separator: str, names: Sequence[str] | None
) -> str | float | tuple[str, ...]:
    if not isinstance(column, str):
        return flags_label(record, column)
    if kind == "number":
        return number_label(record, column)
    return class_label(record, column) if kind == "class" else names_label(record, column, separator, names)


def _choose(source: str, fields: dict[str, object], chosen: _Chosen) -> _Columns:
    """Settle the columns of one file by its first record."""
    label = _label_column(source, fields, chosen) if chosen.labelled else None
    taken = {label} if label is None or isinstance(label, str) else set(label)
    text, pair = chosen.text, chosen.pair
    # A text that was named stands alone, unless a pair is asked for.
    if chosen.paired or (chosen.paired is None and text is None) or pair is not None:
        known = [two for two in PAIR_COLUMNS if two[0] in fields and two[1] in fields and not taken & set(two)]
        known = [two for two in known if text in (None, two[0]) and pair in (None, two[1])]
        if known:
            text, pair = known[0]
        elif chosen.paired and pair is None:
            raise DataError(
                f"{source}: no column of a second text is known among its own: {listed(fields)}; name two: "
                "text= and pair= (--column text=NAME --column pair=NAME)"
            )
    if text is None:
        text = _text_column(source, fields, {*taken, pair})
    for name in (text, pair):
        if name is not None and name not in fields:
            raise DataError(f"{source}: no column {name!r}{nearest(name, fields)}; it has {listed(fields)}")
    log.debug("%s: text %r, pair %r, label %r", source, text, pair, label)
    return _Columns(text, pair, label)


def _label_column(source: str, fields: dict[str, object], chosen: _Chosen) -> str | Sequence[str]:
    asked = chosen.label
    if isinstance(asked, str) and asked not in fields and chosen.kind == "names" and "," in asked:
        asked = asked.split(",")
    if asked is not None:
        for name in [asked] if isinstance(asked, str) else asked:
            if name not in fields:
                raise DataError(f"{source}: no label column {name!r}{nearest(name, fields)}; it has {listed(fields)}")
        return asked
    usual = LABEL_COLUMNS[chosen.kind]
    for name in usual:
        if name in fields:
            return name
    hint = " (one column with separators in its name: is it another format?)" if is_one_odd(fields) else ""
    raise DataError(
        f"{source}: no label column: none of its columns is called {', '.join(usual[:-1])} or {usual[-1]}{hint}; "
        f"choose one with label= (--column label=NAME): {listed(fields)}"
    )


def _text_column(source: str, fields: dict[str, object], taken: set[str | None]) -> str:
    names = [name for name in fields if name not in taken]
    for name in TEXT_COLUMNS:
        if name in names:
            return name
    if len(names) == 1 and not is_one_odd(fields):
        log.info("%s: texts are read from its column %r", source, names[0])
        return names[0]
    raise DataError(
        f"{source}: none of its columns is called {', '.join(TEXT_COLUMNS[:-1])} or {TEXT_COLUMNS[-1]}; choose one "
        f"with text= (--column text=NAME): {listed(names)}"
    )


@dataclass(frozen=True)
class KnownLayout:
    """Tells the columns of tables that are known to have no header, from their first row."""

    header: bool

    def __call__(self, cells: list[str]) -> Sequence[str] | None:
        """Return the names of the columns, where the first row tells them; None = it names them itself."""
        if len(cells) == 4 and cells[1] in ("0", "1") and cells[2] in ("", "*") and cells[3]:
            return ("source", "label", "star", "sentence")  # CoLA
        if len(cells) == 3 and _is_score(cells[0]) and not _is_score(cells[1]):
            return ("score", "sentence1", "sentence2")  # STS 2012-2016
        return None if self.header else [str(place) for place in range(1, len(cells) + 1)]


def _is_score(cell: str) -> bool:
    try:
        return 0.0 <= float(cell) <= 5.0
    except ValueError:
        return False
