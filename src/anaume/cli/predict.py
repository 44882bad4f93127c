"""`anaume predict` and `anaume evaluate`: what a fine-tuned model says of files, and what it is worth on them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, percent, say, say_json, table
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.jobs.evaluate import Evaluation
    from anaume.jobs.vector_evaluation import VectorEvaluation
    from anaume.tasks.comparing import Comparison

log = get_logger(__name__)

ModelArg = Annotated[
    str,
    typer.Argument(metavar="M", help="What `anaume finetune` made, or a checkpoint with a head.", show_default=False),
]
Precision = Annotated[
    Literal["float32", "bfloat16"], typer.Option("--precision", help="bfloat16 is about twice as fast.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    command(app, "predict")(_predict)
    command(app, "evaluate")(_evaluate)


def _predict(
    model: ModelArg,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files; - is stdin.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="A .jsonl file (answers: also .json, as SQuAD's evaluation reads them). Without it: stdout.",
            show_default=False,
        ),
    ] = None,
    precision: Precision = "float32",
    engine: options.EngineOption = "auto",
    reading: options.LabelledReading = options.NO_LABELLED_READING,
    overwrite: options.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout (with -o).")] = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Predict files with a fine-tuned model.

    One JSON line a row, in order: its columns as they were, and "prediction". Files of any size are streamed; the
    output appears whole or not at all.

    $ anaume predict model texts.txt -o predictions.jsonl
    $ anaume predict model tickets.csv --column text=body > predictions.jsonl
    """
    if as_json and out is None:
        raise SettingsError("--json prints the summary on stdout, where the predictions go: name their file with -o")
    from anaume.jobs.predict import predict_file

    summary = predict_file(
        open_bundle(model, device=device, precision=precision, engine=engine),
        files,
        out,
        overwrite=overwrite,
        progress=not verbose,
        **reading,
    )
    if as_json:
        say_json(dataclasses.asdict(summary))
    log.info(
        "%s rows -> %s in %.1f s; %s cut, %s of the text seen, %s of the pieces unknown",
        f"{summary.examples:,}",
        "stdout" if summary.out == "-" else summary.out,
        summary.seconds,
        f"{summary.cut:,}",
        percent(summary.coverage),
        percent(summary.unknown_share),
    )


