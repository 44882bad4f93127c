"""doctor: what this machine has for training and running encoders, each with a plain verdict.

What can't be found out is said to be so, and stops nothing.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from anaume.checks.machine import BFLOAT16_GAIN, processor_name, usable_cores
from anaume.engines import PRECISIONS, Precision, has_bfloat16, matrix_rates, processor_instructions, system_memory
from anaume.errors import MissingExtra
from anaume.tokenization.words import MecabWords

Standing = Literal["ok", "note", "missing", "not told"]

NOT_TOLD = "not told by this system"
LIBRARIES = ("torch", "numpy", "tokenizers", "safetensors", "pyarrow", "sentencex", "scikit-learn")
EXTRAS = {
    "ja": ("fugashi", "unidic-lite"),
    "dedup": ("rensa",),
    "plots": ("matplotlib",),
    "fast": ("openvino", "onnx", "nncf"),
    "onnx": ("onnx", "onnxruntime"),
    "search": ("lancedb",),
    "tensorboard": ("tensorboard",),
    "ray": ("ray",),
    "hub": ("huggingface_hub",),
    "mteb": ("mteb",),
}
"""Optional extras -> what they install."""

_LITTLE = 2**30  # bytes of memory or disk; below, even small runs may end for the lack of it


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    standing: Standing
    verdict: str = ""
    """What it means, and what to do."""


def examine_machine(out: str | Path = ".", *, seconds: float = 0.5) -> tuple[Finding, ...]:
    """Return what this machine has; measures both matrix rates, about `seconds` each, and writes nothing.

    out  where outputs would go: the disk there is looked at
    """
    cpu = torch.device("cpu")
    rates: dict[Precision, float] = {}

    def matrices() -> Finding:
        rates.update(matrix_rates(PRECISIONS, seconds=seconds))
        found = ", ".join(f"{rate:,.0f} GFLOP/s in {precision}" for precision, rate in rates.items())
        return Finding("matrix products", found, "ok", "measured: the ceiling of what is computed here")

    return (
        looked("processor", lambda: Finding("processor", f"{processor_name()}, {platform.system()}", "ok")),
        looked("instructions", _instructions),
        looked("matrix products", matrices),
        looked("bfloat16", lambda: _bfloat16(has_bfloat16(cpu), rates)),
        looked("threads", lambda: _threads(torch.get_num_threads(), usable_cores())),
        looked("accelerator", _accelerator),
        looked("engines", _engines),
        looked("python", lambda: Finding("python", platform.python_version(), "ok")),
        looked("libraries", lambda: _libraries(LIBRARIES)),
        looked("MeCab dictionary", _mecab),
        *(looked(f"extra {name}", lambda name=name: _extra(name)) for name in EXTRAS),  # type: ignore[misc]
        looked("memory", lambda: _memory(*system_memory())),
        looked("disk", lambda: _disk(Path(out))),
    )


def free_disk(path: Path) -> int:
    """Return the free bytes where `path` is or would be. Raises OSError where the system does not tell."""
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return shutil.disk_usage(there).free


def looked(what: str, look: Callable[[], Finding]) -> Finding:
    """Return what `look` finds; an exception becomes a finding too."""
    try:
        return look()
    except Exception as error:  # whatever a system makes of the question
        return Finding(what, NOT_TOLD, "not told", f"{type(error).__name__}: {error}".splitlines()[0])


def _instructions() -> Finding:
    names = processor_instructions()
    if not names:
        return Finding("instructions", NOT_TOLD, "not told", "bfloat16 is then not used unless asked for")
    return Finding("instructions", ", ".join(names), "ok")


def _bfloat16(in_hardware: bool, rates: dict[Precision, float]) -> Finding:
    found = "in hardware" if in_hardware else "not in hardware"
    if not rates:
        return Finding("bfloat16", found, "note", "not measured")
    gain = rates["bfloat16"] / rates["float32"]
    found += f", {gain:.1f} x the rate of float32"
    if in_hardware and gain > BFLOAT16_GAIN:
        return Finding("bfloat16", found, "ok", "training takes it (run.precision = auto); for embedding ask for it")
    if in_hardware:
        return Finding("bfloat16", found, "note", "hardly faster here: run.precision=float32 may do as well")
    if gain > BFLOAT16_GAIN:
        return Finding("bfloat16", found, "note", "faster all the same: run.precision=bfloat16 is worth a try")
    return Finding("bfloat16", found, "ok", "training takes float32 (run.precision = auto)")


def _threads(threads: int, cores: int) -> Finding:
    found = f"{counted(threads, 'thread')} on {counted(cores, 'core')}"
    if threads < cores:
        return Finding("threads", found, "note", f"cores stand idle: OMP_NUM_THREADS={cores} or run.threads={cores}")
    if threads > cores:
        return Finding("threads", found, "note", f"they wait for each other: OMP_NUM_THREADS={cores}")
    return Finding("threads", found, "ok", "one a core")


def _accelerator() -> Finding:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        free, total = torch.cuda.mem_get_info(0)
        found = f"{', '.join(names)}; {size(free)} of {size(total)} free on the first"
        return Finding("accelerator", found, "ok", "--device auto takes the first; torchrun uses all")
    if torch.backends.mps.is_available():
        return Finding("accelerator", "Apple GPU (mps)", "ok", "--device auto takes it")
    return Finding("accelerator", "none that torch can use", "ok", "the processor computes")


def _engines() -> Finding:
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return Finding("engines", f"torch {torch.__version__} with oneDNN", "ok")
    return Finding("engines", f"torch {torch.__version__}", "note", "without oneDNN: the processor's products are slow")


def _libraries(names: tuple[str, ...]) -> Finding:
    versions = {name: _version(name) for name in names}
    found = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    if None in versions.values():
        return Finding("libraries", found, "missing", "pip install anaume brings them")
    return Finding("libraries", found, "ok")


def _mecab() -> Finding:
    what = "MeCab dictionary"
    try:
        words = MecabWords(lower_case=False, keep_blanks=False).words("すもももももももものうち")
    except MissingExtra:
        return Finding(what, "not installed", "missing", f"Japanese words need it: {_install('ja')}")
    return Finding(
        what, f"unidic-lite {_version('unidic-lite')}", "ok", f"it cuts すもももももももものうち into {len(words)}"
    )


def _extra(name: str) -> Finding:
    versions = {library: _version(library) for library in EXTRAS[name]}
    found = ", ".join(f"{library} {version}" for library, version in versions.items() if version)
    if None in versions.values():
        return Finding(f"extra {name}", found or "not installed", "missing", f"optional: {_install(name)}")
    return Finding(f"extra {name}", found, "ok")


def _memory(total: int | None, free: int | None) -> Finding:
    if free is None:
        known = NOT_TOLD if total is None else f"{size(total)}; what is free is {NOT_TOLD}"
        return Finding("memory", known, "not told")
    found = f"{size(free)} free" + ("" if total is None else f" of {size(total)}")
    if free < _LITTLE:
        return Finding("memory", found, "note", "little: a forecast (--size, --steps) tells what a run needs")
    return Finding("memory", found, "ok")


def _disk(out: Path) -> Finding:
    free = free_disk(out)
    found = f"{size(free)} free at {out.absolute()}"
    if free < _LITTLE:
        return Finding("disk", found, "note", "little: checkpoints take three times the weights each")
    return Finding("disk", found, "ok")


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _install(extra: str) -> str:
    return f"pip install 'anaume[{extra}]'"


def size(count: int) -> str:
    """Return bytes as memory and disks are counted."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def counted(number: int, what: str) -> str:
    """Return a number of things.

    >>> counted(1, "core"), counted(2, "core")
    ('1 core', '2 cores')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
