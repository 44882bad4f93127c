"""`anaume pretrain`: from a prepared corpus to an encoder of your own."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, say, say_json
from anaume.cli.running import INTERRUPTED, command, silent_process
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.training import PretrainResult, PretrainSettings
    from anaume.training.pretraining.progress import Landmarks

log = get_logger(__name__)

OBJECTIVES = {
    "mlm": ("data.pairing=none", "objective.target=masked"),
    "mlm+nsp": ("data.pairing=nsp", "objective.target=masked"),
    "mlm+sop": ("data.pairing=sop", "objective.target=masked"),
    "clm": ("data.pairing=none", "objective.target=next"),
}
"""What an objective's name sets; model.causal follows the target unless it is set."""


Size = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="NAME",
        help="Layers x width: tiny (2 x 128), mini (4 x 256), small (4 x 512), medium (8 x 512), base (12 x 768) or "
        "large (24 x 1024); under --minutes, tiny to small as measured.",
        show_default="mini",
    ),
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", metavar="M", help="A time budget: the schedule ends on it.")
]
Steps = Annotated[int | None, typer.Option("--steps", metavar="N", help="Optimizer steps.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML; options below go over it.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="SECTION.KEY=VALUE", help="Any setting (run.batch_rows=64); may be given many times."
    ),
]


Objective = Annotated[
    Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] | None,
    typer.Option("--objective", help="What is predicted.", show_default="mlm"),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "pretrain")(_pretrain)