def _evaluate(
    model: Annotated[
        str,
        typer.Argument(
            metavar="M",
            help="What `anaume finetune` made, a checkpoint with a head, or answers: a .json file, id -> answer, as "
            "SQuAD's evaluation reads it.",
            show_default=False,
        ),
    ],
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Labelled files.", show_default=False)],
    against: Annotated[
        str | None, typer.Option("--against", metavar="M2", help="Another model: do they differ (paired bootstrap)?")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="Score the vectors: sts, pairs, retrieval, reranking. Without it: what its head was trained for.",
        ),
    ] = None,
    positive: Annotated[
        str | None, typer.Option("--positive", metavar="NAME", help="Of pairs: the class of those that are alike.")
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option("--dimensions", metavar="N", help="Of vectors: their first N numbers alone.")
    ] = None,
    whiten: Annotated[
        bool, typer.Option("--whiten", help="Of vectors: whitened first, a baseline that trains nothing.")
    ] = False,
    precision: Precision = "float32",
    engine: options.EngineOption = "auto",
    reading: options.LabelledReading = options.NO_LABELLED_READING,
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Score a model on labelled files, answers that are there, or vectors (--task).

    Scores are fractions of 1, over all rows at once. Labels that the model does not know are refused. Of --task:
    sts: scored pairs; pairs: pairs of two classes; reranking: queries with positives and negatives; retrieval: a BEIR
    folder, or three files: documents, queries (jsonl or SMART) and judgments.

    $ anaume evaluate model dev.tsv
    $ anaume evaluate model dev.tsv --against other-model --json
    $ anaume evaluate answers.json dev-v2.0.json
    $ anaume evaluate all-MiniLM-L6-v2 stsb-dev.tsv --task sts --json
    $ anaume evaluate all-MiniLM-L6-v2 beir/scifact --task retrieval
    """
    from anaume.jobs.evaluate import evaluate_file
    from anaume.jobs.evaluate_vectors import evaluate_vectors
    from anaume.jobs.vector_evaluation import VECTOR_TASKS

    if task in VECTOR_TASKS:
        if against is not None:
            raise SettingsError("--against compares what heads predict; vectors are scored one model after the other")
        judged = evaluate_vectors(
            open_bundle(model, device=device, precision=precision, engine=engine),
            files,
            task,
            dimensions=dimensions,
            positive=positive,
            whiten=whiten,
            progress=not verbose,
            **reading,
        )
        if as_json:
            say_json(_vector_record(judged))
        else:
            _show_vectors(judged)
        return
    if positive is not None or dimensions is not None or whiten:
        raise SettingsError("--positive, --dimensions and --whiten are of vectors: say of which --task")
    if Path(model).suffix in (".json", ".jsonl") and not Path(model).is_dir():
        _evaluate_answers(model, files, task, against, reading, as_json=as_json)
        return
    opened, judged_by = open_bundle(model, device=device, precision=precision, engine=engine), ", ".join(VECTOR_TASKS)
    try:
        own = opened.task.name
    except SettingsError as error:
        raise SettingsError(f"{error}; its vectors are judged by --task {judged_by}") from error
    if task not in (None, own):
        raise SettingsError(f"the model was trained for {own}, not for {task!r}; its vectors are judged by {judged_by}")
    evaluation = evaluate_file(
        opened,
        files,
        against=None if against is None else open_bundle(against, device=device, precision=precision, engine=engine),
        progress=not verbose,
        **reading,
    )
    if as_json:
        say_json(_record(evaluation, against))
    else:
        _show(evaluation, against)


def _evaluate_answers(
    answers: str,
    files: list[str],
    task: str | None,
    against: str | None,
    reading: options.LabelledReading,
    *,
    as_json: bool,
) -> None:
    from anaume.jobs.evaluate_answers import evaluate_answers

    if Path(answers).suffix == ".jsonl":
        raise SettingsError(
            f"{answers}: give a model, or answers to questions as one object in a .json file (anaume predict M FILE -o "
            "answers.json)"
        )
    if task not in (None, "question-answering"):
        raise SettingsError(f"{answers}: a .json file of answers is scored as question-answering, not as {task!r}")
    if against is not None:
        raise SettingsError("--against compares two models; a file of answers is scored by itself")
    evaluation = evaluate_answers(answers, files, **reading)
    if as_json:
        say_json(_record(evaluation, None))
    else:
        _show(evaluation, None)


def _record(evaluation: Evaluation, against: str | None) -> dict[str, Any]:
    told = {**evaluation.scores, "task": evaluation.task, "metric": evaluation.metric, "examples": evaluation.examples}
    told |= {"cut": evaluation.cut, "unknown_share": evaluation.unknown_share}
    if evaluation.comparison is not None:
        comparison = evaluation.comparison
        told["against"] = {
            "model": against,
            "scores": evaluation.other_scores,
            **dataclasses.asdict(comparison),
            "differ": comparison.differ,
        }
    return told


def _vector_record(judged: VectorEvaluation) -> dict[str, Any]:
    told = {**judged.scores, "task": judged.task, "metric": judged.metric, "examples": judged.examples}
    told |= {"intervals": {name: [span.low, span.high] for name, span in judged.intervals.items()}}
    if judged.documents is not None:
        told |= {"documents": judged.documents, "left_out": judged.left_out}
    return told | {"cut": judged.cut, "unknown_share": judged.unknown_share}


def _show_vectors(judged: VectorEvaluation) -> None:
    told = []
    for name, value in judged.scores.items():
        span = judged.intervals.get(name)
        interval = "" if span is None else f"  95 % interval {span.low:.4f} to {span.high:.4f}"
        if value is None:
            told.append((name, f"not defined ({judged.scores.get('reason', 'no reason given')})"))
        elif isinstance(value, float):
            told.append((name, f"{value:.4f}{interval}"))
    what = "pairs" if judged.task in ("sts", "pairs") else "queries"
    told.append((what, f"{judged.examples:,}"))
    if judged.documents is not None:
        told.append(("documents", f"{judged.documents:,}"))
    if judged.left_out:
        told.append(("left out", f"{judged.left_out:,} queries that no document is relevant to"))
    facts([*told, ("cut", f"{judged.cut:,} texts")])


def _show(evaluation: Evaluation, against: str | None) -> None:
    plain = {name: value for name, value in evaluation.scores.items() if isinstance(value, float)}
    told = [(name, f"{value:.4f}") for name, value in plain.items()]
    if evaluation.scores[evaluation.metric] is None:
        told.append((evaluation.metric, f"not defined ({evaluation.scores.get('reason', 'no reason given')})"))
    told.append(("rows", f"{evaluation.examples:,}"))
    if evaluation.cut is not None:
        told.append(("cut", f"{evaluation.cut:,}"))
    if strict := evaluation.scores.get("strict"):  # of entities
        told.append(("strict f1", _shown(strict["f1"])))
        told.append(("reading", "lenient (an I- with none of its type before it begins an entity), strict f1 apart"))
    facts(told)
    labels = evaluation.scores["lenient"]["types"] if strict else evaluation.scores.get("labels")
    if isinstance(labels, dict) and labels:
        say()
        names = list(next(iter(labels.values())))
        rows = [(label, *map(_shown, scores.values())) for label, scores in labels.items()]
        table(("type" if strict else "label", *names), rows, right=names)
    if evaluation.comparison is not None and against is not None:
        say()
        say(_compared(evaluation.comparison, against))


def _shown(score: float | None) -> str:
    if score is None:
        return "-"
    return f"{score:.4f}" if isinstance(score, float) else f"{score:,}"


def _compared(comparison: Comparison, against: str) -> str:
    verdict = "they differ" if comparison.differ else "no difference shown"
    return (
        f"{comparison.metric} less that of {against}: {comparison.difference:+.4f}, 95 % interval "
        f"{comparison.low:+.4f} to {comparison.high:+.4f}, p = {comparison.p:.3f} (paired bootstrap over "
        f"{comparison.examples:,} rows): {verdict}"
    )
