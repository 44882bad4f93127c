"""The machine: what it is, how fast it multiplies matrices, and what share of that a run used."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from anaume.config import EncoderConfig
from anaume.engines import PRECISIONS, Precision, processor_instructions
from anaume.errors import SettingsError

BFLOAT16_GAIN = 1.2
"""bfloat16 counts as faster only from this ratio on: emulated it is slower, and noise must not decide."""

_ROWS, _WIDTH, _INNER = 1024, 384, 1536
"""Tokens of a batch, and the two widths of the feed-forward part of a small encoder."""


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
    total, free = _memory()
    rates = _matrix_rates(PRECISIONS, seconds)
    return Machine(
        processor=_processor(),
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


def matrix_rate(precision: Precision, *, seconds: float = 0.5) -> float:
    """Return the measured rate of linear layers on the processor, in GFLOP/s (2 FLOP a multiply-add).

    One repeat is the feed-forward pair of a small encoder, 1024 tokens x 384 -> 1536 -> 384; the rate is that of the
    median repeat, with the threads torch is set to. Two routes are tried, torch's own and oneDNN with weights packed
    beforehand, and the faster one counts: a ceiling should not depend on which library torch happens to call.

    Raises SettingsError (a ValueError) for an unknown precision or no time to measure in.
    """
    return _matrix_rates([precision], seconds)[precision]


def encoder_flops(config: EncoderConfig, lengths: Iterable[int]) -> float:
    """Return the floating-point operations the encoder needs for rows of these lengths, without any padding.

    2 FLOP a multiply-add. A row of T tokens costs, in each of L layers,

        T * 2 * (4 D^2 + 2 D F)     query, key, value and output projections; the two feed-forward matrices
        T * 4 * T * D               scores QK^T and weights x V, 2 T D multiply-adds a token

    with D = hidden_size and F = intermediate_size. Normalisation, softmax, GELU, lookup and pooling are left out:
    together they are about one operation in a hundred.
    """
    width, inner = config.hidden_size, config.intermediate_size
    tokens = squares = 0
    for length in lengths:
        tokens += length
        squares += length * length
    return float(config.num_hidden_layers * (2 * (4 * width**2 + 2 * width * inner) * tokens + 4 * width * squares))


def share_of_machine(flops: float, seconds: float, rate: float) -> float:
    """Return which share of the machine a run used, 0 to about 1.

    flops    what the work needs (`encoder_flops`)
    seconds  how long it took
    rate     GFLOP/s, from `matrix_rate` in the precision of the run

    Raises SettingsError (a ValueError) when a time or rate is not positive.
    """
    if seconds <= 0 or rate <= 0:
        raise SettingsError(f"seconds and rate must be positive; got {seconds!r} and {rate!r}")
    return flops / seconds / (rate * 1e9)


def _matrix_rates(precisions: Sequence[Precision], seconds: float) -> dict[Precision, float]:
    """Measure several precisions turn by turn, so that whatever else the machine does hits all alike."""
    for precision in precisions:
        if precision not in PRECISIONS:
            raise SettingsError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    if seconds <= 0:
        raise SettingsError(f"seconds must be positive; got {seconds!r}")
    routes = [(precision, route) for precision in precisions for route in _routes(precision)]
    times: list[list[float]] = [[] for _ in routes]
    with torch.inference_mode():
        for _, route in routes:
            for _ in range(3):  # the first calls pick kernels and touch memory
                route()
        end = time.perf_counter() + seconds * len(precisions)
        while len(times[0]) < 3 or time.perf_counter() < end:
            for taken, (_, route) in zip(times, routes, strict=True):
                start = time.perf_counter()
                route()
                taken.append(time.perf_counter() - start)
    flops = 2 * 2 * _ROWS * _WIDTH * _INNER
    rates: dict[Precision, float] = dict.fromkeys(precisions, 0.0)
    for taken, (precision, _) in zip(times, routes, strict=True):
        rates[precision] = max(rates[precision], flops / statistics.median(taken) / 1e9)
    return rates


def _routes(precision: Precision) -> list[Callable[[], object]]:
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(_ROWS, _WIDTH, generator=generator).to(dtype)
    pair = nn.Sequential(nn.Linear(_WIDTH, _INNER), nn.Linear(_INNER, _WIDTH)).to(dtype).eval()
    routes: list[Callable[[], object]] = [lambda: pair(states)]
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own module uses what torch deprecates
            from torch.utils import mkldnn

        packed = [mkldnn.to_mkldnn(layer, dtype) for layer in pair]  # type: ignore[no-untyped-call]
        given = states.to_mkldnn()
        routes.append(lambda: packed[1](packed[0](given)))
    return routes


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return " ".join(value.split())
    if platform.system() == "Darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if told.stdout.strip():
            return told.stdout.strip()
    return platform.processor() or platform.machine() or "unknown processor"


def _memory() -> tuple[int | None, int | None]:
    told = {}
    for line in _read("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        told[name] = int(value.split()[0]) * 1024
    if "MemTotal" in told:
        return told["MemTotal"], told.get("MemAvailable")
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None
    except (AttributeError, ValueError, OSError):
        return None, None


def _read(path: str) -> str:
    """The text of a file of the system; "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
