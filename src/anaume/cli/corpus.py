"""What `anaume prepare` and `anaume check` have in common: their options, and bars for stages of work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Literal, Self

import typer

TextsArg = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT...",
        help="txt, csv, tsv, jsonl, parquet, .gz of them, .zip, folders; - is stdin.",
        show_default=False,
    ),
]
Bundle = Annotated[
    str | None,
    typer.Option("--bundle", metavar="B", help="Use this bundle's tokenizer, or a tokenizer's own directory or file."),
]
VocabSize = Annotated[
    int | None,
    typer.Option("--vocab-size", metavar="N", help="Learn a vocabulary of at most so many entries from the text."),
]
Layout = Annotated[
    Literal["document", "sentences", "lines"],
    typer.Option(
        "--layout",
        metavar="HOW",
        help="A txt file is one document, or one sentence a line with blank lines between documents (sentences), or "
        "one document a line (lines).",
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", metavar="CODE", help="en, ja, de, ...; unless said, English or Japanese by its look."),
]


class Stages:
    """A bar for each stage of the work, one after the other."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._stack = ExitStack()
        self._what = ""
        self._done = 0
        self._advance: Callable[[int], None] = lambda count: None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Show that so much of a stage is done."""
        from anaume.jobs.progress import progress_bar

        if what != self._what:
            self._stack.close()
            self._advance = self._stack.enter_context(progress_bar(what, total, show=self._show))
            self._what, self._done = what, 0
        self._advance(done - self._done)
        self._done = done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
