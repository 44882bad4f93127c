"""`anaume demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaume.cli.running import command


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "demo")(_demo)


def _demo(
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Where the report goes; made when missing.")
    ] = Path("anaume-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer paragraphs.")] = False,
) -> None:
    """Show what anaume does, on real text, measured now.

    It reads this Python's own docstrings, needs the checkpoint all-MiniLM-L6-v2 installed, and downloads nothing.

    $ anaume demo
    $ anaume demo --quick -o report
    """
    from anaume.demo import run_demo

    code = run_demo(out, quick=quick)
    if code:
        raise typer.Exit(code)
