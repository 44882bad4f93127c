"""How much of a run has passed: by steps, by the clock, or by the journal of a run that went by the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol


class Stopwatch:
    """Seconds spent on a run over all sittings; the time between a stop and the next start does not count."""

    def __init__(self, before: float) -> None:
        self._before = before
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds spent so far."""
        return self._before + time.monotonic() - self._begun


class Clock(Protocol):
    """Says at the beginning of each step which share of the run has passed; None = it is over."""

    def fraction(self, step: int) -> float | None:
        """Return the share passed before step `step` (0, 1, ...), or None at the end."""
        ...


class StepClock:
    """A run of given steps: nothing is measured."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def fraction(self, step: int) -> float | None:
        """Return step / steps, or None at the end."""
        return step / self._steps if step < self._steps else None


class WallClock:
    """A run of given seconds."""

    def __init__(self, budget: float, stopwatch: Stopwatch) -> None:
        self._budget = budget
        self._stopwatch = stopwatch

    def fraction(self, step: int) -> float | None:
        """Return the share of the budget spent, or None when it is used up."""
        passed = self._stopwatch.seconds / self._budget
        return passed if passed < 1.0 else None


class Patience:
    """Another clock, which ends early when `tired` says so; asked before each step."""

    def __init__(self, clock: Clock, tired: Callable[[], bool]) -> None:
        self._clock, self._tired = clock, tired

    def fraction(self, step: int) -> float | None:
        """Return what the other clock says, or None from the moment nothing more is gained."""
        return None if self._tired() else self._clock.fraction(step)


class Replay:
    """A run again, by its journal: the same fractions at the same steps."""

    def __init__(self, fractions: Sequence[float]) -> None:
        self._fractions = fractions

    def fraction(self, step: int) -> float | None:
        """Return what the journal says of this step, or None after its last."""
        return self._fractions[step] if step < len(self._fractions) else None
