"""What several seeds say together: mean, spread, interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A score over seeds."""

    mean: float
    deviation: float | None
    """Standard deviation over the seeds; None with a single one."""
    low: float | None
    """The 95 % interval of the mean (Student's t), within what the score can be; None with a single seed."""
    high: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float], within: tuple[float, float] = (-math.inf, math.inf)) -> Spread | None:
        """Return what these values say; None for none.

        within  what a value can be: the t interval knows of no bounds, and of few seeds near 1 it would pass it
        """
        if not values:
            return None
        mean = statistics.fmean(values)
        if len(values) == 1:
            return cls(mean, None, None, None, 1)
        from scipy.stats import t

        deviation = statistics.stdev(values)
        half = float(t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
        return cls(mean, deviation, max(mean - half, within[0]), min(mean + half, within[1]), len(values))
