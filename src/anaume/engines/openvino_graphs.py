"""The OpenVINO engine: a bundle's model as graphs on the CPU, made when first needed and kept on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anaume.config import EmbeddingConfig
from anaume.engines.graph_cache import cache_folder, cached, forget, keep
from anaume.engines.graph_engine import GraphEngine, Runner
from anaume.engines.graph_names import EMBED, graph_names
from anaume.engines.protocol import PRECISIONS, Precision
from anaume.engines.runners import FAST, OpenVinoRunner, Plan, has_openvino, openvino, openvino_core
from anaume.engines.torch_engine import TorchEngine
from anaume.engines.watching import Watch
from anaume.errors import BundleError, MissingExtra, SettingsError, nearest
from anaume.logs import get_logger
from anaume.model import Bert

log = get_logger(__name__)

_WRITTEN = 1
"""Counts up when graphs.py writes other graphs: older ones on disk are left alone then."""


def openvino_engine(
    model: Bert, embedding: EmbeddingConfig, *, precision: Precision = "float32", kept: KeptGraph | None = None
) -> GraphEngine:
    """Return an engine that runs a model by OpenVINO; nothing is compiled yet. Hidden states come from torch.

    kept  what `kept_graph` found: the weights are not hashed once more for it

    The model is never changed; trained in place, its graphs are made anew at the next batch. Raises SettingsError for
    an unknown precision, MissingExtra where OpenVINO is not installed.
    """
    if precision not in PRECISIONS:
        raise SettingsError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    if not has_openvino():
        raise MissingExtra("engine='openvino'", FAST)
    runner = CompiledGraphs(model, embedding, precision, kept).runner
    states = TorchEngine(model, embedding, precision=precision, device="cpu")
    return GraphEngine("openvino", precision, model.config, runner, states=states, plans=True)


@dataclasses.dataclass(frozen=True)
class KeptGraph:
    """The graph of a model's vectors on disk, and a watch over the weights that it holds."""

    path: Path
    watch: Watch


def kept_graph(model: Bert, embedding: EmbeddingConfig) -> KeptGraph | None:
    """Return the graph of a model's vectors if it is on disk (hashes the weights: 0.1 s for 22 M parameters)."""
    if not cache_folder().is_dir():
        return None
    watch = Watch(model)
    path = cached(graph_key(model, embedding, EMBED))
    return None if path is None else KeptGraph(path, watch)


def graph_key(model: Bert, embedding: EmbeddingConfig, name: str) -> str:
    """Return sha256 (hex) over everything that a graph holds, and the versions that wrote it."""
    told: dict[str, Any] = {
        "graph": name,
        "written": _WRITTEN,
        "openvino": version("openvino"),
        "encoder": model.config.to_dict(),
        "head": model.head_configs[name].to_dict() if name in model.head_configs else None,
        "embedding": [embedding.pooling, embedding.normalize, embedding.include_prompt] if name == EMBED else None,
    }
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for own, tensor in sorted(model.state_dict().items()):
        parts = own.split(".")
        if parts[0] == "heads" and parts[1] != name:
            continue
        values = tensor.detach().to("cpu").float().contiguous().numpy()
        digest.update(f"\n{own} {list(values.shape)}\n".encode())
        digest.update(values.astype("<f4", copy=False).data)
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class _Made:
    watch: Watch
    graphs: dict[str, Path | bytes]
    runners: dict[tuple[str, Plan, int], Runner]
    """By the process, too: a forked one has none of the threads of those that were made before."""


class CompiledGraphs:
    """The graphs of a model, each compiled once a plan, until the model's tensors change."""

    def __init__(
        self, model: Bert, embedding: EmbeddingConfig, precision: Precision, kept: KeptGraph | None = None
    ) -> None:
        self._model, self._embedding, self._precision = model, embedding, precision
        self._made: _Made | None = None if kept is None else _Made(kept.watch, {EMBED: kept.path}, {})
        self._lock = threading.Lock()  # two threads must not compile one graph twice

    def runner(self, name: str, plan: Plan) -> Runner:
        """Return what runs a graph. Raises SettingsError for a head that is not there."""
        with self._lock:
            if self._made is None or self._made.watch.changed():
                if self._made is not None:
                    log.info("the weights changed: their graphs are made anew")
                self._made = _Made(Watch(self._model), {}, {})
            made = self._made
            if name not in made.graphs:
                made.graphs[name] = self._graph(name)
            key = (name, plan, os.getpid())
            if key not in made.runners:
                made.runners[key] = self._compiled(made.graphs, name, plan)
            return made.runners[key]

    def _compiled(self, graphs: dict[str, Path | bytes], name: str, plan: Plan) -> Runner:
        """Compile a graph; one from disk that is damaged in spite of its right size is made anew."""
        graph = graphs[name]
        try:
            return OpenVinoRunner(graph, self._precision, plan)
        except BundleError:
            if not isinstance(graph, Path):
                raise
            forget(graph)
            graphs[name] = self._graph(name, anew=True)
            return OpenVinoRunner(graphs[name], self._precision, plan)

    def _graph(self, name: str, *, anew: bool = False) -> Path | bytes:
        """Return the graph as OpenVINO reads it: from disk, or as it was written where nothing can be kept."""
        names = graph_names(self._model)
        if name not in names:
            have = ", ".join(names[1:]) or "none"
            raise SettingsError(f"the model has no head called {name!r}{nearest(name, names)}; it has: {have}")
        key = graph_key(self._model, self._embedding, name)
        path = None if anew else cached(key)
        if path is not None:
            log.debug("graph %s: found as %s", name, key[:12])
            return path
        from anaume.engines.graphs import build_graph  # onnx comes in with it

        graph = build_graph(self._model, self._embedding, name, {})
        kept = keep(key, lambda place: _save(graph, place))
        log.debug("graph %s: made, %s", name, key[:12] if kept else "not kept")
        return kept or graph


def _save(graph: bytes, path: Path) -> None:
    """Write a serialised ONNX model as OpenVINO's own files, weights in float32."""
    openvino().save_model(openvino_core().read_model(model=graph), str(path), compress_to_fp16=False)
