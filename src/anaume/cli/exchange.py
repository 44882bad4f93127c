"""Bundles out of other forms, and into them: `anaume import`, `anaume export`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, printable, say, say_json, table
from anaume.cli.running import command

if TYPE_CHECKING:
    from anaume.exporting.certificate import Certificate
    from anaume.exporting.importing import ImportReport

Out = Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where the bundle goes.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    command(app, "import")(_import)
    command(app, "export")(_export)


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


def _export(
    bundle: options.BundleArg,
    out: Out,
    to: Annotated[
        Literal["onnx", "openvino", "static"],
        typer.Option("--to", metavar="FORM", help="onnx, openvino, or static: one vector a token.", show_default=False),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Option(
            "--texts",
            metavar="FILE",
            help="Text of your domain (several may be given): weights, and the loss on every tenth, held out.",
        ),
    ] = None,
    sts: Annotated[
        list[str] | None,
        typer.Option("--sts", metavar="FILE", help="Pairs of texts with a number: the score before and after."),
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option("--dimensions", metavar="N", help="Numbers a static vector; 256 unless told.")
    ] = None,
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    device: str = "auto",
) -> None:
    """Save a bundle in another form, with a certificate of what it costs.

    Graphs of ONNX and OpenVINO hold pooling, normalisation or head, take any batch and length, and are compared with
    the bundle before they are kept. A static export embeds tens of times faster and knows no context: "bank" is one
    vector everywhere. Exports open like bundles.

    $ anaume export my-bundle --to onnx -o my-bundle-onnx
    $ anaume export all-MiniLM-L6-v2 --to static -o static
    $ anaume export my-bundle --to static --texts tickets.csv --column body --sts dev.tsv -o static
    """
    from anaume.data import read_rows
    from anaume.data.labelled import read_texts
    from anaume.exporting.exporting import export_bundle

    certificate = export_bundle(
        open_bundle(bundle, device=device),
        out,
        to=to,
        dimensions=dimensions,
        texts=[row.text for row in read_rows(texts, **reading)] if texts else (),
        pairs=list(read_texts(sts, kind="number", paired=True)) if sts else (),
        overwrite=overwrite,
    )
    if as_json:
        say_json({"out": str(out), **certificate.to_dict()})
    else:
        _show_certificate(certificate, out)


def _show_certificate(certificate: Certificate, out: Path) -> None:
    facts([(name.replace("_", " "), value) for name, value in certificate.settings.items()])
    say()
    if certificate.graphs is not None:
        graphs = [
            (told["file"], len(told["shapes"]), f"{told['largest_difference']:.1e}", f"{told['bound']:.0e}")
            for told in certificate.graphs.values()
        ]
        table(("graph", "shapes", "largest difference", "bound"), graphs, right=("shapes",))
        say(f"written: {printable(str(out))}")
        return
    rows: list[tuple[str, str, str]] = []
    if (agreement := certificate.texts) is not None:
        on = f"{agreement.texts:,} held-out texts"
        rows += [("cosines of pairs, rank correlation with the encoder's", on, f"{agreement.cosines:.4f}")]
        rows += [("ten nearest, share the encoder names too", on, f"{agreement.neighbours:.4f}")]
    if (pairs := certificate.pairs) is not None:
        on = f"{pairs.pairs:,} pairs, Spearman"
        rows += [(name, on, f"{score:.4f}") for name, score in pairs.spearman.items()]
    if rows:
        table(("measured", "on", "value"), rows, right=("value",))
    else:
        say("loss: not measured; --texts FILE and --sts FILE say what to measure it on")
    say(f"written: {printable(str(out))}")
