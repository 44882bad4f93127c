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
from anaume.errors import SettingsError

if TYPE_CHECKING:
    from anaume.exporting.certificate import Certificate
    from anaume.exporting.importing import ImportReport
    from anaume.exporting.int8_certificate import Int8, Int8Bounds

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
    from anaume.exporting.google_names import OPTIMIZER_STATE

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
            if tensor.note != OPTIMIZER_STATE
        ]
        if left := len(report.tensors) - len(rows):
            rows.append((f"{left} more", "", "ignored", f"{OPTIMIZER_STATE}; --json names each"))
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
    int8: Annotated[
        bool, typer.Option("--int8", help="With --to openvino: text vectors in int8, too, within bounds.")
    ] = False,
    calibrate: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrate",
            metavar="FILE",
            help="For --int8, text of your domain (several may be given): half of it is held out for the certificate.",
        ),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="NAME=NUMBER",
            help="For --int8: mean=0.995 and minimum=0.98 cosine to float32, score=0.3 points lost (--sts).",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Keep int8 that is over a bound; the export says so for ever.")
    ] = False,
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

    int8 is calibrated on one half of your texts and measured on the other, held out: over a bound nothing is written.
    Layers that cost too much stay in higher precision. `anaume embed B8 ... --precision int8` takes it.

    $ anaume export my-bundle --to onnx -o my-bundle-onnx
    $ anaume export my-bundle --to openvino --int8 --calibrate texts.jsonl -o B8
    $ anaume export all-MiniLM-L6-v2 --to static -o static
    $ anaume export my-bundle --to static --texts tickets.csv --column body --sts dev.tsv -o static
    """
    from anaume.data import read_rows
    from anaume.data.labelled import read_texts
    from anaume.exporting.exporting import export_bundle

    if calibrate and not int8:
        raise SettingsError("--calibrate is for --int8; text for a static export is --texts")
    if texts and int8:
        raise SettingsError("--texts is for a static export; int8 has --calibrate")
    given = texts or calibrate
    certificate = export_bundle(
        open_bundle(bundle, device=device),
        out,
        to=to,
        dimensions=dimensions,
        texts=[row.text for row in read_rows(given, **reading)] if given else (),
        pairs=list(read_texts(sts, kind="number", paired=True)) if sts else (),
        int8=int8,
        bounds=_bounds(bound) if bound else None,
        force=force,
        overwrite=overwrite,
    )
    if as_json:
        say_json({"out": str(out), **certificate.to_dict()})
    else:
        _show_certificate(certificate, out)


def _bounds(given: list[str]) -> Int8Bounds:
    from anaume.exporting.int8_certificate import Int8Bounds

    known = [field.name for field in dataclasses.fields(Int8Bounds)]
    found: dict[str, float] = {}
    for assignment in given:
        name, _, number = assignment.partition("=")
        if name in found:
            raise SettingsError(f"--bound {name} is given twice: once {found[name]:g}, once {number}; give it once")
        try:
            found[name] = float(number)
        except ValueError:
            name = ""
        if name not in known:
            raise SettingsError(f"a bound is given as NAME=NUMBER, of {', '.join(known)}; got {assignment!r}")
    return Int8Bounds(**found)


def _show_certificate(certificate: Certificate, out: Path) -> None:
    from anaume.engines.graph_names import EMBED

    facts([(name.replace("_", " "), value) for name, value in certificate.settings.items()])
    say()
    if certificate.graphs is not None:
        graphs = [
            (told["file"], len(told["shapes"]), f"{told['largest_difference']:.1e}", f"{told['bound']:.0e}")
            for told in certificate.graphs.values()
        ]
        table(("graph", "shapes", "largest difference", "bound"), graphs, right=("shapes",))
        if certificate.int8 is not None:
            _show_int8(certificate.int8)
        say(f"written: {printable(str(out))}")
        if EMBED in certificate.graphs:
            precision = "" if certificate.int8 is None else " --precision int8"
            say(f"try: anaume embed {printable(str(out))} FILE -o vectors.npy{precision}")
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
        say("what it costs: not measured; --texts FILE and --sts FILE say what to measure it on")
    say(f"written: {printable(str(out))}")
    say(f"try: anaume embed {printable(str(out))} FILE -o vectors.npy")


def _show_int8(int8: Int8) -> None:
    """Print what int8 costs beside its bounds, and what it gives."""
    say()
    told = [
        ("int8", f"{int8.layers - len(int8.kept)} of {int8.layers} products, everything else in {int8.rest}"),
        ("kept out", ", ".join(int8.kept) or "none"),
        (
            "texts",
            f"{int8.given:,} given: of one half {int8.calibration:,} calibrated and {int8.choosing:,} chose layers; "
            f"of the other {int8.held_out:,} were measured",
        ),
    ]
    facts(told)
    say()
    bounds = int8.bounds
    rows: list[tuple[str, str, str]] = [
        ("cosine to float32, mean", f"{int8.mean:.5f}", f"at least {bounds.mean:g}"),
        ("cosine to float32, lowest", f"{int8.minimum:.5f}", f"at least {bounds.minimum:g}"),
        ("a text alone and in a batch, largest difference", f"{int8.alone:.1e}", ""),
        ("ten nearest, share float32 names too", f"{int8.neighbours:.4f}", ""),
        ("cosines of pairs, rank correlation with float32's", f"{int8.cosines:.4f}", ""),
    ]
    if (score := int8.score) is not None:
        for name, span in (("float32", score.float32), ("int8", score.int8)):
            between = f"({span.low:.4f} to {span.high:.4f})"
            rows.append((f"Spearman, {score.pairs:,} pairs, {name}", f"{span.mean:.4f} {between}", ""))
        gain = score.difference
        between = f"({100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
        rows.append(("points gained", f"{100 * gain.mean:+.2f} {between}", f"at least {-bounds.score:g}"))
    rows += [(f"texts/s, {name}", f"{rate:,.0f}", "") for name, rate in int8.texts_per_second.items()]
    table(("on held-out texts", "measured", "bound"), rows)
    if int8.over:
        say()
        say(f"OVER THE BOUND, forced: {'; '.join(int8.over)}")
