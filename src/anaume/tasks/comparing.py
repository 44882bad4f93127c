"""Do two models differ? The paired bootstrap over examples (Koehn 2004): both are scored on the same resamples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anaume.errors import SettingsError
from anaume.tasks.registry import AnyTask


@dataclass(frozen=True)
class Comparison:
    """One model's main score less another's, on the same examples."""

    metric: str
    difference: float
    """On the examples as they are."""
    low: float
    """The 95 % interval over resamples."""
    high: float
    p: float
    """Two-sided: twice the share of resamples that say the opposite, or nothing, this one counted in; never 0."""
    examples: int
    resamples: int

    @property
    def differ(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0.0 or self.high < 0.0


def compare(
    task: AnyTask, one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], *, resamples: int = 1000, seed: int = 0
) -> Comparison:
    """Compare two models by their `Task.example_scores`, (examples, k) each, in the same order.

    Raises SettingsError for different numbers of examples, or none.
    """
    if one.shape != other.shape or not len(one):
        raise SettingsError(
            f"two models are compared on the same examples, at least one; got {len(one)} and {len(other)}"
        )
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        drawn = generator.integers(0, len(one), len(one))
        found.append(task.score_of(one[drawn]) - task.score_of(other[drawn]))
    differences = np.array(found)
    differences = differences[np.isfinite(differences)]  # a resample may have no score: constant labels
    if not len(differences):
        raise SettingsError(f"{task.main} is not defined on these examples")
    low, high = np.percentile(differences, [2.5, 97.5])
    against = (1 + min((differences <= 0).sum(), (differences >= 0).sum())) / (1 + len(differences))
    return Comparison(
        metric=task.main,
        difference=task.score_of(one) - task.score_of(other),
        low=float(low),
        high=float(high),
        p=float(min(1.0, 2.0 * against)),
        examples=len(one),
        resamples=len(differences),
    )
