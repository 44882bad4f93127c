"""What the processor tells of itself."""

from __future__ import annotations

import psutil
import pytest
import torch

from anaume.engines import hardware


@pytest.mark.parametrize(
    ("told", "instructions", "bfloat16"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16\n", ("avx2", "avx512", "avx512_bf16"), True),
        ("flags\t\t: fpu avx2 avx512f\nbugs\t: bf16\n", ("avx2", "avx512"), False),
        ("Features\t: fp asimd bf16\n", ("neon", "bf16"), True),
    ],
)
def test_what_linux_tells_is_read(
    monkeypatch: pytest.MonkeyPatch, told: str, instructions: tuple[str, ...], bfloat16: bool
) -> None:
    monkeypatch.setattr(hardware, "_told", lambda: told)
    monkeypatch.setattr(hardware.platform, "system", lambda: "Linux")
    assert hardware.processor_instructions() == instructions
    assert hardware.has_bfloat16(torch.device("cpu")) is bfloat16


def test_a_system_that_tells_nothing_has_no_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_told", lambda: "")
    assert set(hardware.processor_instructions()) <= {"neon"}
    assert not hardware.has_bfloat16(torch.device("cpu"))
    assert not hardware.has_bfloat16(torch.device("meta"))


def test_this_processor_has_some() -> None:
    assert set(hardware.processor_instructions()) <= set(hardware.INSTRUCTIONS)


def files(monkeypatch: pytest.MonkeyPatch, **contents: str) -> None:
    """Let the system have these files and no others; a dot of a name is written as two underscores."""
    told = {name.replace("__", "."): content for name, content in contents.items()}
    monkeypatch.setattr(hardware, "_read", lambda path: told.get(path.rsplit("/", 1)[1], ""))


MEMINFO = "MemTotal:  8192 kB\nMemFree: 100 kB\nMemAvailable:  4096 kB\n"


def test_memory_is_what_linux_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, meminfo=MEMINFO)
    assert hardware.system_memory() == (8192 * 1024, 4096 * 1024)
    assert hardware.free_memory(torch.device("cpu")) == 4096 * 1024
    files(monkeypatch, meminfo=MEMINFO, memory__max="max\n", memory__current="5000\n")
    assert hardware.system_memory() == (8192 * 1024, 4096 * 1024)


def test_memory_is_no_more_than_a_container_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = {"memory__max": "1000000\n", "memory__current": "700000\n"}
    files(monkeypatch, meminfo=MEMINFO, **limit)
    assert hardware.system_memory() == (1_000_000, 300_000)
    files(monkeypatch, meminfo=MEMINFO, **limit, memory__stat="anon 1\ninactive_file 200000\n")
    assert hardware.system_memory() == (1_000_000, 500_000)  # files kept in memory can be dropped


def test_memory_that_is_not_told_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch)
    total, free = hardware.system_memory()
    assert total is None or total > 0
    assert free is None
    monkeypatch.delattr(hardware.os, "sysconf", raising=False)
    assert hardware.system_memory() == (None, None)


def test_the_peak_is_what_was_held_at_once() -> None:
    cpu = torch.device("cpu")
    hardware.forget_peak_memory(cpu)
    before = hardware.peak_memory(cpu)
    if before is None or before > psutil.Process().memory_info().rss + 2**24:
        pytest.skip("not told by this system, or of the whole life of the process")
    torch.ones(64 * 2**20, dtype=torch.uint8)
    after = hardware.peak_memory(cpu)
    assert after is not None
    assert after >= before + 60 * 2**20
