"""The rows of `benchmarks.embed`, what is left out and why, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anaume.engines import Precision

HERE = ""
"""The environment that the benchmark itself runs in."""
ST, ST_ONNX = "sentence-transformers", "sentence-transformers-onnx"


@dataclass(frozen=True)
class Row:
    """One tool with its settings."""

    name: str
    tool: str
    """A function of `embed_tools`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: str = HERE
    precision: Precision | None = "float32"
    """Whose matrix rate it is measured against; None = int8, which has none here."""
    cold: bool = False
    """Whether its time from process start to first vector is measured."""
    stream: bool = False
    """Whether its memory over many texts is measured."""


def _anaume(engine: str, precision: Precision, **more: Any) -> Row:
    name = "anaume" if engine == "auto" else f"anaume, {engine}"
    return Row(f"{name}, {precision}", "anaume", {"engine": engine, "precision": precision}, HERE, precision, **more)


def _transformers(
    name: str,
    environment: str = ST,
    precision: Precision | None = "float32",
    *,
    options: Mapping[str, Any],
    **more: Any,
) -> Row:
    return Row(f"{ST}, {name}", "sentence_transformers", options, environment, precision, **more)


OURS, OURS16 = _anaume("auto", "float32", cold=True), _anaume("auto", "bfloat16", cold=True, stream=True)
DEFAULT = _transformers("torch, float32 (default)", options={}, cold=True)
BEST16 = (
    _transformers(
        "torch, bfloat16", precision="bfloat16", options={"precision": "bfloat16", "batch_size": None}, stream=True
    ),
    _transformers(
        "OpenVINO, bfloat16",
        precision="bfloat16",
        options={"backend": "openvino", "precision": "bfloat16", "batch_size": None},
    ),
)
DIRECT: dict[Precision, Row] = {
    precision: Row(
        f"OpenVINO directly, {precision}", "openvino_direct", {"precision": precision}, ST, precision, cold=True
    )
    for precision in ("float32", "bfloat16")
}  # type: ignore[assignment]
INT8 = "anaume, int8"
ROWS: tuple[Row, ...] = (
    OURS,
    OURS16,
    _anaume("torch", "float32", cold=True),
    _anaume("torch", "bfloat16"),
    DEFAULT,
    _transformers("OpenVINO, float32", options={"backend": "openvino"}, cold=True),
    *BEST16,
    *DIRECT.values(),
    _transformers("ONNX, float32", ST_ONNX, options={"backend": "onnx"}),
    _transformers(
        "ONNX, int8 (dynamic)",
        ST_ONNX,
        None,
        options={"backend": "onnx", "file": "onnx/model_qint8_avx512_vnni.onnx"},
    ),
    Row("ONNX Runtime, int8 (dynamic), batches of ours", "onnxruntime_int8", {}, ST_ONNX, None),
    Row("CTranslate2, float32, batches of ours", "ctranslate2", {}, ST, cold=True),
    Row("CTranslate2, bfloat16, batches of ours", "ctranslate2", {"compute_type": "bfloat16"}, ST, "bfloat16"),
    Row("CTranslate2, int8, batches of ours", "ctranslate2", {"compute_type": "int8"}, ST, None),
    Row("fastembed, float32", "fastembed", {}, "fastembed"),
    Row("infinity, torch, float32", "infinity", {}, "infinity"),
)
LEFT_OUT = {
    "llama.cpp": "no wheel in the registry, it is built from source; and it takes GGUF files, made by a converter that "
    "comes with its source alone",
}
QUICK = (OURS, DEFAULT)


def int8_row(bundle: str) -> Row:
    """Our row of an export with --int8, which is a directory of its own."""
    return Row(INT8, "anaume", {"precision": "int8", "bundle": bundle}, HERE, None, cold=True)
