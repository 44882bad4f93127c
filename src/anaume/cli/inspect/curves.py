"""`anaume inspect curves`: a run's losses, accuracies and learning rate in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaume.cli.printing import say


def curves(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, finished or not.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="A .png, .svg or .pdf.", show_default="RUN/curves.png"),
    ] = None,
) -> None:
    """Draw the curves of a run.

    Loss beside its landmarks, accuracies and learning rate, from RUN/metrics.jsonl; pretraining draws them as it goes.

    $ anaume inspect curves run -o curves.pdf
    """
    from anaume.training.pretraining.curves import curves as draw

    say(str(draw(run, out)))
