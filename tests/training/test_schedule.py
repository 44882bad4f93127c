from __future__ import annotations

import pytest

from anaume.training.pretraining.objective import mask_rate
from anaume.training.pretraining.settings import ObjectiveSettings
from anaume.training.schedule import learning_rate_factor
from anaume.training.sections import ScheduleSettings


@pytest.mark.parametrize(
    ("kind", "points"),
    [
        ("linear", {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.5, 1.0: 0.0}),
        ("cosine", {0.0: 0.0, 0.1: 0.5, 0.2: 1.0, 0.6: 0.5, 1.0: 0.0}),
        ("trapezoid", {0.1: 0.5, 0.2: 1.0, 0.5: 1.0, 0.6: 1.0, 0.8: 0.5, 1.0: 0.0}),
        ("constant", {0.1: 0.5, 0.2: 1.0, 1.0: 1.0}),
    ],
)
def test_the_learning_rate_goes_as_named(kind: str, points: dict[float, float]) -> None:
    schedule = ScheduleSettings.model_validate({"kind": kind, "warmup": 0.2, "cooldown": 0.4})
    for fraction, factor in points.items():
        assert learning_rate_factor(fraction, schedule) == pytest.approx(factor, abs=1e-12)


def test_cosine_is_flat_where_linear_is_not() -> None:
    schedule = ScheduleSettings(kind="cosine", warmup=0.0)
    assert learning_rate_factor(0.25, schedule) == pytest.approx(0.853553, abs=1e-6)


def test_without_a_warm_up_it_begins_at_the_top() -> None:
    for kind in ("linear", "cosine", "trapezoid", "constant"):
        assert learning_rate_factor(0.0, ScheduleSettings.model_validate({"kind": kind, "warmup": 0.0})) == 1.0


def test_a_trapezoid_never_passes_its_top_when_warm_up_and_cool_down_meet() -> None:
    schedule = ScheduleSettings(kind="trapezoid", warmup=0.5, cooldown=0.9)
    assert max(learning_rate_factor(place / 100, schedule) for place in range(101)) <= 1.0


def test_the_mask_rate_falls_in_a_line() -> None:
    assert mask_rate(0.7, ObjectiveSettings(mask_rate=0.2)) == 0.2
    falling = ObjectiveSettings(mask_rate=0.3, mask_rate_end=0.1)
    assert [mask_rate(fraction, falling) for fraction in (0.0, 0.5, 1.0, 2.0)] == pytest.approx([0.3, 0.2, 0.1, 0.1])
