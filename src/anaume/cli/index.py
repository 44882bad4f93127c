"""`anaume index`: passages of files into an index that remembers its model, and what becomes of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, megabytes, percent, say, say_json
from anaume.cli.running import command
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.jobs.index import IndexSummary
    from anaume.search import Index, IndexStats
    from anaume.search.quality import CodesRecall

log = get_logger(__name__)

IndexArg = Annotated[
    str, typer.Argument(metavar="IDX", help="Index: a folder, or s3://bucket/path.", show_default=False)
]
IndexBundle = Annotated[
    str | None,
    typer.Option(
        "--bundle", metavar="B", help="Where its bundle lies now; another one is refused.", show_default=False
    ),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="NAME", help="Column of the ids, if it isn't called id.")]
Vectors = Annotated[
    bool, typer.Option("--vectors", help="The files are what anaume embed wrote: take their vectors as they are.")
]
Precision = Annotated[
    Literal["float32", "bfloat16", "int8"],
    typer.Option("--precision", help="bfloat16: about twice as fast. int8: of exports made with --int8."),
]
PassageLength = Annotated[
    int | None,
    typer.Option("--passage-length", metavar="N", help="Longest passage in tokens; 256, or the bundle's limit."),
]
Overlap = Annotated[
    int | None, typer.Option("--overlap", metavar="N", help="Tokens shared with the passage before; a quarter.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    index = typer.Typer(no_args_is_help=True, help="Build an index of passages and keep it; `anaume search` finds.")
    app.add_typer(index, name="index")
    for name, function in (
        ("build", _build),
        ("add", _add),
        ("update", _update),
        ("delete", _delete),
        ("migrate", _migrate),
        ("compact", _compact),
        ("stats", _stats),
    ):
        command(index, name)(function)


def _build(
    files: options.FilesArg,
    bundle: Annotated[
        str, typer.Option("--bundle", metavar="B", help="The bundle that makes the vectors.", show_default=False)
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", metavar="IDX", help="A folder, or s3://bucket/path.", show_default=False)
    ],
    id_column: IdColumn = None,
    vectors: Vectors = False,
    passage_length: PassageLength = None,
    overlap: Overlap = None,
    storage: Annotated[
        Literal["float32", "int8", "binary"],
        typer.Option("--storage", help="How vectors are kept: int8 is a quarter, binary a 32nd of the size."),
    ] = "float32",
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Keep float32 vectors beside codes, to score the best again.")
    ] = False,
    precision: Precision = "float32",
    engine: options.EngineOption = "auto",
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
        open_bundle(bundle, device=device, precision=precision, engine=engine),
        files,
        out,
        id_column=id_column,
        vectors=vectors,
        storage=storage,
        rescore=rescore,
        passage_length=passage_length,
        overlap=overlap,
        overwrite=overwrite,
        progress=not verbose,
        **reading,
    )
    _tell(summary, as_json)


def _add(
    index: IndexArg,
    files: options.FilesArg,
    bundle: IndexBundle = None,
    id_column: IdColumn = None,
    vectors: Vectors = False,
    reading: options.Reading = options.NO_READING,
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Add documents of files to an index.

    Those that are there already, unchanged, are passed over; an id that is there with other content is refused.

    $ anaume index add idx more.jsonl
    """
    from anaume.jobs.index import add_to_index

    opened = open_idx(index, bundle, device)
    _tell(add_to_index(opened, files, id_column=id_column, vectors=vectors, progress=not verbose, **reading), as_json)


