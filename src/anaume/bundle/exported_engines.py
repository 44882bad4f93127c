"""What runs an export: the runners of its graphs, or its table."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

from anaume.bundle.exported import Exported
from anaume.bundle.parts import BundleParts
from anaume.engines import (
    EMBED,
    PRECISIONS,
    Engine,
    GraphEngine,
    OnnxRunner,
    OpenVinoRunner,
    Precision,
    StaticEngine,
)
from anaume.engines.graph_engine import Runner
from anaume.engines.runners import Plan
from anaume.errors import AnaumeWarning, SettingsError


def require_int8(parts: BundleParts) -> None:
    """Raise SettingsError, with the command that makes one, unless these are the parts of an int8 export."""
    if parts.exported is None or not parts.exported.int8:
        made_of = parts.source if parts.exported is None and parts.source else "B"
        raise SettingsError(
            f"precision='int8' needs an export with int8 in it, calibrated on your texts: anaume export {made_of} "
            "--to openvino --int8 --calibrate texts.jsonl -o B8"
        )


def export_engine(parts: BundleParts, precision: Precision, device: str) -> Engine:
    """Return what runs an export. Raises SettingsError for a precision or a device it has not."""
    exported = parts.exported
    assert exported is not None
    if device not in ("auto", "cpu"):
        raise SettingsError(f"an export ({exported.form}) runs on the CPU; got device {device!r}")
    if precision == "int8":
        if exported.over:
            warnings.warn(
                f"{parts.source}: its int8 vectors are over their bounds ({exported.over}): the export was forced",
                AnaumeWarning,
                stacklevel=6,
            )
    elif precision not in PRECISIONS or (precision != "float32" and exported.form != "openvino"):
        raise SettingsError(f"an export ({exported.form}) runs in float32; got precision {precision!r}")
    if exported.form == "static":
        assert exported.table is not None
        return StaticEngine(exported.table)
    plans = exported.form == "openvino"
    return GraphEngine(exported.form, precision, parts.model.config, graph_runner(exported, precision), plans=plans)


def graph_runner(exported: Exported, precision: Precision) -> Callable[[str, Plan], Runner]:
    """Return what gives the runner of each graph: read when it is first asked for, and kept."""
    graphs = exported.int8 if precision == "int8" else exported.graphs
    made: dict[tuple[str, Plan, int], Runner] = {}  # a forked process has none of the threads of those made before
    lock = threading.Lock()

    def runner(name: str, plan: Plan) -> Runner:
        if name in exported.graphs and name not in graphs:
            raise SettingsError(
                f"this export has text vectors in int8, and the head {name!r} is not: precision='float32' or 'bfloat16'"
            )
        if name not in graphs:
            what = "text vectors (no pooling was stored)" if name == EMBED else f"the head {name!r}"
            have = ", ".join(other for other in exported.graphs if other != EMBED) or "text vectors alone"
            raise SettingsError(f"this export has no graph of {what}; it has: {have}")
        path = exported.directory / graphs[name]
        key = (name, plan, os.getpid())
        with lock:
            if key not in made:
                onnx = exported.form == "onnx"
                made[key] = OnnxRunner(path) if onnx else OpenVinoRunner(path, precision, plan)
            return made[key]

    return runner
