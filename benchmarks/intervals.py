"""Scores with their spread: every score is a mean of ratios of counts, so one bootstrap over examples serves all.

Counts are (examples, ratios, 2): what each example adds to the numerator and to the denominator of each ratio. Accuracy
is one ratio, right over all; an F1 is one, 2 x right over (predicted + gold); a macro F1 is one a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.labelled import Span

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A score and the middle 95 % of it over resampled examples."""

    value: float
    low: float
    high: float


def estimate(counts: Counts, *, resamples: int = 1000, seed: int = 0) -> Estimate:
    """Return the mean of the ratios, with a bootstrap over examples; the same counts give the same interval."""
    examples = len(counts)
    weights = np.random.default_rng(seed).multinomial(examples, np.full(examples, 1 / examples), size=resamples)
    drawn = np.tensordot(weights.astype(np.float64), counts, axes=1)
    low, high = np.percentile(_mean_ratio(drawn), [2.5, 97.5])
    return Estimate(float(_mean_ratio(counts.sum(axis=0))), float(low), float(high))


def accuracy_counts(gold: NDArray[np.int64], predicted: NDArray[np.int64], example: NDArray[np.int64]) -> Counts:
    """Return the counts of an accuracy; all three are one number an item, `example` the example it belongs to."""
    counts = np.zeros((example.max() + 1, 1, 2))
    np.add.at(counts[:, 0, 0], example, gold == predicted)
    np.add.at(counts[:, 0, 1], example, 1)
    return counts


def f1_counts(
    gold: NDArray[np.int64], predicted: NDArray[np.int64], example: NDArray[np.int64], classes: Sequence[int]
) -> Counts:
    """Return the counts of a macro F1 over `classes`; one that neither side has takes no part in the mean."""
    counts = np.zeros((example.max() + 1, len(classes), 2))
    for number, label in enumerate(classes):
        is_gold, is_predicted = gold == label, predicted == label
        np.add.at(counts[:, number, 0], example, 2.0 * (is_gold & is_predicted))
        np.add.at(counts[:, number, 1], example, is_gold.astype(np.float64) + is_predicted)
    return counts


def span_counts(gold: Sequence[set[Span]], predicted: Sequence[set[Span]]) -> Counts:
    """Return the counts of an entity F1, a set of spans an example: bounds and type must both be right."""
    pairs = zip(gold, predicted, strict=True)
    return np.array([[[2.0 * len(ours & theirs), len(ours) + len(theirs)]] for ours, theirs in pairs])


def _mean_ratio(counts: Counts) -> NDArray[np.float64]:
    """(..., ratios, 2) -> (...): a ratio over nothing is left out; 0 where all are."""
    above, below = counts[..., 0], counts[..., 1]
    there = below > 0
    ratios = np.divide(above, below, out=np.zeros_like(above), where=there)
    mean: NDArray[np.float64] = ratios.sum(axis=-1) / np.maximum(there.sum(axis=-1), 1)
    return mean
