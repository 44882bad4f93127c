"""What the processor has, by its own word: nothing is timed here."""

from __future__ import annotations

import platform
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


def has_bfloat16(device: torch.device) -> bool:
    """Return whether bfloat16 arithmetic is in the device's hardware; emulated, it can be many times slower."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool({"avx512_bf16", "amx_bf16", "bf16"} & set(processor_instructions()))
    return False


def _told() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
