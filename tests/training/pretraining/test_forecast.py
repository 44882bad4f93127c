"""What a forecast says of steps and time: arithmetic."""

from __future__ import annotations

import pytest

from anaume.config import EncoderConfig
from anaume.training.pretraining.forecast import Forecast, Pace
from tiny_runs import tiny_settings

CONFIG = EncoderConfig(vocab_size=40, hidden_size=16)


def test_two_lengths_share_steps_or_time() -> None:
    settings = tiny_settings("data.long_seq_len=32", "data.long_share=0.25")
    paces = (
        Pace(rows=8, seq_len=16, seconds=1.0, tokens=120.0, pieces=100.0, steps=3),
        Pace(rows=4, seq_len=32, seconds=2.0, tokens=100.0, pieces=80.0, steps=3),
    )
    told = Forecast(settings, CONFIG, 1000, None, paces, 9500)
    assert told.seconds_for(8) == 6 * 1.0 + 2 * 2.0
    assert told.steps_in(80.0) == 60.0 + 10.0
    assert told.tokens_per_second == pytest.approx((6 * 120 + 2 * 100) / 10.0)
    assert told.epochs(100) == pytest.approx(1.0)
    alone = Forecast(tiny_settings(), CONFIG, 1000, None, paces[:1], None)
    assert (alone.seconds_for(8), alone.steps_in(80.0), alone.tokens_per_second) == (8.0, 80.0, 120.0)
