"""`anaume finetune`: from labelled files and a bundle to a model of a task."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, percent, say, say_json, table
from anaume.cli.running import INTERRUPTED, command, silent_process
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.training.finetuning.finetune import FinetuneReport
    from anaume.training.finetuning.settings import FinetuneSettings

log = get_logger(__name__)

_LINE_SECONDS = 10.0


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "finetune", many=("--dev",))(_finetune)


def _finetune(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="classification, pair-classification, multi-label, regression, ner, question-answering, "
            "multiple-choice, similarity, ranking, late-interaction, features.",
            show_default=False,
        ),
    ],
    train: Annotated[
        list[str], typer.Argument(metavar="TRAIN", help="Labelled files to learn from.", show_default=False)
    ],
    bundle: Annotated[str, typer.Option("--bundle", metavar="B", help="The bundle to start from.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", metavar="M", help="The model's folder; M/bundle is the bundle.", show_default=False
        ),
    ],
    dev: Annotated[
        list[str] | None,
        typer.Option("--dev", metavar="FILE...", help="Held-out files; without, a tenth of TRAIN is held out."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Runs, each with a seed of its own; M keeps those it has.")
    ] = 3,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="The first one.", show_default="0")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            metavar="NAME",
            help="Of similarity: in-batch, cosent, angle, cosine, triplet, softmax, margin-mse, simcse, tsdae.",
            show_default="by what the rows have",
        ),
    ] = None,
    epochs: Annotated[
        float | None, typer.Option("--epochs", metavar="N", help="Times each row is seen.", show_default="3")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", metavar="M", help="A time budget for each seed, instead of epochs.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML; options below go over it.")
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting; may be given many times."),
    ] = None,
    reading: options.LabelledReading = options.NO_LABELLED_READING,
    as_json: options.Json = False,
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Train a bundle for a task, with several seeds.

    The best weights of each seed by its score on the held-out rows are kept, the best seed is M's bundle, and the
    score is told with its spread. The same line again goes on where it was stopped or killed. Files of known layouts
    (GLUE, CoNLL, SQuAD, JGLUE, SWAG) need no --column.

    similarity trains the vectors of texts, on pairs (query, positive), triplets, scored or labelled pairs. features
    leaves the encoder frozen: a probe on it (linear, or task.tagger=bilstm) learns the labels the files have.

    $ anaume finetune classification train.tsv --dev dev.tsv --bundle all-MiniLM-L6-v2 -o model
    $ anaume finetune ner train.conll --bundle RUN/bundle -o tagger --epochs 5 --set optimizer.learning_rate=2e-4
    $ anaume finetune similarity pairs.csv --bundle B -o model --objective in-batch
    $ anaume finetune ranking pairs.csv --bundle B -o cross-encoder
    $ anaume finetune late-interaction pairs.csv --bundle B -o late
    $ anaume finetune features train.conll --bundle B -o probe --set task.layers=last-four --set task.tagger=bilstm
    $ anaume finetune classification reviews.csv --column text=body --column label=stars --bundle B -o model
    """
    from anaume.training.finetuning.finetune import finetune
    from anaume.training.finetuning.probing import settings_for
    from anaume.training.ranks import launched_rank

    kind = settings_for(task)
    settings = kind() if config is None else kind.read(config)
    values = []
    if epochs is not None or minutes is not None:  # a length on the command line replaces the file's
        values += ["run.epochs=none", "run.steps=none", "run.minutes=none"]
    given = {"task.objective": objective, "run.epochs": epochs, "run.minutes": minutes, "run.seed": seed}
    values += [f"{name}={value}" for name, value in given.items() if value is not None]
    settings = settings.with_values([*values, *(assignments or [])])
    first = launched_rank() == 0
    with nullcontext() if first else silent_process(), _shown(quiet or not first) as (begins, report):
        result = finetune(
            task,
            train,
            out,
            bundle=open_bundle(bundle, device="cpu"),
            dev=dev,
            settings=settings,
            seeds=seeds,
            device=device,
            report=report,
            begins=begins,
            **reading,
        )
    if first and as_json:
        say_json({**dataclasses.asdict(result), "folder": str(result.folder), "bundle": str(result.bundle)})
    elif first and result.finished:
        _show(result)
    if not result.finished:
        log.info("stopped in seed %d, saved; the same line goes on from there", result.seeds[-1].seed)
        raise typer.Exit(INTERRUPTED)


