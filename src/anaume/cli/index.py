"""`anaume index`: passages of files into an index that remembers its model, and what becomes of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import say_json
from anaume.cli.running import command
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.jobs.index import IndexSummary

log = get_logger(__name__)

IndexArg = Annotated[
    str, typer.Argument(metavar="IDX", help="Index: a folder, or s3://bucket/path.", show_default=False)
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="NAME", help="Column of the ids, if it isn't called id.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    index = typer.Typer(no_args_is_help=True, help="Build an index of passages and keep it; `anaume search` finds.")
    app.add_typer(index, name="index")
    command(index, "build")(_build)


def _build(
    files: options.FilesArg,
    bundle: Annotated[
        str, typer.Option("--bundle", metavar="B", help="The bundle that makes the vectors.", show_default=False)
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", metavar="IDX", help="A folder, or s3://bucket/path.", show_default=False)
    ],
    id_column: IdColumn = None,
    passage_length: Annotated[
        int | None,
        typer.Option("--passage-length", metavar="N", help="Longest passage in tokens; 256, or the bundle's limit."),
    ] = None,
    overlap: Annotated[
        int | None, typer.Option("--overlap", metavar="N", help="Tokens shared with the passage before; a quarter.")
    ] = None,
    storage: Annotated[
        Literal["float32", "int8", "binary"], typer.Option("--storage", help="How vectors are kept.")
    ] = "float32",
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Keep float32 vectors beside codes, to score the best again.")
    ] = False,
    precision: Annotated[
        Literal["float32", "bfloat16"], typer.Option("--precision", help="bfloat16 is about twice as fast.")
    ] = "float32",
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Build an index from files.

    Every row is a document with an id, a text and any other fields. Long documents are cut into passages by sentences.
    Killed at any moment, the index holds what was committed, and the same line goes on from there.

    $ anaume index build passages.jsonl --bundle all-MiniLM-L6-v2 -o idx
    $ anaume index build articles.csv --id number --column body --bundle my-bundle -o idx
    """
    from anaume.jobs.index import build_index

    summary = build_index(
        open_bundle(bundle, device=device, precision=precision),
        files,
        out,
        id_column=id_column,
        storage=storage,
        rescore=rescore,
        passage_length=passage_length,
        overlap=overlap,
        overwrite=overwrite,
        progress=not verbose,
        **reading,
    )
    if as_json:
        say_json(dataclasses.asdict(summary))
    log.info("%s", _line(summary))


def _line(summary: IndexSummary) -> str:
    if summary.finished_before:
        return f"{summary.out} is there already, built from the same files with the same settings: nothing to do"
    there = f"{summary.there:,} were there already, " if summary.there else ""
    return (
        f"{summary.documents:,} documents -> {summary.out} in {summary.seconds:.1f} s; {there}"
        f"{summary.passages:,} passages of {summary.embedding_size} numbers now; fingerprint {summary.fingerprint[:12]}"
    )