def _update(
    index: IndexArg,
    files: options.FilesArg,
    bundle: IndexBundle = None,
    id_column: IdColumn = None,
    vectors: Vectors = False,
    reading: options.Reading = options.NO_READING,
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Replace documents by those of files, by id; new ids are added.

    $ anaume index update idx changed.jsonl
    """
    from anaume.jobs.index import add_to_index

    opened = open_idx(index, bundle, device)
    summary = add_to_index(
        opened, files, id_column=id_column, vectors=vectors, replacing=True, progress=not verbose, **reading
    )
    _tell(summary, as_json)


def _delete(
    index: IndexArg,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Documents; - reads ids from stdin, one a line.")],
    bundle: IndexBundle = None,
    as_json: options.Json = False,
    device: str = "auto",
) -> None:
    """Delete documents by id: all of them, or, when one is not there, none.

    $ anaume index delete idx doc-17 doc-18
    """
    from anaume.cli.opening import stdin_lines, typed

    given = [line for line in stdin_lines() if line] if ids == ["-"] else [typed(one) for one in ids]
    count = open_idx(index, bundle, device).delete(given)
    if as_json:
        say_json({"deleted": count})
    log.info("%s documents deleted from %s", f"{count:,}", index)


def _migrate(
    index: IndexArg,
    bundle: Annotated[str, typer.Option("--bundle", metavar="NEW", help="The new bundle.", show_default=False)],
    passage_length: PassageLength = None,
    overlap: Overlap = None,
    precision: Precision = "float32",
    engine: options.EngineOption = "auto",
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Embed an index again by another bundle, and then search that.

    Until the end the old index is what is found. Broken off, the same line goes on.

    $ anaume index migrate idx --bundle my-better-bundle
    """
    from anaume.jobs.index import migrate

    summary = migrate(
        index,
        open_bundle(bundle, device=device, precision=precision, engine=engine),
        passage_length=passage_length,
        overlap=overlap,
        progress=not verbose,
    )
    _tell(summary, as_json)
    if not summary.finished_before:
        log.info("the old vectors stay on the disk until: anaume index compact %s", index)


def _compact(index: IndexArg, bundle: IndexBundle = None, as_json: options.Json = False, device: str = "auto") -> None:
    """Forget what was deleted and replaced, and put together what is scattered.

    $ anaume index compact idx
    """
    _show_stats(open_idx(index, bundle, device).compact(), as_json)


def _stats(index: IndexArg, bundle: IndexBundle = None, as_json: options.Json = False, device: str = "auto") -> None:
    """Show what an index holds, and which model made it.

    $ anaume index stats idx
    """
    from anaume.search import read_stats

    # Without a bundle none is opened: what an index remembers can be read when its model is gone.
    stats = read_stats(index) if bundle is None else open_idx(index, bundle, device).stats()
    _show_stats(stats, as_json)


def open_idx(index: str, bundle: str | None, device: str) -> Index:
    """Open an index with the bundle it remembers, or with this one."""
    from anaume.search import open_index

    return open_index(index, bundle, device=device)


def _tell(summary: IndexSummary, as_json: bool) -> None:
    if as_json:
        say_json(dataclasses.asdict(summary))
    log.info("%s", _line(summary))
    if summary.codes_recall is not None:
        log.info("%s", _codes_line(summary.storage, summary.codes_recall))


def _line(summary: IndexSummary) -> str:
    if summary.finished_before:
        return f"{summary.out} is there already, made from the same with the same settings: nothing to do"
    parts = [f"{summary.documents:,} documents -> {summary.out} in {summary.seconds:.1f} s"]
    parts += [f"{summary.replaced:,} of them replaced others"] if summary.replaced else []
    parts += [f"{summary.there:,} were there already"] if summary.there else []
    parts += [f"{summary.passages:,} passages of {summary.embedding_size} numbers now"]
    return f"{'; '.join(parts)}; fingerprint {summary.fingerprint[:12]}"


def _codes_line(storage: str, codes: CodesRecall) -> str:
    return (
        f"{storage} codes find {percent(codes.recall)} of the ten nearest that float32 finds, and "
        f"{percent(codes.rescored)} with --rescore (among {codes.passages:,} passages; among more it is less)"
    )


def _show_stats(stats: IndexStats, as_json: bool) -> None:
    if as_json:
        say_json(dataclasses.asdict(stats))
        return
    shown = dataclasses.asdict(stats) | {"bytes": megabytes(stats.bytes)}
    fields = shown.pop("fields")
    facts([(name.replace("_", " "), f"{v:,}" if type(v) is int else v) for name, v in shown.items()])
    say()
    facts([("field", "type"), *fields.items()])
