"""Which engine runs a bundle's batches: the one asked for, or by a fixed rule; nothing is timed at run time.

"auto" takes OpenVINO where it is installed, on a CPU, for weights as they were loaded, in an encoder large enough; and
not before its graph lies on disk or a call brings many texts: making one takes seconds, which a short command would
never earn back. Everywhere else it takes torch. Both give the same answers within promise 2 (docs/decisions/0022-...).
"""

from __future__ import annotations

from typing import Literal

from anaume.bundle.exported_engines import export_engine, require_int8
from anaume.bundle.parts import BundleParts
from anaume.engines import (
    Engine,
    KeptGraph,
    Precision,
    TorchEngine,
    has_openvino,
    kept_graph,
    openvino_engine,
    pick_device,
)
from anaume.engines.watching import Watch
from anaume.errors import SettingsError, nearest
from anaume.logs import get_logger

log = get_logger(__name__)

EngineName = Literal["auto", "torch", "openvino"]
ENGINES: tuple[EngineName, ...] = ("auto", "torch", "openvino")
LARGE = 5_000_000
"""Parameters of an encoder, input tables apart, from which "auto" takes OpenVINO: all-MiniLM-L6-v2 has 10.6 million."""
MANY = 512
"""Texts of one call that are worth making a graph."""
_said: set[str] = set()


class Engines:
    """The engines of one bundle, each made when it is first needed.

    Raises SettingsError for an unknown engine, precision or device, MissingExtra for one that is not installed.
    """

    def __init__(self, parts: BundleParts, *, wanted: EngineName, precision: Precision, device: str) -> None:
        if wanted not in ENGINES:
            raise SettingsError(
                f"engine must be one of {', '.join(ENGINES)}; got {wanted!r}{nearest(str(wanted), ENGINES)}"
            )
        if parts.exported is not None and wanted not in ("auto", parts.exported.form):
            raise SettingsError(f"an export ({parts.exported.form}) brings its own engine; leave engine out")
        if precision == "int8":
            require_int8(parts)
        self._parts, self._wanted, self._precision, self._device = parts, wanted, precision, device
        self._made: dict[tuple[str, str], Engine] = {}
        self._kept: KeptGraph | Literal["unknown"] | None = "unknown"
        self._watch: Watch | None = None
        # A wrong precision or device is said now, not at the first text.
        if parts.exported is not None or wanted != "auto":
            self.get()
            return
        self._one("torch", device)
        if not self._unfit(device):
            self._trained()  # remembers the weights as they were loaded

    def get(self, device: str | None = None, texts: int = 0) -> Engine:
        """Return the engine for a call that brings so many texts; `device` None = the bundle's own."""
        wanted = self._device if device is None else device
        if self._parts.exported is not None:
            return self._one("export", wanted)
        kind = self._kind(wanted, texts)
        return self._one(kind, "cpu" if kind == "openvino" else wanted)

    def _one(self, kind: str, device: str) -> Engine:
        if (kind, device) not in self._made:
            self._made[kind, device] = self._make(kind, device)
        return self._made[kind, device]

    def _make(self, kind: str, device: str) -> Engine:
        parts = self._parts
        if parts.exported is not None:
            return export_engine(parts, self._precision, device)
        if kind == "openvino":
            kept = None if self._kept == "unknown" else self._kept
            return openvino_engine(parts.model, parts.embedding, precision=self._precision, kept=kept)
        return TorchEngine(parts.model, parts.embedding, precision=self._precision, device=device)

    def _kind(self, device: str, texts: int) -> Literal["torch", "openvino"]:
        if self._wanted == "torch":
            return "torch"
        if self._wanted == "openvino":
            if device not in ("auto", "cpu"):
                raise SettingsError(f"engine='openvino' runs on the CPU; got device {device!r}")
            return "openvino"
        if ("openvino", "cpu") not in self._made or self._trained():
            why = self._why_torch(device, texts)
            if why:
                log.debug("engine: torch (%s)", why)
                return "torch"
            _say("engine: openvino (installed, on a CPU; engine='torch' takes torch)")
        return "openvino"

    def _why_torch(self, device: str, texts: int) -> str:
        """Return why "auto" takes torch; "" where it takes OpenVINO."""
        if why := self._unfit(device):
            return why
        if self._trained():
            return "its weights changed since they were loaded"
        if not has_openvino():
            if texts >= MANY:
                _say("engine: torch; OpenVINO is faster on a CPU and not installed: pip install 'anaume[fast]'")
            return "OpenVINO is not installed"
        if texts < MANY and self._kept_graph() is None:
            return f"{texts} texts: making a graph pays from {MANY} on, or with engine='openvino'"
        return ""

    def _unfit(self, device: str) -> str:
        """Return why OpenVINO is nothing for this bundle on a device, whatever is installed; "" where it may be."""
        if not self._parts.source:
            return "weights made in memory"
        if pick_device(device).type != "cpu":
            return "not on a CPU"
        size = sum(parameter.numel() for parameter in self._parts.model.encoder.parameters())
        return f"an encoder of {size:,} parameters, under {LARGE:,}" if size < LARGE else ""

    def _trained(self) -> bool:
        if self._watch is None:
            self._watch = Watch(self._parts.model)
        return self._watch.changed()

    def _kept_graph(self) -> KeptGraph | None:
        if self._kept == "unknown":
            self._kept = kept_graph(self._parts.model, self._parts.embedding)
        return self._kept


def _say(line: str) -> None:
    """Log a line once a process."""
    if line not in _said:
        _said.add(line)
        log.info("%s", line)
