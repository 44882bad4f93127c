"""The numbers of objectives, out of settings and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from anaume.data.labelled import SimilarityExample
from anaume.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The numbers of objectives."""

    scale: float = 20.0
    """What cosines are multiplied by; 1 / temperature."""
    margin: float = 1.0
    """How much nearer than the negative the positive of a triplet should be."""
    lowest: float = 0.0
    highest: float = 1.0
    """The range of scores, which becomes cosines 0 to 1."""
    margins: int = 0
    """The most negatives that a teacher scored in one example."""
    deleted: float = 0.6
    """The share of a text's pieces that a denoising objective takes away."""

    @classmethod
    def of(
        cls,
        examples: Sequence[SimilarityExample],
        *,
        scale: float,
        margin: float,
        score_range: Sequence[float] | None,
        deleted: float = 0.6,
    ) -> Self:
        """Return the terms that examples and settings give. Raises SettingsError for a wrong one."""
        for name, value in (("scale", scale), ("margin", margin)):
            if not value > 0.0:
                raise SettingsError(f"task.{name} must be above 0; got {value}")
        if not 0.0 < deleted < 1.0:
            raise SettingsError(f"task.deleted must lie between 0 and 1; got {deleted}")
        numbers = [example.label for example in examples if isinstance(example.label, float)]
        ends = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
        if score_range is not None:
            if len(score_range) != 2 or not score_range[0] < score_range[1]:
                raise SettingsError(f"task.score_range must be the lowest and the highest score; got {score_range}")
            if numbers and (ends[0] < score_range[0] or ends[1] > score_range[1]):
                raise SettingsError(
                    f"task.score_range is {score_range[0]:g} to {score_range[1]:g}; the scores go from {ends[0]:g} to "
                    f"{ends[1]:g}"
                )
            ends = (score_range[0], score_range[1])
        margins = max((len(example.label) for example in examples if isinstance(example.label, tuple)), default=0)
        return cls(scale=scale, margin=margin, lowest=ends[0], highest=ends[1], margins=margins, deleted=deleted)

    def to_dict(self) -> dict[str, Any]:
        """Return them ready for JSON."""
        return asdict(self)
