"""`anaume embed`: files into vectors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import percent, say_json
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.jobs.embed import EmbedSummary
    from anaume.jobs.embed_ray import ShardsSummary

log = get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "embed")(_embed)


def _embed(
    bundle: options.BundleArg,
    files: options.FilesArg,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            help="A .npy, .jsonl or .parquet file; with --ray a folder. Without it: JSON lines on stdout.",
            show_default=False,
        ),
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="The prompt to use: query, passage, ...")
    ] = None,
    long: Annotated[
        Literal["truncate", "window", "error"],
        typer.Option("--long", metavar="HOW", help="Over the bundle's length: truncate, window (average) or error."),
    ] = "truncate",
    precision: Annotated[
        Literal["float32", "bfloat16", "int8"],
        typer.Option("--precision", help="bfloat16: about twice as fast. int8: of exports made with --int8."),
    ] = "float32",
    engine: options.EngineOption = "auto",
    spread: Annotated[
        bool,
        typer.Option("--ray", help="Hand Parquet shards out to many processes, here or on the cluster of RAY_ADDRESS."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Processes of --ray; one for each core (or GPU) there is."),
    ] = None,
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout (with -o).")] = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Turn texts from files into vectors.

    One vector a row, in order, with the fingerprint of what made them. The output appears whole or not at all; one that
    is there, made of the same texts with the same settings, is left as it is.

    $ anaume embed all-MiniLM-L6-v2 texts.txt -o vectors.npy
    $ anaume embed my-bundle tickets.csv --column body -o tickets.parquet
    $ cat questions.txt | anaume embed my-bundle - --as query > questions.jsonl
    $ anaume embed my-bundle shards/*.parquet --ray -o vectors
    """
    if as_json and out is None:
        raise SettingsError("--json prints the summary on stdout, where the vectors go: name their file with -o")
    if workers is not None and not spread:
        raise SettingsError("--workers is for --ray; without it one process embeds, with all cores")
    if spread and out is None:
        raise SettingsError("--ray writes a file for each shard: name their folder with -o")
    opened = open_bundle(bundle, device=device, precision=precision, engine=engine)
    if precision != "int8" and opened.exported is not None and opened.exported.int8:
        log.info("%s has int8 vectors, too: --precision int8; `anaume info` says what they cost", bundle)
    given: dict[str, Any] = {"as_": as_, "long": long, "overwrite": overwrite, "progress": not verbose, **reading}
    summary: EmbedSummary | ShardsSummary
    if spread:
        from anaume.jobs.embed_ray import embed_shards

        assert out is not None
        summary = embed_shards(opened, files, out, workers=workers, **given)
        line = _shards_line(summary)
    else:
        from anaume.jobs.embed import embed_file

        summary = embed_file(opened, files, out, **given)
        line = _line(summary)
    if as_json:
        say_json({**dataclasses.asdict(summary), "texts_per_second": summary.texts_per_second})
    log.info("%s", line)


def _line(summary: EmbedSummary) -> str:
    if summary.finished_before:
        return f"{summary.out} is there already, made of the same texts with the same settings: nothing to do"
    where = "stdout" if summary.out == "-" else summary.out
    return f"{summary.texts:,} texts -> {where} {_told(summary)}"


def _shards_line(summary: ShardsSummary) -> str:
    there = f"; {summary.finished_before:,} of them were there already" if summary.finished_before else ""
    if summary.finished_before == summary.shards:
        return f"all {summary.shards:,} shards are in {summary.out} already, made of the same texts: nothing to do"
    return (
        f"{summary.shards:,} shards -> {summary.out} by {summary.workers} workers{there}; "
        f"{summary.texts:,} texts {_told(summary)}"
    )


def _told(summary: EmbedSummary | ShardsSummary) -> str:
    return (
        f"({summary.texts:,} x {summary.embedding_size}, computed in {summary.precision}) "
        f"in {summary.seconds:.1f} s, {summary.texts_per_second:,.0f} texts/s; "
        f"{summary.cut:,} cut, {percent(summary.coverage)} of the text seen, {percent(summary.unknown_share)} of the "
        f"pieces unknown; fingerprint {summary.fingerprint[:12]}"
    )
