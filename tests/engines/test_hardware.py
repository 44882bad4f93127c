"""What the processor tells of itself."""

from __future__ import annotations

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
