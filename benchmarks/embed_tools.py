"""Text -> vectors, by each tool that `benchmarks.embed` compares: one function a tool, which loads and returns `embed`.

This file and `embed_worker.py` run in the tools' own environments, so a tool is imported where it is used, and nothing
of anaume's but where anaume is the tool. Every tool is given the same checkpoint, cut at the same length, and gives
normalised float32 vectors in the order of the texts.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Embed = Callable[[list[str]], Any]
BATCH_SIZES = (8, 16, 32, 64, 128)
DEFAULT_BATCH = 32
FEW = 64
_SIZES = ", ".join(map(str, BATCH_SIZES))
TOKENS = 1024  # of a batch, where the batches are ours


# -- anaume ------------------------------------------------------------------------------------------------------------


def anaume(
    checkpoint: Path, models: Path, *, engine: str = "auto", precision: str = "float32", bundle: str | None = None
) -> Embed:
    """bundle  an export, in place of the checkpoint"""
    library: Any = importlib.import_module("anaume")
    opened = library.load(bundle or checkpoint, engine=engine, precision=precision, device="cpu")

    def embed(texts: list[str]) -> Any:
        return opened.embed(texts)

    def stream(file: str, to: str) -> None:
        importlib.import_module("anaume.jobs.embed").embed_file(opened, file, to, overwrite=True)

    embed.stream = stream  # type: ignore[attr-defined]  # how anaume embeds a file: chunk by chunk
    return embed


# -- sentence-transformers ---------------------------------------------------------------------------------------------


def sentence_transformers(
    checkpoint: Path,
    models: Path,
    *,
    backend: str = "torch",
    precision: str = "float32",
    batch_size: int | None = DEFAULT_BATCH,
    file: str | None = None,
) -> Embed:
    """batch_size None = the fastest of `BATCH_SIZES`, chosen for each mix of more than `FEW` texts on 256 of them."""
    library = importlib.import_module("sentence_transformers")
    options: dict[str, Any] = {}
    where = checkpoint
    if backend == "torch":
        options["dtype"] = getattr(importlib.import_module("torch"), precision)
    else:
        where = exported(checkpoint, models, backend)
    if backend == "openvino":
        options["ov_config"] = {"INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision]}
    if backend == "onnx":
        options["provider"] = "CPUExecutionProvider"
        if file is not None:
            options["file_name"] = quantised(where, file)
    model = library.SentenceTransformer(str(where), device="cpu", backend=backend, model_kwargs=options)
    chosen: dict[int, int] = {}

    def embed(texts: list[str]) -> Any:
        size = batch_size or chosen.get(len(texts), DEFAULT_BATCH)
        if batch_size is None and len(texts) > FEW and len(texts) not in chosen:
            size = chosen[len(texts)] = _best_batch(model, texts[:256])
            notes.append(f"{len(texts):,} texts in batches of {size}, the fastest of {_SIZES}")
        vectors = model.encode(texts, batch_size=size, show_progress_bar=False, normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32)

    return embed


notes: list[str] = []
"""What a tool chose by itself, for the page."""


def _best_batch(model: Any, texts: list[str]) -> int:
    taken: dict[int, float] = {}
    for round_ in range(3):
        for size in BATCH_SIZES:
            start = time.perf_counter()
            model.encode(texts, batch_size=size, show_progress_bar=False)
            if round_:  # the first is the warm-up
                taken[size] = min(taken.get(size, float("inf")), time.perf_counter() - start)
    return min(taken, key=lambda size: taken[size])


def exported(checkpoint: Path, models: Path, backend: str) -> Path:
    """sentence-transformers' own export of the checkpoint, made once."""
    place = models / backend
    if not (place / "modules.json").exists():
        library = importlib.import_module("sentence_transformers")
        library.SentenceTransformer(str(checkpoint), device="cpu", backend=backend).save_pretrained(str(place))
    return place


def quantised(place: Path, file: str) -> str:
    """sentence-transformers' own dynamic int8 form of its ONNX export, made once."""
    if not (place / file).exists():
        library = importlib.import_module("sentence_transformers")
        backend = importlib.import_module("sentence_transformers.backend")
        model = library.SentenceTransformer(str(place), device="cpu", backend="onnx")
        backend.export_dynamic_quantized_onnx_model(model, "avx512_vnni", str(place))
    return file


# -- engines with batches of ours --------------------------------------------------------------------------------------


