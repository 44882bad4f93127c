"""The curves of a run, drawn from its metrics (extra `plots`): RUN/curves.png."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.data.pictures import PALETTE, new_figure, save_figure
from anaume.errors import DataError, MissingExtra, SettingsError
from anaume.logs import get_logger
from anaume.training.folder import SOURCE, read_source
from anaume.training.pretraining.progress import Landmarks, duration
from anaume.training.pretraining.result import stored_settings
from anaume.training.records import METRICS, read_lines

log = get_logger(__name__)

CURVES = "curves.png"

_TRAIN, _HELD_OUT, _PAIRS, _HELD_OUT_PAIRS = PALETTE[0], PALETTE[1], PALETTE[5], PALETTE[4]
_NEEDED = ("step", "seconds", "tokens", "learning_rate")
"""What each training row has."""
_DRAWN = ("token_loss", "accuracy", "pair_accuracy", "held_out_loss", "held_out_accuracy", "held_out_pair_accuracy")
_GREY = "#555555"
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.0}  # behind words that lie on lines
_MANY_ROWS = 150  # from here on single rows are noise around a mean

Floats = NDArray[np.float64]


def curves(folder: str | Path, path: str | Path | None = None) -> Path:
    """Draw the curves of the run in `folder`, finished or not; return the picture's path.

    path  .png, .svg or .pdf; None = curves.png in the run's folder

    Raises DataError for a folder without metrics or a picture that can't be written, MissingExtra without matplotlib.
    """
    folder = Path(folder)
    path = folder / CURVES if path is None else Path(path)
    if not (folder / METRICS).exists():
        raise DataError(f"{folder}: holds no {METRICS}; give the folder of a run (anaume pretrain ... -o RUN)")
    rows = read_lines(folder / METRICS)
    _check(rows, folder / METRICS)
    try:
        settings = stored_settings(folder)
    except SettingsError as error:
        raise DataError(
            f"{folder}: its settings.toml is not that of a run of pretraining, whose curves are drawn "
            "(anaume pretrain ... -o RUN)"
        ) from error
    timed = settings is not None and settings.run.minutes is not None
    save_figure(plot_curves(rows, _told_landmarks(folder), by_time=timed, title=folder.resolve().name), path)
    return path


def plot_curves(rows: Sequence[dict[str, Any]], landmarks: Landmarks | None, *, by_time: bool, title: str) -> Any:
    """Return a matplotlib figure of loss, accuracy and learning rate over a run.

    rows       of metrics.jsonl
    landmarks  what the loss is read beside; None = not known
    by_time    over minutes instead of steps

    Raises DataError where no step was trained, MissingExtra without matplotlib.
    """
    figure = new_figure(9, 8)
    table = _Table.of(rows, by_time, title)
    panels = figure.subplots(3, 1, sharex=True, height_ratios=(3.0, 1.8, 1.0))
    _draw_loss(panels[0], table, landmarks)
    _draw_accuracy(panels[1], table)
    _draw_rate(panels[2], table)
    panels[2].set_xlabel("minutes" if by_time else "steps")
    panels[2].xaxis.set_major_formatter("{x:,g}")
    # An evaluation may stand behind the last training row; beyond the limit it would push the panels out of sight.
    panels[2].set_xlim(0.0, max(*table.over[-1:], *table.over_held_out[-1:], 1e-9))
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    last = table.trained[-1]
    done = f"{last['step']:,} steps, {last['tokens']:,} tokens, {duration(last['seconds'])}"
    figure.suptitle(f"{title}: {done}", x=0.01, ha="left", fontsize=11)
    return figure


class CurvesFile:
    """Draws a run's curves anew when asked. What keeps it from that is said once, and stops nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: set[str] = set()

    def __call__(self, row: dict[str, Any]) -> None:
        """Draw after an evaluation during the run; its end draws once more, when its time is no longer counted."""
        if "held_out_loss" in row and 0.0 < row["fraction"] < 1.0:
            self.draw()

    def draw(self) -> None:
        """Draw what metrics.jsonl holds now."""
        try:
            with warnings.catch_warnings():
                # The font may lack a letter of the folder's name: a box in the title is warning enough.
                warnings.filterwarnings("ignore", "Glyph", UserWarning)
                curves(self._folder)
        except MissingExtra as missing:
            self._say("info", f"no {CURVES}: {missing}")
        except Exception as error:  # whatever a library for pictures comes up with must not end a run of days
            self._say("warning", f"{CURVES} was not drawn: {error}")

    def _say(self, level: str, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            getattr(log, level)("%s", line)


def _told_landmarks(folder: Path) -> Landmarks | None:
    """Return the landmarks in run.json; None where there are none. Raises DataError for what are no landmarks."""
    told = read_source(folder).get("landmarks") if (folder / SOURCE).exists() else None
    if told is None:
        return None
    names = [field.name for field in fields(Landmarks)]
    if not isinstance(told, dict) or sorted(told) != sorted(names) or not all(map(_is_number, told.values())):
        raise DataError(f"{folder / SOURCE}: landmarks must be the numbers {' and '.join(names)}; got {told}")
    return Landmarks(**told)


def _check(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Raise DataError for a row that no run writes: what is drawn is a number, or null where it was not finite."""
    for number, row in enumerate(rows, start=1):
        needed = _NEEDED if "token_loss" in row else ("step",)
        drawn = {key: row.get(key) for key in (*needed, *_DRAWN) if key in needed or row.get(key) is not None}
        for key, value in drawn.items():
            if not _is_number(value):
                raise DataError(f"{path}, line {number}: {key} must be a number; got {value!r}")


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


@dataclass(frozen=True)
class _Table:
    """The rows of both kinds, and where they stand on the x axis."""

    trained: list[dict[str, Any]]
    held_out: list[dict[str, Any]]
    over: Floats
    over_held_out: Floats

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]], by_time: bool, title: str) -> _Table:
        trained = [row for row in rows if "token_loss" in row]
        if not trained:
            raise DataError(f"{title}: no step was trained yet, so there is nothing to draw")
        held_out = [row for row in rows if "held_out_loss" in row]
        steps, held_out_steps = _column(trained, "step"), _column(held_out, "step")
        if not by_time:
            return cls(trained, held_out, steps, held_out_steps)
        minutes = _column(trained, "seconds") / 60.0
        # A held-out row has no time of its own: it stands between the training rows beside it.
        return cls(trained, held_out, minutes, np.interp(held_out_steps, steps, minutes))


def _column(rows: Sequence[dict[str, Any]], key: str) -> Floats:
    """Return a value of each row; NaN, which is not drawn, where it was not finite or there is none."""
    return np.array([row.get(key) for row in rows], dtype=np.float64)  # None becomes NaN


def _draw_loss(axes: Any, table: _Table, landmarks: Landmarks | None) -> None:
    _line(axes, table.over, _column(table.trained, "token_loss"), "training", _TRAIN)
    _points(axes, table.over_held_out, _column(table.held_out, "held_out_loss"), "held-out", _HELD_OUT, "{:.2f}")
    _draw_landmarks(axes, landmarks)
    axes.set_ylabel("loss, nats a predicted token")
    _legend(axes)


def _draw_accuracy(axes: Any, table: _Table) -> None:
    for what, key, colours in (
        ("top-1", "accuracy", (_TRAIN, _HELD_OUT)),
        ("pairs", "pair_accuracy", (_PAIRS, _HELD_OUT_PAIRS)),
    ):
        if any(key in row for row in table.trained):
            _line(axes, table.over, 100.0 * _column(table.trained, key), f"{what}, training", colours[0])
            there = 100.0 * _column(table.held_out, f"held_out_{key}")
            _points(axes, table.over_held_out, there, f"{what}, held-out", colours[1], "{:.1f}")
    axes.set_ylabel("right at first guess, %")
    axes.set_ylim(bottom=0.0)
    _legend(axes)


def _draw_rate(axes: Any, table: _Table) -> None:
    rates = _column(table.trained, "learning_rate")
    axes.plot(table.over, rates, color=PALETTE[2])
    axes.set_ylabel("learning rate")
    axes.set_ylim(0.0, 1.08 * rates.max() or None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)


def _legend(axes: Any) -> None:
    """Put the legend above the panel: inside, some run's curve lies under it."""
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)


def _line(axes: Any, over: Floats, values: Floats, label: str, colour: str) -> None:
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


def _points(axes: Any, over: Floats, values: Floats, label: str, colour: str, form: str) -> None:
    """Draw a point for each evaluation, the last one with its value."""
    if not len(values):
        return
    axes.plot(over, values, color=colour, label=label, marker="o", linestyle="--", linewidth=1.0, clip_on=False)
    if np.isfinite(values[-1]):
        place = {"xy": (over[-1], values[-1]), "xytext": (7, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(form.format(values[-1]), **place, color=colour, annotation_clip=False).set_bbox(_PAPER)


def _draw_landmarks(axes: Any, landmarks: Landmarks | None) -> None:
    """Draw the losses of models that know nothing, or say that all losses so far lie far below them."""
    if landmarks is None:
        return
    names = {
        landmarks.uniform: f"ln V = {landmarks.uniform:.2f}: every token equally likely",
        landmarks.floor: f"floor {landmarks.floor:.2f}: knows only how frequent tokens are",
    }
    style = {"color": _GREY, "fontsize": 9, "ha": "right", "va": "bottom", "textcoords": "offset points"}
    low, high = axes.get_ylim()
    if high < landmarks.floor - (high - low):  # a good model goes on: its curve would be squeezed into a line
        axes.annotate(
            "\n".join(["further up:", *names.values()]), (1.0, 0.86), xycoords="axes fraction", xytext=(-4, 0), **style
        )
        return
    for value, name in names.items():
        axes.axhline(value, color=_GREY, linestyle=":", linewidth=1.2)
        axes.annotate(name, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-4, 3), **style).set_bbox(_PAPER)
