"""Memory that stays in the process while it trains, and goes back afterwards."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from anaume.engines import memory
from anaume.engines.memory import kept_memory

MEASURE = """
import resource, sys
from contextlib import nullcontext
import torch
from anaume.engines.memory import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(8 << 20)  # 32 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    return int(open("/proc/self/statm").read().split()[1])

with kept_memory() if sys.argv[1] == "kept" else nullcontext():
    faults()
    count = faults()
    inside = resident()
print(count, inside - resident())
"""


def measured(how: str) -> tuple[int, int]:
    done = subprocess.run([sys.executable, "-c", MEASURE, how], capture_output=True, text=True, check=True)
    faults, given_back = done.stdout.split()
    return int(faults), int(given_back)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_memory_is_used_again_and_given_back_at_the_end() -> None:
    plain, _ = measured("plain")
    kept, given_back = measured("kept")
    assert kept < plain / 20
    assert given_back > (20 << 20) // 4096


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    memory._glibc.cache_clear()
    with kept_memory():
        assert memory._glibc() is None
    memory._glibc.cache_clear()
