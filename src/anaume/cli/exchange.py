"""Bundles out of other forms, and into them: `anaume import`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.printing import facts, printable, say, say_json, table
from anaume.cli.running import command

if TYPE_CHECKING:
    from anaume.exporting.importing import ImportReport

Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundle goes.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    command(app, "import")(_import)


def _import(
    source: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT",
            help="bert_model.ckpt (its name without endings), or a directory of Hugging Face's form.",
            show_default=False,
        ),
    ],
    out: Out,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Its bert_config.json; the one beside it by default."),
    ] = None,
    vocab: Annotated[
        Path | None, typer.Option("--vocab", metavar="FILE", help="Its vocab.txt; the one beside it by default.")
    ] = None,
    lower_case: Annotated[
        bool | None,
        typer.Option("--uncased/--cased", help="Whether case is dropped; as the words look.", show_default=False),
    ] = None,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Make a bundle of a published checkpoint.

    Original TensorFlow checkpoints (google-research/bert) are read without TensorFlow, with masked-word and
    next-sentence heads. Every tensor is told: loaded, tied, or ignored and why; one that fits nowhere is refused.

    $ anaume import bert_model.ckpt --config bert_config.json --vocab vocab.txt -o my-bundle
    """
    from anaume.exporting.importing import import_checkpoint

    report = import_checkpoint(source, out, config=config, vocab=vocab, lower_case=lower_case, overwrite=overwrite)
    if as_json:
        say_json(_import_record(report, out))
    else:
        _show_import(report, out)


def _import_record(report: ImportReport, out: Path) -> dict[str, Any]:
    parts = report.parts
    return {
        "out": str(out),
        "heads": list(parts.model.head_configs),
        "tensors": [dataclasses.asdict(tensor) for tensor in report.tensors],
        "load": parts.report.lines() if parts.report is not None else [],
        "notes": list(report.notes),
    }


def _show_import(report: ImportReport, out: Path) -> None:
    config, heads = report.parts.model.config, report.parts.model.head_configs
    told = [("encoder", f"{config.num_hidden_layers} layers x {config.hidden_size}, {config.vocab_size:,} words")]
    told.append(("heads", ", ".join(heads) or "none"))
    if report.tensors:
        kinds = (f"{report.count(kind)} {kind}" for kind in ("loaded", "tied", "ignored"))
        told.append(("tensors", f"{len(report.tensors)}: {', '.join(kinds)}"))
    facts([*told, ("written", out)])
    if report.tensors:
        say()
        rows = [
            (tensor.name, " x ".join(map(str, tensor.shape)) or "one number", tensor.became, tensor.note)
            for tensor in report.tensors
        ]
        table(("tensor", "shape", "became", "what, or why"), rows)
        say()
    for line in () if report.tensors or report.parts.report is None else report.parts.report.lines():
        say(f"load: {printable(line)}")
    for note in report.notes:
        say(f"note: {printable(note)}")
