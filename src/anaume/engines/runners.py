"""The libraries that run a graph: OpenVINO and ONNX Runtime, each imported when it is first needed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from anaume.engines.hardware import has_bfloat16
from anaume.engines.protocol import Precision, Vectors
from anaume.errors import BundleError, MissingExtra

FAST, ONNX = "fast", "onnx"  # extras

Plan = Literal["alone", "many"]
"""A batch alone has all threads, which wait for each other at every layer; of many, each has one or a few threads."""


def has_openvino() -> bool:
    """Return whether OpenVINO and what writes its graphs are installed; imports neither."""
    return all(importlib.util.find_spec(name) is not None for name in ("openvino", "onnx"))


@cache
def openvino() -> Any:
    """Return the module openvino, imported without its telemetry. Raises MissingExtra."""
    return without_telemetry("openvino", "OpenVINO")


def without_telemetry(module: str, what: str) -> Any:
    """Import a library of OpenVINO's makers without its telemetry. Raises MissingExtra, which names `what`.

    Left to itself the import sends its makers a word over the network, from a forked process: nobody who embeds a text
    asked for either. Without openvino_telemetry such a library takes a stub of its own.
    """
    name = "openvino_telemetry"
    hidden = name not in sys.modules
    if hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(what, FAST) from None
    finally:
        if hidden:
            del sys.modules[name]


@cache
def openvino_core() -> Any:
    """Return OpenVINO's core, one a process, and its forks'. Raises MissingExtra."""
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=lambda: _inherited.extend(_alive))
    return openvino().Core()


_alive: weakref.WeakSet[OpenVinoRunner] = weakref.WeakSet()
_inherited: list[OpenVinoRunner] = []
"""Graphs that were compiled before a fork: their threads stayed behind, so the fork compiles its own. Never let go:
OpenVINO would hand their streams to the next graph, which would wait for ever."""

_first_inference, _inferred = threading.Lock(), threading.Event()
"""A process's first inference runs alone. In it OpenVINO looks NumPy up under a guard of C++, and of two threads that
come at once one holds the guard and waits for the interpreter, and the other the other way round, for ever."""


def in_bfloat16(precision: Precision) -> bool:
    """Return whether bfloat16 is computed in: of int8, by what is not quantised, where the processor has it."""
    return precision == "bfloat16" or (precision == "int8" and has_bfloat16(torch.device("cpu")))


class OpenVinoRunner:
    """A graph compiled by OpenVINO for the CPU.

    graph  a serialised ONNX model, the path of a graph that OpenVINO reads, or a model of OpenVINO's own

    The precision is always said: left to itself OpenVINO takes bfloat16 where a processor has it. Under int8 it is that
    of the layers that are not quantised. Threads are torch's. Both plans give the same bits.
    """

    def __init__(self, graph: Any, precision: Precision, plan: Plan = "alone") -> None:
        core = openvino_core()
        hints = {
            "INFERENCE_PRECISION_HINT": "bf16" if in_bfloat16(precision) else "f32",
            "PERFORMANCE_HINT": "LATENCY" if plan == "alone" else "THROUGHPUT",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        try:
            model = graph
            if isinstance(graph, bytes | Path):
                model = core.read_model(model=graph if isinstance(graph, bytes) else str(graph))
            self._compiled = core.compile_model(model, "CPU", hints)
        except RuntimeError as error:
            what = str(graph) if isinstance(graph, Path) else "a graph"
            why = (str(error).strip() or "it says no more").splitlines()[-1]
            raise BundleError(f"{what}: OpenVINO can't read or compile it: {why}") from error
        self.inputs = frozenset(port.get_any_name() for port in self._compiled.inputs)
        self.at_once: int = self._compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = threading.local()
        _alive.add(self)

    def __call__(self, feeds: Mapping[str, npt.NDArray[np.int64]]) -> Vectors:
        """Return the graph's output; each thread has a request of its own."""
        if _inferred.is_set():
            return self._infer(feeds)
        with _first_inference:
            output = self._infer(feeds)
        _inferred.set()
        return output

    def _infer(self, feeds: Mapping[str, npt.NDArray[np.int64]]) -> Vectors:
        if not hasattr(self._requests, "own"):
            self._requests.own = self._compiled.create_infer_request()
        result: Vectors = np.array(self._requests.own.infer(dict(feeds), share_inputs=True)[0], dtype=np.float32)
        return result


class OnnxRunner:
    """A graph run by ONNX Runtime on the CPU. Raises MissingExtra, BundleError for a file it does not take."""

    at_once = 1

    def __init__(self, graph: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("an ONNX export", ONNX) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        try:
            self._session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions are named differently in every release
            raise BundleError(f"{graph}: ONNX Runtime does not take it: {str(error).splitlines()[0]}") from error
        self.inputs = frozenset(port.name for port in self._session.get_inputs())

    def __call__(self, feeds: Mapping[str, npt.NDArray[np.int64]]) -> Vectors:
        """Return the graph's output."""
        result: Vectors = self._session.run(None, dict(feeds))[0]
        return result
