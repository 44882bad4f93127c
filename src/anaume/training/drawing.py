"""What the pictures of runs share: lines, points of evaluations, and that no picture ever stops a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.data.pictures import NO_FONT
from anaume.errors import AnaumeWarning, DataError, MissingExtra
from anaume.logs import get_logger

log = get_logger(__name__)

CURVES = "curves.png"
PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.0}
"""Behind words that lie on lines."""
_MANY_ROWS = 150  # from here on single rows are noise around a mean

Floats = NDArray[np.float64]


class Picture:
    """Draws a run's curves anew when asked. What keeps it from that is said once, and stops nothing."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._said: set[str] = set()

    def draw(self) -> None:
        """Draw what the metrics hold now."""
        try:
            with warnings.catch_warnings():
                # Of the folder's name: a box in the title is warning enough.
                warnings.filterwarnings("ignore", NO_FONT, AnaumeWarning)
                self._make()
        except MissingExtra as missing:
            self._say("info", f"no {CURVES}: {missing}")
        except Exception as error:  # whatever a library for pictures comes up with must not end a run of days
            self._say("warning", f"{CURVES} was not drawn: {error}")

    def _say(self, level: str, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            getattr(log, level)("%s", line)


def check_rows(
    rows: Sequence[Mapping[str, Any]],
    path: Path,
    needed: Callable[[Mapping[str, Any]], Iterable[str]],
    drawn: Iterable[str],
) -> None:
    """Raise DataError for a row that no run writes: what is drawn is a number, or null where it was not finite.

    needed  row -> what it must have; drawn: what it may have
    """
    for number, row in enumerate(rows, start=1):
        must = tuple(needed(row))
        for key in (*must, *drawn):
            value = row.get(key)
            if (key in must or value is not None) and not is_number(value):
                raise DataError(f"{path}, line {number}: {key} must be a number; got {value!r}")


def is_number(value: object) -> bool:
    """Whether JSON's value is a number (true is none)."""
    return type(value) in (int, float)


def column(rows: Sequence[Mapping[str, Any]], key: str) -> Floats:
    """Return a value of each row; NaN, which is not drawn, where it was not finite or there is none."""
    return np.array([row.get(key) for row in rows], dtype=np.float64)  # None becomes NaN


def tidy(panels: Iterable[Any]) -> None:
    """Give panels a pale grid and two of their four edges."""
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)


def head(figure: Any, title: str) -> None:
    """Put a title above all panels, as it stands: dollars in a folder's name enclose no formula."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, parse_math=False)


def legend(axes: Any) -> None:
    """Put the legend above the panel: inside, some run's curve lies under it."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)


def draw_line(axes: Any, over: Floats, values: Floats, label: str, colour: str) -> None:
    """Draw a line; where there are many rows, their running mean with the rows pale behind it."""
    if len(values) < _MANY_ROWS:
        axes.plot(over, values, color=colour, label=label, linewidth=1.4)
        return
    axes.plot(over, values, color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(over, _running_mean(values, len(values) // 50), color=colour, label=label, linewidth=1.6)


def _running_mean(values: Floats, width: int) -> Floats:
    """Return the mean of the `width` values around each, of fewer at both ends; NaN does not count."""
    there = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(there, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(there)])
    places = np.arange(len(values))
    first, end = np.maximum(places - width // 2, 0), np.minimum(places + width // 2 + 1, len(values))
    found = counts[end] - counts[first]
    means: Floats = np.where(found > 0, (sums[end] - sums[first]) / np.maximum(found, 1), np.nan)
    return means


def draw_points(axes: Any, over: Floats, values: Floats, label: str, colour: str, form: str) -> None:
    """Draw a point for each evaluation, the last one with its value."""
    if not len(values):
        return
    axes.plot(over, values, color=colour, label=label, marker="o", linestyle="--", linewidth=1.0, clip_on=False)
    if np.isfinite(values[-1]):
        place = {"xy": (over[-1], values[-1]), "xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(form.format(values[-1]), **place, color=colour, annotation_clip=False).set_bbox(PAPER)
