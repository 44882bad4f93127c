"""`anaume inspect neighbours`: what lies near a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.inspect.shared import WordArg, cosine_cell, file_lines
from anaume.cli.opening import open_bundle, typed
from anaume.cli.printing import printable, say, say_json, table
from anaume.errors import SettingsError

if TYPE_CHECKING:
    from anaume.inspection import NeighbourReport
    from anaume.inspection.neighbours import Neighbour


def neighbours(
    bundle: options.BundleArg,
    word: WordArg,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Sentences to search, one a line; - is stdin.")
    ] = None,
    sentence: Annotated[
        str | None, typer.Option("--in", metavar="SENTENCE", parser=typed, help="Where the word stands; needs FILE.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="How many.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Find what lies near a word.

    In the token table, where a word has one vector; and, with --in, among the words of other sentences.

    $ anaume inspect neighbours all-MiniLM-L6-v2 bank
    $ anaume inspect neighbours all-MiniLM-L6-v2 bank texts.txt --in "the bank lent money"
    """
    if (file is None) != (sentence is None):
        raise SettingsError("--in SENTENCE and FILE go together: the word's vector there is compared with FILE's words")
    if top_k < 1:
        raise SettingsError(f"--top-k must be at least 1; got {top_k}")
    sentences = [] if file is None else [line for _, line in file_lines(file)]
    from anaume.inspection import trace_neighbours

    report = trace_neighbours(
        open_bundle(bundle, device="cpu"), word, sentence=sentence, sentences=sentences, top_k=top_k
    )
    if as_json:
        say_json(_neighbours_record(report, sentences))
    else:
        _show_neighbours(report, sentences)


def _show_neighbours(report: NeighbourReport, sentences: Sequence[str]) -> None:
    pieces = "" if report.tokens == (report.word,) else f" = {printable(' '.join(report.tokens))}"
    say(f"in the token table (static), near {printable(report.word)}{pieces}")
    table(("cosine", "token"), [(cosine_cell(found.cosine), found.word) for found in report.static], right=("cosine",))
    if report.contextual:
        say()
        say("in sentences (last layer)")
        rows = [(cosine_cell(found.cosine), found.word, _sentence(found, sentences)) for found in report.contextual]
        table(("cosine", "word", "sentence"), rows, right=("cosine",))


def _sentence(found: Neighbour, sentences: Sequence[str]) -> str:
    return "" if found.sentence is None else sentences[found.sentence]


def _neighbours_record(report: NeighbourReport, sentences: Sequence[str]) -> dict[str, Any]:
    return {
        "word": report.word,
        "tokens": report.tokens,
        "static": [{"token": found.word, "cosine": found.cosine} for found in report.static],
        "contextual": [
            {"word": found.word, "cosine": found.cosine, "sentence": _sentence(found, sentences)}
            for found in report.contextual
        ],
    }
