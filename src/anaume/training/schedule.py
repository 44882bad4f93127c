"""The learning rate as a function of how much of the run has passed, 0 to 1, in steps or in time."""

from __future__ import annotations

import math

from anaume.training.sections import ScheduleSettings


def learning_rate_factor(fraction: float, schedule: ScheduleSettings) -> float:
    """Return what the highest learning rate is multiplied by when `fraction` of the run has passed."""
    if fraction < schedule.warmup:
        return fraction / schedule.warmup
    if schedule.kind == "constant":
        return 1.0
    passed = min(1.0, (fraction - schedule.warmup) / (1.0 - schedule.warmup))
    if schedule.kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * passed))
    if schedule.kind == "trapezoid":
        return min(1.0, max(0.0, (1.0 - fraction) / schedule.cooldown))
    return 1.0 - passed
