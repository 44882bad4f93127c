"""Whitening: vectors moved and turned so that their numbers are uncorrelated, a baseline that trains nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anaume.errors import DataError


@dataclass(frozen=True)
class Whitening:
    """Vectors x become (x - mean) @ matrix (Su et al. 2021, "Whitening sentence representations", algorithm 1)."""

    mean: npt.NDArray[np.float64]
    """(size,)"""
    matrix: npt.NDArray[np.float64]
    """(size, k): the directions of the largest variance first, each scaled to variance 1."""

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], size: int | None = None) -> Self:
        """Learn it from vectors, (n, size); `size` numbers are kept, None = all that vary.

        Raises DataError for fewer than two different vectors.
        """
        x = vectors.astype(np.float64)
        mean = x.mean(axis=0)
        _, spread, turned = np.linalg.svd(x - mean, full_matrices=False)
        deviations = spread / np.sqrt(len(x))
        varies = int((deviations > 1e-6 * max(float(deviations[0]), 1e-30)).sum()) if len(deviations) else 0
        if len(x) < 2 or deviations[0] < 1e-12:
            raise DataError(f"whitening needs vectors that differ; got {len(x)}")
        kept = min(varies, size or varies)
        return cls(mean, (turned[:kept] / deviations[:kept, None]).T)

    def __call__(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return (n, k) float32."""
        moved: npt.NDArray[np.float32] = ((vectors - self.mean) @ self.matrix).astype(np.float32)
        return moved
