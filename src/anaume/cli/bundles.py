"""What a bundle is and whether it keeps its promises: `anaume info`, `anaume verify`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import clipped, facts, megabytes, printable, say, say_json, table
from anaume.cli.running import FAILED, command

if TYPE_CHECKING:
    from anaume.bundle import Bundle
    from anaume.checks import VerifyReport


CELL = 44
"""Characters of a measured value or a bound that the table of `verify` shows."""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    command(app, "info")(_info)
    command(app, "verify")(_verify)


def _info(bundle: options.BundleArg, as_json: options.Json = False, device: str = "auto") -> None:
    """Say what a bundle is, holds and was trained for.

    Parts and sizes, pooling and prompts, fingerprints, files, and what its tokenizer can and can't do.

    $ anaume info all-MiniLM-L6-v2
    $ anaume info my-bundle --json
    """
    record = _describe(open_bundle(bundle, device=device))
    if as_json:
        say_json(record)
    else:
        _show_info(record)


def _describe(bundle: Bundle) -> dict[str, Any]:
    from anaume.bundle.fingerprint import vector_fingerprint, weights_fingerprint
    from anaume.inspection import measure_sizes

    parts, config, embedding, exported = bundle.parts, bundle.config, bundle.embedding, bundle.exported
    sizes = measure_sizes(parts.model, parts.source)
    if exported is not None and exported.table is not None:
        sizes = dataclasses.replace(sizes, parts={"token_embeddings": exported.table.numel()})
    weights = weights_fingerprint(bundle.model) if exported is None else exported.weights
    check = bundle.tokenizer.self_check
    return {
        "source": parts.source,
        "export": None if exported is None else {**exported.to_dict(), "certificate": dict(exported.certificate)},
        "encoder": config.to_dict(),
        "parameters": sizes.parameters,
        "parts": dict(sizes.parts),
        "embedding_share": sizes.embedding_share,
        "memory_float32": sizes.memory(),
        "weights_dtype": parts.weights_dtype,
        "tokenizer": {"vocab_size": bundle.tokenizer.vocab_size, "rules": bundle.tokenizer.rules.to_dict()},
        "embedding": embedding.to_dict(),
        "embedding_size": bundle.embedding_size,
        "heads": {name: head.to_dict() for name, head in parts.model.head_configs.items()},
        "objectives": list(parts.record.objectives),
        "training": parts.record.to_dict()["stages"],
        "fingerprints": {
            "tokenizer": bundle.tokenizer.fingerprint,
            "weights": weights,
            "vector": vector_fingerprint(bundle.tokenizer, weights, embedding),
        },
        "files": _files(parts.source),
        "self_check": [{"severity": found.severity, "sentence": found.sentence} for found in check.findings],
        "load": parts.report.lines() if parts.report is not None else [],
        "notes": list(parts.notes),
    }


def _files(source: str) -> list[dict[str, Any]]:
    folder = Path(source)
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if source else []
    return [{"name": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size} for path in found]


def _show_info(record: dict[str, Any]) -> None:
    encoder, embedding, rules = record["encoder"], record["embedding"], record["tokenizer"]["rules"]
    facts(
        [
            ("bundle", record["source"]),
            *_export_facts(record["export"]),
            (
                "encoder",
                f"{encoder['num_hidden_layers']} layers x {encoder['hidden_size']}, "
                f"{encoder['num_attention_heads']} heads, feed-forward {encoder['intermediate_size']}, "
                f"{encoder['max_position_embeddings']} positions{', causal' if encoder['causal'] else ''}",
            ),
            ("parameters", f"{record['parameters']:,}, {megabytes(record['memory_float32'])} in float32"),
            ("stored as", record["weights_dtype"]),
            ("tokenizer", f"{record['tokenizer']['vocab_size']:,} entries; {_rules(rules)}"),
            ("heads", ", ".join(f"{name} ({head['kind']})" for name, head in record["heads"].items()) or "none"),
            ("trained for", ", ".join(record["objectives"]) or "nothing yet: freshly drawn weights"),
            *_embedding_facts(embedding, record["embedding_size"]),
        ]
    )
    say()
    table(
        ("part", "parameters", "share"),
        [(name, f"{count:,}", f"{count / record['parameters']:.1%}") for name, count in record["parts"].items()],
        right=("parameters", "share"),
    )
    say()
    table(("fingerprint of", "sha256"), [(name, value) for name, value in record["fingerprints"].items()])
    say()
    table(("file", "bytes"), [(f["name"], f"{f['bytes']:,}") for f in record["files"]], right=("bytes",))
    remarks = [("check", found["sentence"], found["severity"]) for found in record["self_check"]]
    remarks += [(kind, line, "info") for kind, key in (("load", "load"), ("note", "notes")) for line in record[key]]
    if remarks:
        say()
    for kind, sentence, severity in remarks:
        say(f"{kind}: {'WARNING: ' if severity == 'warning' else ''}{printable(sentence)}")


def _export_facts(export: dict[str, Any] | None) -> list[tuple[str, str]]:
    if export is None:
        return []
    what = "one vector a token, no encoder; made of the one below" if export["form"] == "static" else "graphs"
    told = [("export", f"{export['form']}: {what}")]
    if int8 := export["certificate"].get("int8"):
        kept = f"{int8['layers'] - len(int8['kept'])} of {int8['layers']} products"
        cost = f"cosine to float32 {int8['mean']:.4f}, lowest {int8['minimum']:.4f} on {int8['held_out']:,} texts"
        told.append(("int8", f"{kept}; {cost}{'; OVER ITS BOUNDS, forced' if int8['over'] else ''}"))
    return told


def _rules(rules: dict[str, Any]) -> str:
    switches = [name for name in ("lower_case", "strip_accents", "split_cjk", "nfkc") if rules[name]]
    return f"{rules['words']} words, {rules['subwords']}; {', '.join(switches) or 'case and accents kept'}"


def _embedding_facts(embedding: dict[str, Any], size: int) -> list[tuple[str, str]]:
    pooling = embedding["pooling"] or "none stored: mean is used, untrained for similarity"
    ending = ", scaled to length 1" if embedding["normalize"] else ""
    prompts = [f"{name} {text!r}" for name, text in embedding["prompts"].items()]
    default = f"; unless asked, {embedding['default_prompt']}" if embedding["default_prompt"] else ""
    return [
        ("pooling", f"{pooling}{ending}; {size} numbers a text"),
        ("max_length", f"{embedding['max_length']} tokens"),
        ("prompts", ", ".join(prompts) + default if prompts else "none"),
        ("similarity", embedding["similarity"]),
    ]


def _verify(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A bundle (a directory or a name), or the folder of a run.", show_default=False
        ),
    ],
    as_json: options.Json = False,
    device: str = "auto",
    verbose: bool = False,
) -> None:
    """Check the promises on a bundle or a training run, with numbers.

    Of a run, a few steps are trained again in a temporary folder: uninterrupted, and killed and resumed. The exit code
    is 1 if one fails. What needs a library that is not installed is "not checked", which is no failure.

    $ anaume verify my-bundle
    $ anaume verify run --json
    """
    from anaume.checks import verify_bundle, verify_run

    if (Path(what) / "settings.toml").is_file():
        report = verify_run(what)
    else:
        report = verify_bundle(open_bundle(what, device=device))
    if as_json:
        say_json(_verify_record(report))
    else:
        _show_verify(report, None if verbose else CELL)
    if not report.ok:
        raise typer.Exit(FAILED)


def _verify_record(report: VerifyReport) -> dict[str, Any]:
    rows = [
        {
            "promise": row.promise,
            "check": row.what,
            "measured": row.measured,
            "bound": row.bound,
            "status": row.status,
            "hint": row.hint,
        }
        for row in report.rows
    ]
    return {"ok": report.ok, "checks": rows}


def _show_verify(report: VerifyReport, width: int | None) -> None:
    """Print a row a check; what is longer than `width` is cut, in sight (None: nothing is)."""
    rows = [
        (row.promise, row.status, row.what, clipped(row.measured, width), clipped(row.bound, width))
        for row in report.rows
    ]
    table(("promise", "result", "check", "measured", "bound"), rows, right=("promise",))
    for row in report.rows:
        if row.hint and row.status != "ok":
            say(f"{row.status}: {printable(row.what)}: {printable(row.hint)}")
    failed = sum(row.status == "failed" for row in report.rows)
    kept = sum(row.status == "ok" for row in report.rows)
    whole = "" if width is None else "; -v shows long cells whole"
    say(f"{kept} kept, {failed} failed, {len(report.rows) - kept - failed} not checked{whole}")