def openvino_direct(checkpoint: Path, models: Path, *, precision: str = "float32") -> Embed:
    """What somebody writes who knows OpenVINO: batches by tokens, the hint for latency; Optimum's graph."""
    openvino: Any = importlib.import_module("openvino")
    graph = exported(checkpoint, models, "openvino") / "openvino" / "openvino_model.xml"
    hints = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(str(graph), "CPU", hints)
    names = {port.get_any_name() for port in compiled.inputs}
    request = compiled.create_infer_request()

    def run(ids: Any, mask: Any) -> Any:
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return request.infer({name: given[name] for name in names}, share_inputs=True, share_outputs=True)[0]

    return _batched(checkpoint, run)


def ctranslate2(checkpoint: Path, models: Path, *, compute_type: str = "float32") -> Embed:
    library: Any = importlib.import_module("ctranslate2")
    place = models / "ctranslate2"
    if not (place / "model.bin").exists():
        library.converters.TransformersConverter(str(checkpoint)).convert(str(place), force=True)
    encoder = library.Encoder(str(place), device="cpu", compute_type=compute_type, intra_threads=os.cpu_count() or 1)

    def run(ids: Any, mask: Any) -> Any:
        rows = [row[:length].tolist() for row, length in zip(ids, mask.sum(axis=1), strict=True)]
        return np.array(encoder.forward_batch(rows).last_hidden_state.to(library.DataType.float32))

    return _batched(checkpoint, run)


def onnxruntime_int8(checkpoint: Path, models: Path) -> Embed:
    runtime: Any = importlib.import_module("onnxruntime")
    place = exported(checkpoint, models, "onnx") / "onnx"
    file = place / "model_int8.onnx"
    if not file.exists():
        tools = importlib.import_module("onnxruntime.quantization")
        tools.quantize_dynamic(str(place / "model.onnx"), str(file), weight_type=tools.QuantType.QInt8)
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]

    def run(ids: Any, mask: Any) -> Any:
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return session.run(None, {name: given[name] for name in names})[0]

    return _batched(checkpoint, run)


def _batched(checkpoint: Path, run: Callable[[Any, Any], Any]) -> Embed:
    """Tokens, length-sorted batches of at most `TOKENS`, the mean over real tokens, length 1."""
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length(checkpoint))

    def embed(texts: list[str]) -> Any:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        vectors: Any = None
        for places in _by_length(rows):
            longest = len(rows[places[0]])
            ids = np.zeros((len(places), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(places):
                ids[row, : len(rows[place])] = rows[place]
                mask[row, : len(rows[place])] = 1
            states = run(ids, mask)
            means = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            if vectors is None:
                vectors = np.empty((len(texts), means.shape[1]), dtype=np.float32)
            vectors[places] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    return embed


def _by_length(rows: list[list[int]]) -> Iterator[list[int]]:
    order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
    while order:
        count = max(1, TOKENS // len(rows[order[0]]))
        yield order[:count]
        order = order[count:]


# -- servers and wrappers ----------------------------------------------------------------------------------------------


def fastembed(checkpoint: Path, models: Path) -> Embed:
    library: Any = importlib.import_module("fastembed")
    described: Any = importlib.import_module("fastembed.common.model_description")
    place = models / "onnx"
    if not (place / "onnx" / "model.onnx").exists():
        raise FileNotFoundError("the ONNX export that sentence-transformers makes is not there; its row runs first")
    name = "benchmarks/checkpoint"
    library.TextEmbedding.add_custom_model(
        model=name,
        pooling=described.PoolingType.MEAN,
        normalization=True,
        sources=described.ModelSource(hf=name),
        dim=384,
        model_file="onnx/model.onnx",
    )
    model = library.TextEmbedding(model_name=name, specific_model_path=str(place), threads=os.cpu_count())
    return lambda texts: np.array(list(model.embed(texts)), dtype=np.float32)


def infinity(checkpoint: Path, models: Path) -> Embed:
    library: Any = importlib.import_module("infinity_emb")
    arguments = library.EngineArgs(
        model_name_or_path=str(checkpoint), engine="torch", device="cpu", dtype="float32", bettertransformer=False
    )
    engines = library.SyncEngineArray.from_args([arguments])

    def embed(texts: list[str]) -> Any:
        vectors, _ = engines.embed(model=str(checkpoint), sentences=texts).result()
        return np.array(vectors, dtype=np.float32)

    return embed


def max_length(checkpoint: Path) -> int:
    """Where every tool cuts: what the checkpoint's own settings say."""
    import json

    length: int = json.loads((checkpoint / "sentence_bert_config.json").read_text("utf-8"))["max_seq_length"]
    return length
