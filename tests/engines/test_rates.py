"""The matrix rate, measured; and the share a run used of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from anaume.engines import matrix_rate, matrix_rates, rates, share_of_machine
from anaume.errors import SettingsError

FLOPS = 2 * (1024 * 384 * 1536) * 2


class Clock:
    """Every look at the clock costs `step` seconds."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_the_rate_is_work_over_the_time_of_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", Clock(0.002))
    assert matrix_rate("float32", seconds=0.01) == pytest.approx(FLOPS / 0.002 / 1e9)


def test_the_fastest_route_counts_and_a_slow_repeat_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(time, "perf_counter", clock)

    def takes(*durations: float) -> Callable[[], None]:
        turns = iter(durations)
        return lambda: setattr(clock, "now", clock.now + next(turns))

    routes = [takes(*[9] * 3, 0.5, 0.5, 9), takes(*[9] * 3, 0.25, 5, 0.25)]
    monkeypatch.setattr(rates, "_routes", lambda precision: routes)
    assert matrix_rate("bfloat16", seconds=1.0) == pytest.approx(FLOPS / 0.25 / 1e9)


def test_measuring_leaves_the_random_numbers_of_others_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    assert all(rate > 0 for rate in matrix_rates(["float32"], seconds=1e-9).values())
    assert torch.equal(torch.rand(2), expected)


def test_the_share_is_work_over_time_and_rate() -> None:
    assert share_of_machine(3e12, 10.0, 400.0) == pytest.approx(0.75)
    for seconds, rate in ((0.0, 400.0), (10.0, 0.0)):
        with pytest.raises(SettingsError, match="must be positive"):
            share_of_machine(1.0, seconds, rate)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="float16"):
        matrix_rate("float16")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="seconds must be positive"):
        matrix_rate("float32", seconds=0)
