"""Arguments and options that several commands share, spelt once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from anaume.cli.opening import typed
from anaume.errors import SettingsError, nearest

BundleArg = Annotated[
    str,
    typer.Argument(metavar="B", help="Bundle: a directory or a name (all-MiniLM-L6-v2).", show_default=False),
]
TokenizerArg = Annotated[
    str,
    typer.Argument(
        metavar="B",
        help="Bundle or tokenizer: a directory, a name, a tokenizer.json or a vocab.txt.",
        show_default=False,
    ),
]
FilesArg = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="txt, csv, tsv, jsonl or parquet; - is stdin.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Pair = Annotated[str | None, typer.Option("--pair", metavar="TEXT", parser=typed, help="A second text, after [SEP].")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .svg or .pdf.")]
EngineOption = Annotated[
    Literal["auto", "torch", "openvino"],
    typer.Option("--engine", metavar="NAME", help="auto, torch or openvino (CPUs; pip install 'anaume\\[fast]')."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]

FormatName = Literal["txt", "csv", "tsv", "jsonl", "parquet"]


class Reading(dict[str, Any]):
    """How files are read, as keyword arguments of `read_rows` and its kin.

    A command that takes a parameter of this type has all options of `READING` on its line.
    """


def _reading(*names: str, help: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, rich_help_panel="Reading files", metavar=metavar, help=help)


_COLUMN = _reading("--column", metavar="NAME", help="Column of the text, if it isn't called text.")
_FORMAT = _reading("--format", metavar="KIND", help="txt, csv, tsv, jsonl or parquet, whatever names end in.")
_ENCODING = _reading("--encoding", metavar="NAME", help="cp932, latin-1, utf-16, ...")
_ERRORS = _reading("--errors", help="Bytes that don't decode: refuse, or replace (counted).")
_QUOTING = _reading("--quoting/--no-quoting", help='Whether " encloses cells: csv yes, tsv no, unless said.')
_HEADER = _reading("--header/--no-header", help="Whether the first line of a table names columns.")

READING: tuple[tuple[str, Any, Any], ...] = (
    ("column", Annotated[str | None, _COLUMN], None),
    ("format", Annotated[FormatName | None, _FORMAT], None),
    ("encoding", Annotated[str, _ENCODING], "utf-8"),
    ("errors", Annotated[Literal["strict", "replace"], _ERRORS], "strict"),
    ("quoting", Annotated[bool | None, _QUOTING], None),
    ("header", Annotated[bool, _HEADER], True),
)
"""(name, type with its option, default)."""
NO_READING = Reading()
"""Stands in a signature until the command line fills it in."""


class LabelledReading(dict[str, Any]):
    """How labelled files are read, as keyword arguments of the readers of `anaume.data.labelled`.

    A command that takes a parameter of this type has all options of `LABELLED_READING` on its line.
    """


class AnyReading(dict[str, Any]):
    """The same options, for a command that reads labelled files or training text: `column` is a list still."""


def one_column(reading: AnyReading) -> Reading:
    """Return how training text is read: `column` is a name. Raises SettingsError for several."""
    columns: list[str] = reading["column"] or []
    if len(columns) > 1 or any("=" in name for name in columns):
        raise SettingsError("training text has one column, --column NAME; ROLE=NAME goes with --task")
    return Reading(reading | {"column": columns[0] if columns else None})


def columns_of(assignments: list[str] | None) -> dict[str, Any]:
    """Return what a column is for -> its name, out of "text=body". Raises SettingsError for what is none."""
    found: dict[str, Any] = {}
    if not assignments:
        return found
    from anaume.data.labelled.readers import ROLES

    for assignment in assignments:
        role, equals, name = assignment.partition("=")
        if not equals or not role or not name:
            raise SettingsError(f"a column is given as ROLE=NAME, say text=body or label=stars; got {assignment!r}")
        if role not in ROLES:
            raise SettingsError(f"no task has a column {role!r}{nearest(role, ROLES)}; there are: {', '.join(ROLES)}")
        if role in found:
            raise SettingsError(f"--column {role}= is given twice, as {found[role]!r} and {name!r}; give it once")
        found[role] = [one.strip() for one in name.split(",")] if role == "names" else name
    return found


_COLUMNS = _reading(
    "--column",
    metavar="ROLE=NAME",
    help="Which column is what: text=body, pair=..., label=stars, tags=..., query=... Known layouts need none.",
)
LABELLED_FORMATS = ("csv", "tsv", "jsonl", "json", "parquet", "conll", "txt")
_LABELLED_FORMAT = _reading("--format", metavar="KIND", help=f"{', '.join(LABELLED_FORMATS)}, whatever names end in.")

LABELLED_READING: tuple[tuple[str, Any, Any], ...] = (
    ("column", Annotated[list[str] | None, _COLUMNS], None),
    ("format", Annotated[str | None, _LABELLED_FORMAT], None),
    *READING[2:],
)
NO_LABELLED_READING = LabelledReading()
NO_ANY_READING = AnyReading()

WordsName = Literal["bert", "mecab"]
SubwordsName = Literal["wordpiece", "character"]
Words = Annotated[
    WordsName, typer.Option("--words", metavar="HOW", help="Where words end: bert (at blanks) or mecab (Japanese).")
]
Subwords = Annotated[
    SubwordsName, typer.Option("--subwords", metavar="HOW", help="What words are cut into: wordpiece or character.")
]

# A vocab.txt holds no rules: these say them.
WordsOrNone = Annotated[
    WordsName | None, typer.Option("--words", help="For a vocab.txt: where words end, bert or mecab.")
]
SubwordsOrNone = Annotated[
    SubwordsName | None, typer.Option("--subwords", help="For a vocab.txt: wordpiece or character.")
]
LowerCaseOrNone = Annotated[
    bool | None, typer.Option("--uncased/--cased", help="For a vocab.txt: whether case is dropped.", show_default=False)
]
