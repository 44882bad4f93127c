"""`anaume mine`: hard negatives for a training of vectors or of a cross-encoder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import say_json
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

log = get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "mine")(_mine)


def _mine(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Queries with positives.", show_default=False)],
    bundle: Annotated[str, typer.Option("--bundle", metavar="B", help="The model that looks.", show_default=False)],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="A .jsonl file.", show_default=False)],
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", metavar="FILE", help="Passages to look among; without, the positives of all queries."),
    ] = None,
    negatives: Annotated[int, typer.Option("--negatives", metavar="N", help="For each query, at most.")] = 3,
    ranks: Annotated[
        str, typer.Option("--ranks", metavar="FIRST-LAST", help="Which ranks are looked at, positives not counted.")
    ] = "1-100",
    margin: Annotated[
        float, typer.Option("--margin", metavar="X", help="Less similar than the positive by so much, in cosine.")
    ] = 0.05,
    reading: options.LabelledReading = options.NO_LABELLED_READING,
    engine: options.EngineOption = "auto",
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Find hard negatives: passages near a query that are none of its positives.

    A JSON line a query: query, positives, negatives. What a row calls a positive is never a negative of that query.

    $ anaume mine pairs.csv --bundle B -o triplets.jsonl --negatives 5 --ranks 10-100
    $ anaume finetune similarity triplets.jsonl --bundle B -o model
    """
    from anaume.jobs.mine import mine_negatives

    first, dash, last = ranks.partition("-")
    if not (dash and first.isdigit() and last.isdigit()):
        raise SettingsError(f"--ranks is given as FIRST-LAST, say 10-100; got {ranks!r}")
    summary = mine_negatives(
        open_bundle(bundle, device=device, engine=engine),
        files,
        out,
        corpus=corpus,
        negatives=negatives,
        ranks=(int(first), int(last)),
        margin=margin,
        overwrite=overwrite,
        progress=not verbose,
        **reading,
    )
    if as_json:
        say_json(dataclasses.asdict(summary))
    log.info(
        "%s negatives for %s queries among %s passages -> %s; %s queries have fewer than %d, %s of them none",
        f"{summary.negatives:,}",
        f"{summary.queries:,}",
        f"{summary.passages:,}",
        summary.out,
        f"{summary.short:,}",
        negatives,
        f"{summary.bare:,}",
    )
