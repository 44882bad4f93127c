"""What an int8 export must keep to, and what its certificate says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.errors import SettingsError
from anaume.tasks.retrieval import Interval


@dataclass(frozen=True, kw_only=True)
class Int8Bounds:
    """How far int8 vectors may be from those of float32."""

    mean: float = 0.995
    """The mean cosine over texts, at least."""
    minimum: float = 0.98
    """The cosine of any text, at least."""
    score: float = 0.3
    """What a task's score may lose, in points (hundredths)."""

    def __post_init__(self) -> None:
        for name, highest in (("mean", 1.0), ("minimum", 1.0), ("score", 100.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= highest:
                raise SettingsError(f"the bound {name} must be from 0 to {highest:g}; got {value!r}")

    def over(self, cosines: npt.NDArray[np.float64], lost: float | None = None) -> list[str]:
        """Return which bounds are broken, in words; none where all are kept.

        cosines  (texts,) to float32's vectors
        lost     points that the task's score lost; None = not measured
        """
        found = [
            ("mean cosine", float(cosines.mean()), self.mean),
            ("minimum cosine", float(cosines.min()), self.minimum),
        ]
        broken = [f"{name} {value:.6f}, under {bound:g}" for name, value, bound in found if not value >= bound]
        if lost is not None and not lost <= self.score:
            broken.append(f"the score lost {lost:.2f} points, over {self.score:g}")
        return broken


@dataclass(frozen=True, kw_only=True)
class Int8Score:
    """Spearman correlation with what people said of pairs of texts (STS), each with its 95 % interval."""

    pairs: int
    float32: Interval
    int8: Interval
    difference: Interval
    """int8 less float32, on the same resamples."""


@dataclass(frozen=True, kw_only=True)
class Int8:
    """What int8 costs and gives, measured on texts that neither calibrated it nor chose its layers."""

    given: int
    """Texts that were given; those below are different ones, and none is empty."""
    calibration: int
    """Texts that gave the ranges."""
    choosing: int
    """Texts that layers were chosen on, those of the calibration among them."""
    held_out: int
    """Texts that all the numbers below are of."""
    bounds: Int8Bounds
    over: tuple[str, ...]
    """The bounds that are broken; not () only where that was forced."""
    layers: int
    """Matrix products that could be in int8."""
    kept: tuple[str, ...]
    """Those that stay in `rest`, the most sensitive first."""
    rest: str
    """The precision of everything that is not in int8, on this machine."""
    mean: float
    """The mean cosine to float32's vectors."""
    minimum: float
    """That of the text it is lowest for."""
    alone: float
    """The largest difference between a text's vector alone and in a batch."""
    neighbours: float
    """The mean share of a text's ten nearest that float32 names too, 0 to 1."""
    cosines: float
    """Spearman correlation of the cosines of all pairs of texts with those of float32."""
    score: Int8Score | None
    """None where no pairs were given: not measured."""
    texts_per_second: Mapping[str, float]
    """By precision, each in OpenVINO, while the export ran: a glance, no benchmark."""
    machine: Mapping[str, Any]
    """What they were measured on: instruction sets and threads."""
