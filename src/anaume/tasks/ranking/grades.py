"""What the label of a query and a passage is worth: 0 to 1, whether it is a number, a grade or the name of a class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.vector_scores import ALIKE


@dataclass(frozen=True, kw_only=True)
class Grades:
    """What labels mean."""

    lowest: float = 0.0
    highest: float = 1.0
    """The range of numbers, brought to 0 .. 1."""
    positive: str | None = None
    """The class that is the better one, where labels are names."""

    @classmethod
    def of(
        cls, examples: Sequence[SimilarityExample], *, score_range: Sequence[float] | None, positive: str | None
    ) -> tuple[Self, str]:
        """Return what the labels of training examples mean, and the usual score of such examples.

        Raises DataError for numbers that don't differ or leave the range, SettingsError where it can't be told which
        class is the better one.
        """
        names = sorted({example.label for example in examples if isinstance(example.label, str)})
        numbers = [_number(example.label) for example in examples if not isinstance(example.label, tuple | None)]
        if not numbers:
            return cls(), "mrr@10"
        if None in numbers:
            return cls(positive=_positive(names, positive)), "average_precision"
        found = [number for number in numbers if number is not None]
        ends = (min(found), max(found)) if score_range is None else (score_range[0], score_range[-1])
        if not ends[0] < ends[1] or min(found) < ends[0] or max(found) > ends[1]:
            raise DataError(f"ranking needs labels that differ, within their range; got {ends[0]:g} to {ends[1]:g}")
        return cls(lowest=ends[0], highest=ends[1]), "average_precision" if set(found) <= {*ends} else "spearman"

    def target(self, example: SimilarityExample) -> float:
        """Return what is learned of an example's passage, 0 to 1; 1 for one without a label.

        Raises DataError for a label beyond the range.
        """
        label = example.label
        if label is None or isinstance(label, tuple):
            return 1.0
        if self.positive is not None:
            return float(label == self.positive)
        number = _number(label)
        if number is None or not self.lowest <= number <= self.highest:
            raise DataError(
                f"{example.place}: ranking has labels from {self.lowest:g} to {self.highest:g}; came {label!r:.60}"
            )
        return (number - self.lowest) / (self.highest - self.lowest)


def is_labelled(examples: Sequence[SimilarityExample]) -> bool:
    """Whether examples are pairs with a label, by the first; else they are queries with passages."""
    return bool(examples) and isinstance(examples[0].label, str | float)


def _number(label: str | float | tuple[float, ...] | None) -> float | None:
    try:
        number = float(label) if isinstance(label, str | float) else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _positive(names: Sequence[str], asked: str | None) -> str:
    if asked is None:
        found = [name for name in names if name.lower() in ALIKE]
        asked = found[0] if len(found) == 1 and len(names) == 2 else None
    if asked is None or asked not in names:
        raise SettingsError(
            f"which class is the better one? task.positive names it: {', '.join(names)}; numbers count as grades"
        )
    return asked
