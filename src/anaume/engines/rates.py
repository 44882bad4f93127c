"""How fast the processor multiplies matrices, and what share of that a run used."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from anaume.engines.protocol import PRECISIONS, Precision
from anaume.errors import SettingsError

_ROWS, _WIDTH, _INNER = 1024, 384, 1536
"""Tokens of a batch, and the two widths of the feed-forward part of a small encoder."""


def matrix_rate(precision: Precision, *, seconds: float = 0.5) -> float:
    """Return the measured rate of linear layers on the processor, in GFLOP/s (2 FLOP a multiply-add).

    One repeat is the feed-forward pair of a small encoder, 1024 tokens x 384 -> 1536 -> 384; the rate is that of the
    median repeat, with the threads torch is set to. Two routes are tried, torch's own and oneDNN with weights packed
    beforehand, and the faster one counts: a ceiling should not depend on which library torch happens to call.

    torch's generators are left as they were. Raises SettingsError (a ValueError) for an unknown precision or no time
    to measure in.
    """
    return matrix_rates([precision], seconds=seconds)[precision]


def matrix_rates(precisions: Sequence[Precision], *, seconds: float = 0.5) -> dict[Precision, float]:
    """Return the `matrix_rate` of several precisions, about `seconds` each.

    They are measured turn by turn, so that whatever else the machine does hits all alike.
    """
    for precision in precisions:
        if precision not in PRECISIONS:
            raise SettingsError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    if seconds <= 0:
        raise SettingsError(f"seconds must be positive; got {seconds!r}")
    routes = [(precision, route) for precision in precisions for route in _routes(precision)]
    times: list[list[float]] = [[] for _ in routes]
    with torch.inference_mode():
        for _, route in routes:
            for _ in range(3):  # the first calls pick kernels and touch memory
                route()
        end = time.perf_counter() + seconds * len(precisions)
        while len(times[0]) < 3 or time.perf_counter() < end:
            for taken, (_, route) in zip(times, routes, strict=True):
                start = time.perf_counter()
                route()
                taken.append(time.perf_counter() - start)
    flops = 2 * 2 * _ROWS * _WIDTH * _INNER
    rates: dict[Precision, float] = dict.fromkeys(precisions, 0.0)
    for taken, (precision, _) in zip(times, routes, strict=True):
        rates[precision] = max(rates[precision], flops / float(np.median(taken)) / 1e9)
    return rates


def share_of_machine(flops: float, seconds: float, rate: float) -> float:
    """Return which share of the machine a run used, 0 to about 1.

    flops    what the work needs (`encoder_flops`, `training_flops`)
    seconds  how long it took
    rate     GFLOP/s, from `matrix_rate` in the precision of the run

    Raises SettingsError (a ValueError) when a time or rate is not positive.
    """
    if seconds <= 0 or rate <= 0:
        raise SettingsError(f"seconds and rate must be positive; got {seconds!r} and {rate!r}")
    return flops / seconds / (rate * 1e9)


def _routes(precision: Precision) -> list[Callable[[], object]]:
    dtype = torch.float32 if precision == "float32" else torch.bfloat16
    with torch.random.fork_rng(devices=[]):  # layers draw their weights from the default generator
        states = torch.randn(_ROWS, _WIDTH).to(dtype)
        pair = nn.Sequential(nn.Linear(_WIDTH, _INNER), nn.Linear(_INNER, _WIDTH)).to(dtype).eval()
    routes: list[Callable[[], object]] = [lambda: pair(states)]
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch's own module uses what torch deprecates
            from torch.utils import mkldnn

        packed = [mkldnn.to_mkldnn(layer, dtype) for layer in pair]  # type: ignore[no-untyped-call]
        given = states.to_mkldnn()
        routes.append(lambda: packed[1](packed[0](given)))
    return routes
