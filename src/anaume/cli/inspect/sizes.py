"""`anaume inspect sizes`: parameters, and the memory they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import megabytes, percent, printable, say, say_json, table
from anaume.errors import SettingsError

if TYPE_CHECKING:
    from anaume.inspection import SizeReport


def sizes(
    bundle: Annotated[
        str | None, typer.Argument(metavar="[B]", help="A bundle; without it, the named sizes.", show_default=False)
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", metavar="N", help="For the named sizes; 30522 unless said.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Count parameters, and the memory they take.

    $ anaume inspect sizes --vocab-size 32000
    $ anaume inspect sizes all-MiniLM-L6-v2
    """
    if bundle is not None and vocab_size is not None:
        raise SettingsError("--vocab-size is for the named sizes; a bundle has its own")
    from anaume.inspection import measure_sizes, named_sizes

    if bundle is None:
        reports = named_sizes(30522 if vocab_size is None else vocab_size)
    else:
        opened = open_bundle(bundle, device="cpu")
        reports = [measure_sizes(opened.model, Path(opened.parts.source).name or bundle)]
    if as_json:
        say_json([_size_record(report) for report in reports])
    elif bundle is None:
        _show_named_sizes(reports)
    else:
        _show_size(reports[0])


def _show_named_sizes(reports: Sequence[SizeReport]) -> None:
    say(f"vocabulary {reports[0].vocab_size:,}; with pooler and masked-word head, as pretrained")
    names = ("size", "layers", "hidden", "heads", "parameters", "in the token table", "float32", "bfloat16", "training")
    rows = [
        (
            report.name,
            report.layers,
            report.hidden_size,
            report.heads,
            f"{report.parameters:,}",
            percent(report.embedding_share),
            _mb(report.memory()),
            _mb(report.memory(2)),
            _mb(report.training_memory),
        )
        for report in reports
    ]
    table(names, rows, right=names[1:])
    say("training: weights, gradients and Adam's two moments in float32, activations apart")


def _show_size(report: SizeReport) -> None:
    say(
        f"{printable(report.name)}: {report.layers} layers x {report.hidden_size}, {report.heads} heads, vocabulary "
        f"{report.vocab_size:,}"
    )
    rows = [
        (name, f"{count:,}", percent(count / report.parameters), megabytes(4 * count))
        for name, count in report.parts.items()
    ]
    rows.append(("all", f"{report.parameters:,}", percent(1.0), megabytes(report.memory())))
    names = ("part", "parameters", "share", "in float32")
    table(names, rows, right=names[1:])
    say(
        f"the token table holds {percent(report.embedding_share)} of it; bfloat16 {megabytes(report.memory(2))}; "
        f"training {megabytes(report.training_memory)}, activations apart"
    )


def _size_record(report: SizeReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "layers": report.layers,
        "hidden_size": report.hidden_size,
        "heads": report.heads,
        "vocab_size": report.vocab_size,
        "parts": dict(report.parts),
        "parameters": report.parameters,
        "embedding_share": report.embedding_share,
        "memory_float32": report.memory(),
        "memory_bfloat16": report.memory(2),
        "training_memory": report.training_memory,
    }


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
