"""What several of the inspect commands share."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from anaume.cli.opening import typed

TextArg = Annotated[str, typer.Argument(metavar="TEXT", parser=typed, help="The text.", show_default=False)]
WordArg = Annotated[str, typer.Argument(metavar="WORD", parser=typed, help="The word.", show_default=False)]


def file_lines(file: str) -> list[tuple[int, str]]:
    """Return the lines of a file that are not blank, with their numbers; "-" is stdin."""
    from anaume.data import open_text

    with open_text(file) as lines:
        return [(number, line) for number, line in enumerate(lines.lines(), 1) if line.strip()]


def cosine_cell(value: float) -> str:
    """Return a cosine as a table shows it."""
    return "-" if math.isnan(value) else f"{value:.3f}"
