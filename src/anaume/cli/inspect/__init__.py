"""Looking inside: `anaume inspect path | word | attention | neighbours | sizes | curves`, one module each."""

from __future__ import annotations

import typer

from anaume.cli.inspect import attention, curves, neighbours, path, sizes, word
from anaume.cli.running import command


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    inspect = typer.Typer(
        no_args_is_help=True,
        help="Look inside the very model that runs, in float32 on the CPU, or at the run that trained it.",
    )
    app.add_typer(inspect, name="inspect")
    command(inspect, "path")(path.path)
    command(inspect, "word")(word.word)
    command(inspect, "attention")(attention.attention)
    command(inspect, "neighbours")(neighbours.neighbours)
    command(inspect, "sizes")(sizes.sizes)
    command(inspect, "curves")(curves.curves)
