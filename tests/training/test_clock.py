from __future__ import annotations

import pytest

from anaume.training import clock
from anaume.training.clock import Patience, Replay, StepClock, Stopwatch, WallClock


def test_a_run_of_steps_counts_steps() -> None:
    assert [StepClock(4).fraction(step) for step in range(5)] == [0.0, 0.25, 0.5, 0.75, None]


def test_a_run_of_time_counts_seconds_of_all_sittings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    stopwatch = Stopwatch(before=30.0)
    wall = WallClock(60.0, stopwatch)
    assert wall.fraction(0) == 0.5
    now[0] += 15.0
    assert (wall.fraction(1), stopwatch.seconds) == (0.75, 45.0)
    now[0] += 15.0
    assert wall.fraction(2) is None


def test_a_replay_says_what_the_journal_said() -> None:
    assert [Replay([0.0, 0.3, 0.9]).fraction(step) for step in range(4)] == [0.0, 0.3, 0.9, None]


def test_patience_ends_a_run_when_nothing_more_is_gained() -> None:
    tired = False
    patient = Patience(StepClock(4), lambda: tired)
    assert [patient.fraction(0), patient.fraction(1)] == [0.0, 0.25]
    tired = True
    assert patient.fraction(2) is None
    assert Patience(StepClock(1), lambda: False).fraction(1) is None
