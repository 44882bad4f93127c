"""Rows out of files: text, csv, tsv, JSON lines and Parquet, streamed, each row knowing where it came from.

A text is the exact text of the file: "NA", "null", "007", "1e5" and "" stay those strings, blank ones are rows too, and
nothing is guessed to be a number or a date. What does not fit (a missing column, a row with too many cells, a null) is
an error that names file, row and field; no row is dropped. (Blank lines of JSON lines, and blank lines at the very end
of a table of several columns, hold no row.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import STDIN, DecodeErrors, TextFile, open_text, source_name
from anaume.data.records import FORMATS, Format, listed, parquet_records, text_records
from anaume.errors import DataError, SettingsError, nearest
from anaume.logs import get_logger

log = get_logger(__name__)

TEXT_COLUMNS = ("text", "sentence", "content", "passage")

_BY_SUFFIX: dict[str, Format] = {
    ".txt": "txt",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of input.

    number is the 1-based line of the file where the row starts (parquet: the 1-based row); source names the file.
    fields holds every column as it was read, the text's own (named `column`) included. pair is the second text, if a
    pair_column was asked for.
    """

    number: int
    text: str
    fields: dict[str, object]
    source: str
    column: str = "text"
    pair: str | None = None

    @property
    def place(self) -> str:
        """Where the row came from, as messages say it."""
        return f"{self.source}: row {self.number}"

    def record(self) -> dict[str, object]:
        """Return the fields to write: those read, with the text in front where a row made by hand left it out."""
        return self.fields if self.column in self.fields else {self.column: self.text, **self.fields}


def read_rows(
    paths: str | Path | Sequence[str | Path],
    *,
    column: str | None = None,
    pair_column: str | None = None,
    format: Format | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
) -> Iterator[Row]:
    """Stream the rows of one or more files, in order, in bounded memory; "-" is stdin.

    column: the text's column; without it the first of text, sentence, content, passage, else the only column there is.
    format: of every file; without it the name's ending decides (a `.gz` after it is fine), and stdin is txt.
    quoting: whether `"` encloses cells; unless said, it does in csv and not in tsv (GLUE's tsv files hold bare quotes).
    header: False for csv and tsv whose first line is a row; their columns are then called "1", "2", ...
    encoding, errors: as `open_text` takes them.

    Raises:
        SettingsError: at once, for an unknown format.
        DataError: at once, for a file that is not there or a name that tells no format; while reading, for a row
            that is wrong, naming file, row and field.
    """
    if format is not None and format not in FORMATS:
        raise SettingsError(f"unknown format {format!r}{nearest(format, FORMATS)}; known: {', '.join(FORMATS)}")
    found = [(path, format or format_of(path)) for path in present(paths)]
    # A generator of its own: the checks above then run when this is called, not at the first row.
    return _stream(found, column, pair_column, encoding, errors, quoting, header)


def present(paths: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return the paths as a list. Raises DataError for one that is no file, SettingsError for stdin named twice."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if sum(str(path) == STDIN for path in given) > 1:
        raise SettingsError("stdin ('-') is named twice; it can be read only once")
    for path in given:
        if str(path) != STDIN and not Path(path).is_file() and not Path(path).is_fifo():
            raise DataError(f"{path}: {'is a folder: name its files' if Path(path).is_dir() else 'no such file'}")
    return given


def format_of(path: str | Path) -> Format:
    """Return the format that a name's ending tells; stdin is txt. Raises DataError for an ending that tells none."""
    if str(path) == STDIN:
        return "txt"
    suffix = Path(str(path).lower().removesuffix(".gz")).suffix
    if suffix not in _BY_SUFFIX:
        raise DataError(
            f"{path}: the ending {suffix or '(none)'!r} tells no format; name it with format= ({', '.join(FORMATS)})"
        )
    return _BY_SUFFIX[suffix]


def _stream(
    found: list[tuple[str | Path, Format]],
    column: str | None,
    pair_column: str | None,
    encoding: str,
    errors: DecodeErrors,
    quoting: bool | None,
    header: bool,
) -> Iterator[Row]:
    for path, kind in found:
        count = 0
        if kind == "parquet":
            chooser = _Chooser(source_name(path), column, pair_column)
            for number, fields in parquet_records(path, chooser.source):
                count += 1
                yield chooser.row(number, fields)
        else:
            with open_text(path, encoding=encoding, errors=errors) as file:
                for row in rows_of(file, kind, column, pair_column, quoting, header):
                    count += 1
                    yield row
        log.debug("%s: %d rows read as %s", source_name(path), count, kind)


def rows_of(
    file: TextFile, kind: Format, column: str | None, pair_column: str | None, quoting: bool | None, header: bool
) -> Iterator[Row]:
    """Stream the rows of an open text (every format but parquet), as `read_rows` does of a file."""
    chooser = _Chooser(file.name, column, pair_column)
    for number, record in text_records(file, kind, quoting, header):
        yield chooser.row(number, record)


class _Chooser:
    """Makes rows out of records, choosing the text's column once a file, from the first record."""

    def __init__(self, source: str, column: str | None, pair_column: str | None) -> None:
        self.source = source
        self.column = column
        self.pair_column = pair_column

    def row(self, number: int, record: dict[str, object] | str) -> Row:
        if isinstance(record, str):
            if self.pair_column is not None:
                raise DataError(f"{self.source}: row {number}: a bare text, so no field {self.pair_column!r}")
            column = self.column or "text"
            return Row(number=number, text=record, fields={column: record}, source=self.source, column=column)
        if self.column is None:
            self.column = self._default(record)
        text = self._text(number, record, self.column)
        pair = None if self.pair_column is None else self._text(number, record, self.pair_column)
        return Row(number=number, text=text, fields=record, source=self.source, column=self.column, pair=pair)

    def _default(self, record: dict[str, object]) -> str:
        names = [name for name in record if name != self.pair_column]
        if known := [name for name in TEXT_COLUMNS if name in names]:
            if len(known) > 1:
                log.info("%s: texts are read from its column %r, not from %s", self.source, known[0], listed(known[1:]))
            return known[0]
        if len(names) == 1 and not {"\t", ";"} & set(names[0]):
            log.info("%s: texts are read from its only column, %r", self.source, names[0])
            return names[0]
        hint = " (one column with separators in its name: is it another format?)" if len(names) == 1 else ""
        raise DataError(
            f"{self.source}: none of its columns is called {', '.join(TEXT_COLUMNS[:-1])} or {TEXT_COLUMNS[-1]}{hint}; "
            f"choose one with column= (--column): {listed(record)}"
        )

    def _text(self, number: int, record: dict[str, object], name: str) -> str:
        value = record.get(name)
        if isinstance(value, str):
            return value
        place = f"{self.source}: row {number}"
        if name not in record:
            raise DataError(f"{place}: no field {name!r}{nearest(name, record)}; it has {listed(record)}")
        came = "null" if value is None else f"{type(value).__name__} {value!r:.40}"
        raise DataError(f"{place}: field {name!r}: expected a text, came {came}; mend the row or leave it out")