def _pretrain(
    shards: Annotated[
        Path, typer.Argument(metavar="SHARDS", help="A corpus made by `anaume prepare`.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="RUN", help="The run's folder; RUN/bundle is the result.")
    ],
    size: Size = None,
    minutes: Minutes = None,
    steps: Steps = None,
    objective: Objective = None,
    recipe: Annotated[
        Literal["paper"] | None, typer.Option("--recipe", help="The published one: mlm+nsp, 128 then 512 tokens.")
    ] = None,
    bundle: Annotated[
        str | None, typer.Option("--bundle", metavar="B", help="Continue from this bundle's weights.")
    ] = None,
    new_heads: Annotated[
        bool, typer.Option("--new-heads", help="Draw heads that the run needs and the bundle has not.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Of weights, order, masks, dropout.", show_default="0")
    ] = None,
    config: Config = None,
    assignments: Assignments = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="JOURNAL", help="Train a timed run again, by its journal.jsonl.")
    ] = None,
    as_json: options.Json = False,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Train an encoder on a prepared corpus.

    The same line again goes on where it was stopped or killed, and ends where it would have ended; a RUN of other
    settings is refused, naming each. Settings go one over the other: --config, --recipe, the options, --set. All of
    them, with what was left open filled in, are in RUN/settings.toml. Under --minutes, a size or batch that is not
    given is chosen from a few measured steps, and it is said why.

    $ anaume pretrain shards --size mini --minutes 15 -o run
    $ anaume pretrain shards --bundle my-bundle --steps 2000 -o run
    $ torchrun --nproc-per-node 2 -m anaume pretrain shards --steps 2000 -o run
    """
    from anaume.training.ranks import launched_rank

    settings = run_settings(
        config, size, minutes, steps, assignments or [], recipe=recipe, objective=objective, seed=seed
    )
    if launched_rank() == 0:
        result, landmarks, notes = _train(shards, out, settings, bundle, new_heads, device, replay, quiet)
        if as_json:
            say_json(_record(result, landmarks, notes))
        elif result.finished:
            _show(result, landmarks)
        for note in notes:
            log.warning("%s", note)
        if not result.finished:
            log.info("stopped after step %s, saved; the same line goes on from there", f"{result.steps:,}")
    else:
        result = _train_silently(shards, out, settings, bundle, new_heads, device, replay)
    if not result.finished:
        raise typer.Exit(INTERRUPTED)


def run_settings(
    config: Path | None,
    size: str | None,
    minutes: float | None,
    steps: int | None,
    assignments: list[str],
    *,
    recipe: str | None = None,
    objective: str | None = None,
    seed: int | None = None,
) -> PretrainSettings:
    """Return the settings of a command line, one over the other: --config, --recipe, the options, --set."""
    from anaume.training import PretrainSettings, paper_recipe

    settings = PretrainSettings() if config is None else PretrainSettings.read(config)
    if recipe == "paper":
        settings = paper_recipe(settings)
    values = [] if objective is None else list(OBJECTIVES[objective])
    if minutes is not None or steps is not None:  # a length on the command line replaces the file's
        values += ["run.minutes=none", "run.steps=none"]
    given = {"model.size": size, "run.minutes": minutes, "run.steps": steps, "run.seed": seed}
    values += [f"{name}={value}" for name, value in given.items() if value is not None]
    return settings.with_values([*values, *assignments])


def _train(
    shards: Path,
    out: Path,
    settings: PretrainSettings,
    bundle: str | None,
    new_heads: bool,
    device: str,
    replay: Path | None,
    quiet: bool,
) -> tuple[PretrainResult, Landmarks, list[str]]:
    from anaume.training import pretrain
    from anaume.training.pretraining.progress import Landmarks, shown, stuck
    from anaume.training.pretraining.result import stored_settings
    from anaume.training.records import METRICS, read_lines

    landmarks = Landmarks.of_corpus(shards)
    start = None if bundle is None else open_bundle(bundle, device="cpu")
    with shown(landmarks, quiet=quiet) as display:
        result = pretrain(
            shards,
            out,
            settings,
            bundle=start,
            new_heads=new_heads,
            device=device,
            replay=replay,
            begins=None if display is None else display.begins,
            report=display,
        )
    note = stuck(read_lines(out / METRICS), landmarks, stored_settings(out) or settings) if result.finished else None
    return result, landmarks, [] if note is None else [note]


def _train_silently(
    shards: Path,
    out: Path,
    settings: PretrainSettings,
    bundle: str | None,
    new_heads: bool,
    device: str,
    replay: Path | None,
) -> PretrainResult:
    """Train as one of many processes: the first one talks; wrong use is told by it too."""
    from anaume.training import pretrain

    with silent_process():
        start = None if bundle is None else open_bundle(bundle, device="cpu")
        return pretrain(shards, out, settings, bundle=start, new_heads=new_heads, device=device, replay=replay)


def _record(result: PretrainResult, landmarks: Landmarks, notes: list[str]) -> dict[str, Any]:
    told = {**dataclasses.asdict(result), "folder": str(result.folder), "bundle": str(result.bundle)}
    return {**told, "first_loss": landmarks.uniform, "entropy_floor": landmarks.floor, "notes": notes}


def _show(result: PretrainResult, landmarks: Landmarks) -> None:
    from anaume.training.pretraining.progress import duration
    from anaume.training.pretraining.result import stored_settings

    if result.finished_before:
        say(f"{result.folder} is finished already: nothing to do")
    facts(
        [
            ("steps", f"{result.steps:,}" + (f", {result.skipped:,} of them skipped" if result.skipped else "")),
            ("tokens", f"{result.tokens:,}"),
            ("time", duration(result.seconds)),
            *_score_facts(result, landmarks),
            ("bundle", str(result.bundle)),
        ]
    )
    settings = stored_settings(result.folder)
    if settings is None or settings.objective.target == "masked":
        say(f'try: anaume fill {result.bundle} "the [MASK] was too small"')
    else:
        say(f"try: anaume info {result.bundle}")


def _score_facts(result: PretrainResult, landmarks: Landmarks) -> list[tuple[str, str]]:
    from anaume.training.pretraining.progress import loss_words

    scores, before = result.scores, result.scores_before
    if not scores:
        return []
    was = f", {loss_words(before['held_out_loss'])} before" if before else ""
    found = [
        ("held-out loss", f"{loss_words(scores['held_out_loss'])} nats a token{was} (floor {landmarks.floor:.2f})"),
        ("held-out top-1", f"{scores['held_out_accuracy']:.1%}"),
    ]
    if "held_out_pair_accuracy" in scores:
        found.append(("held-out pairs", f"{scores['held_out_pair_accuracy']:.1%}"))
    return found
