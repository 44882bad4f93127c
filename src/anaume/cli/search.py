"""`anaume search`: the passages of an index that answer a query."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from anaume.cli import options
from anaume.cli.index import IndexArg, open_idx
from anaume.cli.opening import open_bundle, stdin_lines, typed
from anaume.cli.printing import clipped, say, say_json
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.search import Hit

log = get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "search")(_search)


def _search(
    index: IndexArg,
    query: Annotated[str, typer.Argument(metavar="QUERY", parser=typed, help="What to look for.", show_default=False)],
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="How many passages at most.")] = 10,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="SQL", parser=typed, help="A condition on fields: \"lang = 'ja' AND year > 2020\"."
        ),
    ] = None,
    bundle: Annotated[
        str | None, typer.Option("--bundle", metavar="B", help="Search with this bundle; refused if it is another one.")
    ] = None,
    hybrid: Annotated[
        bool, typer.Option("--hybrid", help="Look for the words, too (BM25), and put both rankings together.")
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            "--rerank", metavar="M", help="A model of finetune ranking or late-interaction: it orders the best 100."
        ),
    ] = None,
    as_json: options.Json = False,
    device: str = "auto",
) -> None:
    """Find passages.

    The index remembers its bundle; a query embedded by another one is refused. With - as the query, every line of stdin
    is one, and --json prints a list of hits a line.

    $ anaume search idx "run something later, after a delay" --top-k 5
    $ anaume search idx "猫の名前" --where "year >= 2020" --json
    """
    many = query == "-"
    if many and not as_json:
        raise SettingsError("queries from stdin are answered with --json, a list of hits a line")
    opened = open_idx(index, bundle, device)
    ranker = None if rerank is None else open_bundle(rerank, device=device)
    queries = list(stdin_lines()) if many else [query]
    for hits in opened.search_all(queries, top_k=top_k, where=where, hybrid=hybrid, rerank=ranker):
        if as_json:
            say_json([dataclasses.asdict(hit) for hit in hits])
        else:
            _show(hits)


def _show(hits: list[Hit]) -> None:
    if not hits:
        log.info("nothing found: the index is empty, or no document meets the condition")
    for hit in hits:
        part = f", passage {hit.passage + 1} of {hit.passages}" if hit.passages > 1 else ""
        say(f"{hit.score:.4f}  {hit.id}  characters {hit.start}-{hit.end}{part}")
        say(f"        {clipped(' '.join(hit.text.split()), 200)}")
