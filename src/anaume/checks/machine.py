"""The machine: what it is, and how fast it multiplies matrices."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from anaume.engines import PRECISIONS, matrix_rates, processor_instructions, system_memory

BFLOAT16_GAIN = 1.2
"""bfloat16 counts as faster only from this ratio on: emulated it is slower, and noise must not decide."""


@dataclass(frozen=True)
class Machine:
    """What matters about a machine for running an encoder."""

    processor: str
    cores: int
    """Cores this process may use, which can be fewer than the machine has."""
    threads: int
    """Threads torch computes with."""
    instructions: tuple[str, ...]
    """Those of `engines.hardware.INSTRUCTIONS` that the processor has; empty where the system does not tell."""
    memory_total: int | None
    """Bytes; None where the system does not tell."""
    memory_free: int | None
    """Bytes that can be had without swapping; None where the system does not tell."""
    accelerator: str | None
    """The name of the first GPU torch can use."""
    float32_rate: float
    """Measured GFLOP/s of linear layers on the processor."""
    bfloat16_rate: float
    """The same in bfloat16."""
    system: str

    @property
    def bfloat16_is_faster(self) -> bool:
        """Whether bfloat16 is worth asking for on this processor; measured, not read from its flags."""
        return self.bfloat16_rate > BFLOAT16_GAIN * self.float32_rate

    def line(self) -> str:
        """Return the machine in one line, for reports and benchmark tables."""
        memory = "" if self.memory_total is None else f", {self.memory_total / 2**30:.0f} GiB"
        known = f" ({', '.join(self.instructions)})" if self.instructions else ""
        gpu = "" if self.accelerator is None else f", {self.accelerator}"
        return (
            f"{self.processor}{known}, {self.cores} cores, {self.threads} threads{memory}{gpu}, {self.system}; "
            f"matrices {self.float32_rate:,.0f} GFLOP/s in float32, {self.bfloat16_rate:,.0f} in bfloat16"
        )


def describe_machine(*, seconds: float = 0.5) -> Machine:
    """Return what this machine is; measures both matrix rates, about `seconds` each."""
    total, free = system_memory()
    rates = matrix_rates(PRECISIONS, seconds=seconds)
    return Machine(
        processor=processor_name(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        instructions=processor_instructions(),
        memory_total=total,
        memory_free=free,
        accelerator=torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        float32_rate=rates["float32"],
        bfloat16_rate=rates["bfloat16"],
        system=f"{platform.system()} {platform.machine()}",
    )


def usable_cores() -> int:
    """Return how many cores this process may use: affinity and a container's limit counted."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        cores = min(cores, max(1, round(int(words[0]) / int(words[1]))))
    return cores


def processor_name() -> str:
    """Return what the processor calls itself."""
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return " ".join(value.split())
    if platform.system() == "Darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if told.stdout.strip():
            return told.stdout.strip()
    return platform.processor() or platform.machine() or "unknown processor"


def _read(path: str) -> str:
    """The text of a file of the system; "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
