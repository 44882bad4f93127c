"""What the machine has, by its own word: nothing is timed here, and what it does not tell is None."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

import torch

INSTRUCTIONS = {
    "avx2": ("avx2",),
    "avx512": ("avx512f",),
    "avx512_bf16": ("avx512_bf16",),
    "amx_bf16": ("amx_bf16",),
    "neon": ("asimd", "neon"),
    "bf16": ("bf16",),
}
"""Our name of an instruction set -> what Linux calls it."""


def processor_instructions() -> tuple[str, ...]:
    """Return the instruction sets of `INSTRUCTIONS` the processor has; empty where the system does not tell."""
    flags: set[str] = set()
    for line in _told().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            flags.update(value.split())
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        flags.add("neon")
    return tuple(name for name, spellings in INSTRUCTIONS.items() if flags.intersection(spellings))


def processor_vendor() -> str:
    """Return who made an x86 processor, by its own word: "AuthenticAMD", "GenuineIntel", ...; "" where nobody tells."""
    for line in _told().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "vendor_id":
            return value.strip()
    return ""


def has_bfloat16(device: torch.device) -> bool:
    """Return whether bfloat16 arithmetic is in the device's hardware; emulated, it can be many times slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(processor_instructions()))
    return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is short: Python's own, a GPU's, or torch's of the processor."""
    if isinstance(error, RuntimeError):  # torch has no type of its own for the processor's
        return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
    return isinstance(error, MemoryError)


def system_memory() -> tuple[int | None, int | None]:
    """Return the memory of the machine, or as much as the container may have, and what of it is free, in bytes.

    Free is what can be had without swapping; caches of files count as free.
    """
    told = _fields("/proc/meminfo")
    total, free = told.get("MemTotal"), told.get("MemAvailable")
    if total is None:
        with suppress(AttributeError, ValueError, OSError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, used = (_read(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdigit() and used.isdigit():
        cached = _fields("/sys/fs/cgroup/memory.stat").get("inactive_file", 0)
        left = max(0, int(limit) - int(used) + cached)
        total = min(int(limit), total or int(limit))
        free = left if free is None else min(left, free)
    return total, free


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that tensors on the device can have; None where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return system_memory()[1]


def forget_peak_memory(device: torch.device) -> None:
    """Let `peak_memory` count from now on, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int | None:
    """Return the most memory in use at once, in bytes: of tensors on a GPU, else of the whole process.

    Counted since `forget_peak_memory` where the system can, else since the process began.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = _fields("/proc/self/status").get("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def _fields(path: str) -> dict[str, int]:
    """Return the numbers of a file of the system, "NAME: 12 kB" or "NAME 12" a line, in bytes."""
    told = {}
    for line in _read(path).splitlines():
        words = line.replace(":", " ").split()
        if len(words) > 1 and words[1].isdigit():
            told[words[0]] = int(words[1]) * (1024 if words[2:] == ["kB"] else 1)
    return told


def _told() -> str:
    return _read("/proc/cpuinfo")


def _read(path: str) -> str:
    """The text of a file of the system; "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