def _show(result: FinetuneReport) -> None:
    rows = []
    for seed in result.seeds:
        score = seed.scores.get(result.metric)
        shown = None if score is None else f"{score:.4f}"
        rows.append((seed.seed, shown, seed.best_step, seed.steps, f"{seed.seconds:.0f} s"))
    table(
        ("seed", result.metric, "best step", "steps", "time"),
        rows,
        right=("seed", result.metric, "best step", "steps", "time"),
    )
    say()
    spread = result.spread
    told = []
    if spread is not None:
        interval = "" if spread.low is None else f", 95 % interval {spread.low:.4f} to {spread.high:.4f}"
        deviation = "" if spread.deviation is None else f" ± {spread.deviation:.4f} over {spread.count} seeds{interval}"
        told.append((result.metric, f"{spread.mean:.4f}{deviation}"))
        if result.dev_from == "split":
            told.append(("held out", f"{result.dev_examples:,} rows of the training files, by a fixed seed"))
    elif result.dev_from == "none":
        told.append((result.metric, "not known: nothing was held out"))
    else:
        reasons = [seed.scores["reason"] for seed in result.seeds if "reason" in seed.scores]
        told.append((result.metric, f"not defined on the held-out rows ({(reasons or ['no reason given'])[0]})"))
    if any(seed.calibrated for seed in result.seeds):
        told.append(("thresholds", "set on the held-out rows, which flatters their score: report that of other rows"))
    if result.dev_in_train:
        told.append(
            ("in train too", f"{result.dev_in_train:,} of {result.dev_examples:,} dev rows: they flatter the score")
        )
    told.append(("cut", f"{percent(result.truncated_share)} of the training rows were longer than the model takes"))
    best = next((seed for seed in result.seeds if seed.seed == result.best_seed), None)
    if best is not None and best.best_step == 0:
        told.append(("best", "the start itself: no step scored higher"))
    if best is not None and (guess := _equal_guess(best.scores)) is not None:
        what = f"nothing yet: no better than {guess} on the held-out rows"
        told.append(("learned", f"{what}; more --epochs, or a higher optimizer.learning_rate"))
    if result.frozen:
        told.append(("encoder", "frozen: its vectors, and their fingerprint, are the starting bundle's"))
    told.append(("bundle", f"{result.bundle} (seed {result.best_seed})"))
    facts(told)
    if result.task == "similarity":
        say(f"try: anaume embed {result.folder} FILE -o vectors.npy")
    else:
        say(f"try: anaume predict {result.folder} FILE -o predictions.jsonl")


def _equal_guess(scores: dict[str, Any]) -> str | None:
    """Return what does as well without reading the texts; None where the answers have something to do with them."""
    if scores.get("HasAns_f1") == 0.0 and scores.get("NoAns_f1"):
        return 'the answer "none" to every question'
    accuracy = scores.get("accuracy")
    if accuracy is None or accuracy == 1.0:  # 1.0 of one label: nothing could do better
        return None
    matthews, drawn, commonest = (scores.get(name) for name in ("matthews", "chance", "majority"))
    # Matthews' correlation is 0 where one label is always answered.
    if (matthews is not None and matthews <= 0.0) or (drawn is not None and accuracy <= drawn):
        return "chance"
    # Entities that were found are something learned, however many words around them got wrong tags.
    none_found = commonest is not None and accuracy <= commonest and not scores.get("f1")
    return "the commonest tag everywhere" if none_found else None


Begins = Callable[[Any, Any], None]
Report = Callable[[int, dict[str, Any]], None]


@contextmanager
def _shown(quiet: bool) -> Iterator[tuple[Begins | None, Report | None]]:
    """Give what tells how it goes: a line every ten seconds and at each evaluation."""
    if quiet:
        yield None, None
        return
    total: dict[str, int | None] = {"steps": None}
    shown_at = -_LINE_SECONDS
    terminal = sys.stderr.isatty()

    def begins(report: FinetuneReport, settings: FinetuneSettings) -> None:
        total["steps"] = settings.run.steps
        seen = f", {report.dev_in_train:,} of them in train too" if report.dev_in_train else ""
        held = {"file": f"of its file{seen}", "split": "held out of the training rows", "none": "none"}[report.dev_from]
        log.info(
            "%s: %s training rows, %s dev rows (%s); %s of the texts cut at %s tokens, %s of the pieces unknown",
            report.task,
            f"{report.train_examples:,}",
            f"{report.dev_examples:,}",
            held,
            percent(report.truncated_share),
            settings.model.max_length,
            percent(report.unknown_share),
        )

    def report(seed: int, row: dict[str, Any]) -> None:
        nonlocal shown_at
        now = time.monotonic()
        whole = "" if total["steps"] is None else f" of {total['steps']:,}"
        where = f"seed {seed}, step {row['step']:,}{whole}"
        if "dev_loss" in row:
            scores = ", ".join(
                f"{name.removeprefix('dev_')} {value:.4f}"
                for name, value in row.items()
                if name.startswith("dev_") and isinstance(value, float)
            )
            log.info("%s: on dev: %s%s", where, scores, " (best so far)" if row["best"] else "")
        elif now - shown_at >= (2.0 if terminal else _LINE_SECONDS):
            loss = "not finite" if row["loss"] is None else f"{row['loss']:.4f}"
            log.info("%s: loss %s, %s tokens/s", where, loss, f"{row['tokens_per_second']:,.0f}")
            shown_at = now

    yield begins, report
