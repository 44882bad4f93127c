"""Arguments and options that several commands share, spelt once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from anaume.cli.opening import typed

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
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an output that exists.")]

READING = "Reading files"
FormatName = Literal["txt", "csv", "tsv", "jsonl", "parquet"]
Column = Annotated[
    str | None,
    typer.Option(
        "--column", rich_help_panel=READING, metavar="NAME", help="Column of the text, if it isn't called text."
    ),
]
Format = Annotated[
    FormatName | None,
    typer.Option(
        "--format",
        rich_help_panel=READING,
        metavar="KIND",
        help="txt, csv, tsv, jsonl or parquet, whatever names end in.",
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", rich_help_panel=READING, metavar="NAME", help="cp932, latin-1, utf-16, ...")
]
DecodeErrors = Annotated[
    Literal["strict", "replace"],
    typer.Option("--errors", rich_help_panel=READING, help="Bytes that don't decode: refuse, or replace (counted)."),
]
Quoting = Annotated[
    bool | None,
    typer.Option(
        "--quoting/--no-quoting",
        rich_help_panel=READING,
        help='Whether " encloses cells: csv yes, tsv no, unless said.',
    ),
]
Header = Annotated[
    bool,
    typer.Option(
        "--header/--no-header", rich_help_panel=READING, help="Whether the first line of a table names columns."
    ),
]

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
