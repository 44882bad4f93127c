"""A bundle as graphs of ONNX or OpenVINO, each compared with the bundle over a spread of shapes before it is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from anaume import __version__
from anaume.bundle import Bundle
from anaume.bundle.exported import Exported
from anaume.bundle.exported_engines import graph_runner
from anaume.bundle.exported_files import shape_only, write_export
from anaume.bundle.fingerprint import weights_fingerprint
from anaume.config import EmbeddingConfig
from anaume.engines import EMBED, Batch, Engine, GraphEngine, TorchEngine, graph_names
from anaume.engines.runners import FAST, ONNX, openvino, openvino_core
from anaume.errors import BundleError, MissingExtra, SettingsError
from anaume.exporting.certificate import Certificate
from anaume.exporting.int8 import Int8Wanted, certify, split_texts
from anaume.exporting.int8_layers import Int8Maker
from anaume.exporting.quantizing import layers_in_int8, nncf
from anaume.model import Bert

BATCHES, LENGTHS = (1, 3, 17), (1, 2, 7)
"""Shapes that a graph is run at, besides the longest row and the one before."""
VECTORS_BOUND, LOGITS_BOUND = 1e-5, 1e-4
"""Largest difference from the bundle, times max(1, largest magnitude)."""

INT8_FILE = "vectors-int8.xml"

Form = Literal["onnx", "openvino"]


def export_graphs(bundle: Bundle, out: str | Path, form: Form, int8: Int8Wanted | None = None) -> Certificate:
    """Save a bundle as graphs, the directory `out`: its text vectors and every head, one file each.

    Pooling, normalisation and head are inside the graph; batch and length are free; rows are padded. Where no pooling
    is stored and there are heads, they alone are exported. Each graph is run over a spread of shapes, padded rows among
    them, and compared with the bundle: one that is off fails the export, and nothing is left.

    int8  what text vectors are also kept in int8 with, beside the others (OpenVINO)

    Raises MissingExtra, SettingsError for texts that are too few, BundleError for a graph that is off, int8 over its
    bounds, and a place where nothing can be saved.
    """
    if form == "openvino":
        openvino_core()
    build, save = _builder(form), _SAVERS[form]
    names = graph_names(bundle.model)
    if bundle.embedding.pooling is None and len(names) > 1:
        names.remove(EMBED)
    split = None if int8 is None else split_texts(int8.texts)
    if split is not None:
        nncf()  # a missing extra is said before any work
        if EMBED not in names:
            raise SettingsError("int8 is for text vectors, and this bundle has heads alone (no pooling was stored)")
    files = {name: _file(name, number, form) for number, name in enumerate(names)}
    weights = weights_fingerprint(bundle.model)
    exported = Exported(
        form=form,
        embedding_size=bundle.config.hidden_size,
        weights=weights,
        graphs=files,
        certificate={},
        int8={} if int8 is None else {EMBED: INT8_FILE},
    )
    parts = replace(
        bundle.parts,
        model=shape_only(bundle.config, bundle.model.head_configs),
        exported=exported,
        source="",
        notes=(),
        report=None,
        fingerprints=None,
        card="",
    )
    made: list[Certificate] = []

    def write(directory: Path) -> tuple[list[str], Mapping[str, Any]]:
        there = replace(exported, directory=directory)
        engine = GraphEngine(form, "float32", bundle.config, graph_runner(there, "float32"))
        graphs, written = {}, []
        for name, file in files.items():
            told = {
                "anaume.version": __version__,
                "anaume.graph": name,
                "anaume.vector_fingerprint": bundle.fingerprint,
                "anaume.weights_fingerprint": weights,
                "anaume.tokenizer_fingerprint": bundle.tokenizer.fingerprint,
            }
            written += save(build(bundle.model, bundle.embedding, name, told), directory / file, told)
            graphs[name] = _compared(bundle, engine, name, file)
        certificate = Certificate(form=form, made_from=bundle.fingerprint, settings={"form": form}, graphs=graphs)
        if int8 is not None and split is not None:
            graph = build(bundle.model, bundle.embedding, EMBED, {})
            maker = Int8Maker(bundle, graph, split.calibration, split.choosing, int8.bounds)
            model, kept = maker.make(force=int8.force)
            written += _save_model(model, directory / INT8_FILE, {**told, "anaume.graph": EMBED})
            found = certify(replace(parts, exported=there), split, int8, len(layers_in_int8(model)) + len(kept), kept)
            if found.over and not int8.force:
                raise BundleError(
                    f"int8 is over its bounds on {found.held_out:,} held-out texts ({'; '.join(found.over)}): nothing "
                    "was exported. Calibrate with more texts, or set wider bounds (--bound); force=True (--force) "
                    "keeps it as it is, and the export says so for ever"
                )
            certificate = replace(certificate, int8=found)
        made.append(certificate)
        return written, made[0].to_dict()

    write_export(parts, out, write)
    return made[0]


def _builder(form: Form) -> Callable[[Bert, EmbeddingConfig, str, Mapping[str, str]], bytes]:
    try:
        from anaume.engines.graphs import build_graph
    except ImportError:
        raise MissingExtra(f"an export to {form}", ONNX if form == "onnx" else FAST) from None
    return build_graph


def _save_onnx(graph: bytes, path: Path, told: Mapping[str, str]) -> list[str]:
    path.write_bytes(graph)
    return [path.name]


def _save_openvino(graph: bytes, path: Path, told: Mapping[str, str]) -> list[str]:
    return _save_model(openvino_core().read_model(model=graph), path, told)


def _save_model(model: Any, path: Path, told: Mapping[str, str]) -> list[str]:
    for key, value in told.items():
        model.set_rt_info(value, key.split("."))
    openvino().save_model(model, str(path), compress_to_fp16=False)
    return [path.name, path.with_suffix(".bin").name]


_SAVERS: Mapping[Form, Callable[[bytes, Path, Mapping[str, str]], list[str]]] = {
    "onnx": _save_onnx,
    "openvino": _save_openvino,
}


def _file(name: str, number: int, form: Form) -> str:
    """Return a graph's file: by the head's name where that is a plain word, else by its number."""
    ending = ".onnx" if form == "onnx" else ".xml"
    plain = name if re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name) else str(number)
    return f"vectors{ending}" if name == EMBED else f"head-{plain}{ending}"


def _compared(bundle: Bundle, engine: Engine, name: str, file: str) -> dict[str, Any]:
    """Return how far a graph is from the bundle's model. Raises BundleError where that is too far."""
    reference = TorchEngine(bundle.model, bundle.embedding, device="cpu")
    worst, shapes = 0.0, []
    longest = bundle.config.max_position_embeddings
    bound = VECTORS_BOUND if name == EMBED else LOGITS_BOUND
    lengths = dict.fromkeys(length for length in (*LENGTHS, longest - 1, longest) if 1 <= length <= longest)
    for rows in BATCHES:
        for length in lengths:
            batch = _sample(bundle, rows, length, masked=name == EMBED and not bundle.embedding.include_prompt)
            wanted, got = (
                own.embed(batch) if name == EMBED else own.head_logits(batch, name) for own in (reference, engine)
            )
            if got.shape != wanted.shape:
                raise BundleError(f"{file}: gives {got.shape} for {rows} x {length} tokens, the bundle {wanted.shape}")
            if wanted.ndim == 3:  # nobody reads what stands in padding
                wanted, got = (own[batch.attention_mask] for own in (wanted, got))
            off = float(np.abs(got - wanted).max() / max(1.0, np.abs(wanted).max()))
            worst = max(worst, off) if np.isfinite(off) else float("inf")
            shapes.append([rows, length])
            if not worst <= bound:
                raise BundleError(
                    f"{file}: differs from the bundle by {worst:.1e} for {rows} x {length} tokens, and {bound:.0e} is "
                    "the bound: nothing was exported"
                )
    return {"file": file, "largest_difference": worst, "bound": bound, "shapes": shapes}


def _sample(bundle: Bundle, rows: int, length: int, *, masked: bool) -> Batch:
    """Return a batch of random tokens whose rows are padded on the right, the first one not."""
    generator = np.random.default_rng((rows, length))
    config = bundle.config
    lengths = np.maximum(1, length - np.arange(rows) * length // (rows + 1))
    mask = np.arange(length) < lengths[:, None]
    token_ids = np.where(mask, generator.integers(0, config.vocab_size, (rows, length)), bundle.tokenizer.pad_id)
    segments = np.where(np.arange(length) > length // 2, config.segment_vocab_size - 1, 0) * mask
    pooled = mask & ((np.arange(length) > 0) | (lengths[:, None] == 1)) if masked else None
    return Batch(token_ids, mask, segments, pooling_mask=pooled)
