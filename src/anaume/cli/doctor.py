"""`anaume doctor`: what this machine can do, and what a run would take on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.pretrain import Assignments, Config, Minutes, Objective, Size, Steps, run_settings
from anaume.cli.printing import say, say_json, table
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.checks import Finding
    from anaume.training.pretraining.forecast import Forecast

log = get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "doctor")(_doctor)


def _doctor(
    shards: Annotated[
        Path | None,
        typer.Argument(metavar="SHARDS", help="A corpus whose rows the forecast is made on.", show_default=False),
    ] = None,
    size: Size = None,
    minutes: Minutes = None,
    steps: Steps = None,
    objective: Objective = None,
    config: Config = None,
    assignments: Assignments = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size", metavar="N", help="Without SHARDS: entries of the vocabulary.", show_default="30522"
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", help="Where outputs would go: its disk is looked at.")
    ] = Path(),
    as_json: options.Json = False,
    device: str = "auto",
) -> None:
    """Tell what this machine has, each with a verdict, and what a run would take.

    With a size, a length, settings or a corpus, a few real steps are trained and thrown away: memory, tokens a second
    and time of that run. Nothing is written.

    $ anaume doctor
    $ anaume doctor --size base --steps 100000
    $ anaume doctor shards --size mini --minutes 15
    """
    from anaume.checks import describe_forecast, examine_machine
    from anaume.data.corpus import open_corpus
    from anaume.engines import pick_device

    if vocab_size is not None and shards is not None:
        raise SettingsError("--vocab-size is for made-up rows; SHARDS bring their own vocabulary")
    if vocab_size is not None and vocab_size < 16:
        raise SettingsError(f"a vocabulary has at least 16 entries; got {vocab_size} (--vocab-size)")
    asked = any(
        given is not None for given in (shards, size, minutes, steps, objective, config, assignments, vocab_size)
    )
    # What is wrong is told before anything is measured.
    settings = run_settings(config, size, minutes, steps, assignments or [], objective=objective)
    pick_device(device)
    if shards is not None:
        open_corpus(shards)
    machine = examine_machine(out)
    if not as_json:
        _show(machine)
    if not asked:
        if as_json:
            say_json({"machine": [dataclasses.asdict(finding) for finding in machine], "forecast": None})
        return
    from anaume.training.pretraining.measuring import VOCAB_SIZE, forecast_run

    log.info("training a few steps to measure them")
    told = forecast_run(settings, shards, vocab_size=VOCAB_SIZE if vocab_size is None else vocab_size, device=device)
    if as_json:
        say_json({"machine": [dataclasses.asdict(finding) for finding in machine], "forecast": _record(told)})
        return
    say()
    _show(describe_forecast(told, out))


def _show(findings: Sequence[Finding]) -> None:
    rows = [(row.what, row.standing, f"{row.found}: {row.verdict}" if row.verdict else row.found) for row in findings]
    table(("what", "", "found"), rows)


def _record(told: Forecast) -> dict[str, Any]:
    run = told.settings.run
    steps = run.steps if run.minutes is None else told.steps_in(60.0 * run.minutes)
    return {
        "settings": told.settings.model_dump(),
        "parameters": told.parameters,
        "state_bytes": told.state_bytes,
        "peak_bytes": told.peak_bytes,
        "checkpoint_bytes": told.checkpoint_bytes,
        "paces": [dataclasses.asdict(pace) for pace in told.paces],
        "tokens_per_second": told.tokens_per_second,
        "steps": steps,
        "seconds": None
        if steps is None
        else told.seconds_for(1) * steps
        if run.minutes is None
        else 60.0 * run.minutes,
        "epochs": None if steps is None else told.epochs(steps),
    }
