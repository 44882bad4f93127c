"""`anaume inspect curves`: how a run went, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anaume.cli.printing import say


def curves(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Of pretrain or finetune, finished or not.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="A .png, .svg or .pdf.", show_default="RUN/curves.png"),
    ] = None,
) -> None:
    """Draw the curves of a run.

    Of pretraining: loss beside its landmarks, accuracies and learning rate; it draws them as it goes, too. Of
    fine-tuning: losses and the score that decides, all seeds.

    $ anaume inspect curves run -o curves.pdf
    """
    from anaume.training.finetuning import curves as finetuning
    from anaume.training.pretraining import curves as pretraining

    draw = finetuning.curves if any(run.glob("seed-*")) else pretraining.curves
    say(str(draw(run, out)))
