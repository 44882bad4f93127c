"""Exports on disk: bundle directories that hold a graph or a table in place of a model's weights.

`anaume.json` is that of a bundle (encoder, heads, tasks, embedding, tokenizer, fingerprints), with one key more,
`export`: which form, how long its vectors are, which file holds what. `certificate.json` says how far its answers are
from those of the bundle it was made of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anaume import __version__
from anaume.bundle import format as manifest_format
from anaume.bundle.directory import save_directory
from anaume.bundle.exported import FORMS, Exported
from anaume.bundle.files import inside, json_text, read_object, write_text
from anaume.bundle.fingerprint import vector_fingerprint
from anaume.bundle.parts import BundleParts, Fingerprints
from anaume.bundle.weights import read_safetensors
from anaume.config import EncoderConfig, HeadConfig
from anaume.errors import BundleError
from anaume.model import Bert

if TYPE_CHECKING:
    from anaume.tokenization import Tokenizer

CERTIFICATE = "certificate.json"
TABLE_FILE, TABLE = "model.safetensors", "embedding.weight"


def shape_only(encoder: EncoderConfig, heads: Mapping[str, HeadConfig]) -> Bert:
    """Return the model an export was made of without its weights: settings and shapes, no storage."""
    with torch.device("meta"):
        return Bert(encoder, heads)


def read_export(directory: Path, manifest: manifest_format.Manifest, tokenizer: Tokenizer, card: str) -> BundleParts:
    """Read what `write_export` wrote; files, tokenizer and fingerprints were checked before."""
    assert manifest.export is not None
    exported = _read_exported(manifest.export, manifest.fingerprints.weights, directory)
    if exported.table is not None and len(exported.table) != tokenizer.vocab_size:
        raise BundleError(
            f"{directory / TABLE_FILE}: {len(exported.table)} rows, and the vocabulary has {tokenizer.vocab_size}"
        )
    over = f"its int8 vectors are over their bounds, and were forced: {exported.over}"
    return BundleParts(
        tokenizer=tokenizer,
        model=shape_only(manifest.encoder, manifest.heads),
        embedding=manifest.embedding,
        record=manifest.training,
        tasks=manifest.tasks,
        source=str(directory),
        notes=(over,) if exported.over else (),
        fingerprints=manifest.fingerprints,
        card=card,
        exported=exported,
    )


def write_export(
    parts: BundleParts,
    path: str | Path,
    write: Callable[[Path], tuple[list[str], Mapping[str, Any]]],
    check: Callable[[Path], None] | None = None,
) -> None:
    """Save an export as a directory: whole, or nothing.

    parts  with `exported`, which says what the files are
    write  fills a directory with them and returns their names and the certificate; tokenizer, card and anaume.json are
           added
    check  is given the finished directory before it takes its place

    What either raises leaves nothing behind.

    Raises BundleError as `save_directory` does.
    """
    exported = parts.exported
    assert exported is not None
    fingerprints = Fingerprints(
        tokenizer=parts.tokenizer.fingerprint,
        weights=exported.weights,
        vector=vector_fingerprint(parts.tokenizer, exported.weights, parts.embedding),
    )

    def fill(directory: Path) -> None:
        longest = None if exported.form == "static" else parts.embedding.max_length
        names = parts.tokenizer.save(directory, max_length=longest)
        written, certificate = write(directory)
        names += [*written, CERTIFICATE]
        write_text(directory / CERTIFICATE, json_text(certificate))
        write_text(directory / manifest_format.CARD, _card(parts, exported, fingerprints))
        manifest = manifest_format.Manifest(
            anaume_version=__version__,
            fingerprints=fingerprints,
            files=manifest_format.describe_files(directory, [*names, manifest_format.CARD]),
            rules=parts.tokenizer.rules,
            vocab_size=parts.tokenizer.vocab_size,
            vocab_checks=manifest_format.vocab_checks(parts.tokenizer.vocab),
            encoder=parts.model.config,
            heads=parts.model.head_configs,
            embedding=parts.embedding,
            training=parts.record,
            tasks=dict(parts.tasks),
            export=exported.to_dict(),
        )
        write_text(directory / manifest_format.FILE, json_text(manifest.to_dict()))
        if check is not None:
            check(directory)

    save_directory(path, fill)


def _read_exported(told: Mapping[str, Any], weights: str, directory: Path) -> Exported:
    """Return the export in a directory. Raises BundleError for what is none, or a form that is unknown here."""
    where = directory / manifest_format.FILE
    if told.get("form") not in FORMS:
        raise BundleError(f"{where}: an export of the form {told.get('form')!r}; anaume reads {', '.join(FORMS)}")
    size, graphs, int8 = told.get("embedding_size"), told.get("graphs"), told.get("int8", {})
    if type(size) is not int or not isinstance(graphs, dict) or not isinstance(int8, dict):
        raise BundleError(f"{where}: export needs embedding_size, a whole number, and graphs (and int8), objects")
    for name in (*graphs.values(), *int8.values()):
        inside(directory, name, where)
    certificate = read_object(directory / CERTIFICATE)
    exported = Exported(
        form=told["form"],
        embedding_size=size,
        weights=weights,
        graphs=graphs,
        certificate=certificate,
        int8=int8,
        directory=directory,
    )
    return dataclasses.replace(exported, table=_table(directory, size)) if exported.form == "static" else exported


def _table(directory: Path, size: int) -> Tensor:
    tensors = read_safetensors(directory / TABLE_FILE)
    table = tensors.get(TABLE)
    if tensors.keys() != {TABLE} or table is None or table.dim() != 2 or table.shape[1] != size:
        there = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
        raise BundleError(f"{directory / TABLE_FILE}: expected {TABLE} of {size} columns; got {there or 'nothing'}")
    if not bool(torch.isfinite(table).all()):
        raise BundleError(f"{directory / TABLE_FILE}: holds NaN or infinite values; export it anew")
    return table.float()


def _card(parts: BundleParts, exported: Exported, fingerprints: Fingerprints) -> str:
    """Return README.md: what this is, and where it stands against the bundle it was made of."""
    library = {"static": "sentence-transformers", "onnx": "onnx", "openvino": "openvino"}[exported.form]
    what = {
        "static": "Static vectors: one a token, distilled from an encoder; a text's is their sum, of length 1",
        "onnx": "A BERT encoder as ONNX graphs, pooling, normalisation and heads inside",
        "openvino": "A BERT encoder as OpenVINO graphs, pooling, normalisation and heads inside",
    }[exported.form]
    lines = ["---", f"library_name: {library}", "tags:", "- anaume", "---", "", f"# An anaume export: {exported.form}"]
    lines += ["", f"{what}. `anaume.load` opens it; `{CERTIFICATE}` says how far its answers are from the encoder's."]
    lines += [f"- {name}: `{file}`" for name, file in exported.graphs.items()]
    lines += ["", f"- tokenizer `{fingerprints.tokenizer}`", f"- weights `{fingerprints.weights}`"]
    return "\n".join([*lines, f"- vectors `{fingerprints.vector}`", ""])
