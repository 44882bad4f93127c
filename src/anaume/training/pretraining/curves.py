"""The curves of a run, drawn from its metrics (extra `plots`): RUN/curves.png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from anaume.data.pictures import PALETTE, new_figure, save_figure
from anaume.errors import DataError, SettingsError
from anaume.training.drawing import (
    CURVES,
    PAPER,
    Floats,
    Picture,
    check_rows,
    column,
    draw_line,
    draw_points,
    head,
    is_number,
    legend,
    tidy,
)
from anaume.training.folder import SOURCE, read_source
from anaume.training.pretraining.progress import Landmarks, duration
from anaume.training.pretraining.result import stored_settings
from anaume.training.records import METRICS, read_lines

_TRAIN, _HELD_OUT, _PAIRS, _HELD_OUT_PAIRS = PALETTE[0], PALETTE[1], PALETTE[5], PALETTE[4]
_NEEDED = ("step", "seconds", "tokens", "learning_rate")
"""What each training row has."""
_DRAWN = ("token_loss", "accuracy", "pair_accuracy", "held_out_loss", "held_out_accuracy", "held_out_pair_accuracy")
_GREY = "#555555"


def curves(folder: str | Path, path: str | Path | None = None) -> Path:
    """Draw the curves of the run in `folder`, finished or not; return the picture's path.

    path  .png, .svg or .pdf; None = curves.png in the run's folder

    Raises DataError for a folder without metrics or a picture that can't be written, MissingExtra without matplotlib.
    """
    folder = Path(folder)
    path = folder / CURVES if path is None else Path(path)
    if not (folder / METRICS).exists():
        raise DataError(
            f"{folder}: holds no {METRICS}; give the folder of a run (the -o of anaume pretrain or finetune)"
        )
    rows = read_lines(folder / METRICS)
    check_rows(rows, folder / METRICS, _needed, _DRAWN)
    try:
        settings = stored_settings(folder)
    except SettingsError as error:
        raise DataError(
            f"{folder}: its settings.toml is not that of a pretraining (anaume pretrain ... -o RUN); of a fine-tuning "
            "give the folder that holds its seeds"
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
    tidy(panels)
    last = table.trained[-1]
    done = f"{last['step']:,} steps, {last['tokens']:,} tokens, {duration(last['seconds'])}"
    head(figure, f"{title}: {done}")
    return figure


class CurvesFile(Picture):
    """The picture of a run, drawn as it goes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda: curves(folder))

    def __call__(self, row: dict[str, Any]) -> None:
        """Draw after an evaluation during the run; its end draws once more, when its time is no longer counted."""
        if "held_out_loss" in row and 0.0 < row["fraction"] < 1.0:
            self.draw()


def _told_landmarks(folder: Path) -> Landmarks | None:
    """Return the landmarks in run.json; None where there are none. Raises DataError for what are no landmarks."""
    told = read_source(folder).get("landmarks") if (folder / SOURCE).exists() else None
    if told is None:
        return None
    names = [field.name for field in fields(Landmarks)]
    if not isinstance(told, dict) or sorted(told) != sorted(names) or not all(map(is_number, told.values())):
        raise DataError(f"{folder / SOURCE}: landmarks must be the numbers {' and '.join(names)}; got {told}")
    return Landmarks(**told)


def _needed(row: Mapping[str, Any]) -> tuple[str, ...]:
    return _NEEDED if "token_loss" in row else ("step",)


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
        steps, held_out_steps = column(trained, "step"), column(held_out, "step")
        if not by_time:
            return cls(trained, held_out, steps, held_out_steps)
        minutes = column(trained, "seconds") / 60.0
        # A held-out row has no time of its own: it stands between the training rows beside it.
        return cls(trained, held_out, minutes, np.interp(held_out_steps, steps, minutes))


def _draw_loss(axes: Any, table: _Table, landmarks: Landmarks | None) -> None:
    draw_line(axes, table.over, column(table.trained, "token_loss"), "training", _TRAIN)
    draw_points(axes, table.over_held_out, column(table.held_out, "held_out_loss"), "held-out", _HELD_OUT, "{:.2f}")
    _draw_landmarks(axes, landmarks)
    axes.set_ylabel("loss, nats a predicted token")
    legend(axes)


def _draw_accuracy(axes: Any, table: _Table) -> None:
    for what, key, colours in (
        ("top-1", "accuracy", (_TRAIN, _HELD_OUT)),
        ("pairs", "pair_accuracy", (_PAIRS, _HELD_OUT_PAIRS)),
    ):
        if any(key in row for row in table.trained):
            draw_line(axes, table.over, 100.0 * column(table.trained, key), f"{what}, training", colours[0])
            there = 100.0 * column(table.held_out, f"held_out_{key}")
            draw_points(axes, table.over_held_out, there, f"{what}, held-out", colours[1], "{:.1f}")
    axes.set_ylabel("right at first guess, %")
    axes.set_ylim(bottom=0.0)
    legend(axes)


def _draw_rate(axes: Any, table: _Table) -> None:
    rates = column(table.trained, "learning_rate")
    axes.plot(table.over, rates, color=PALETTE[2])
    axes.set_ylabel("learning rate")
    axes.set_ylim(0.0, 1.08 * rates.max() or None)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)


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
        axes.annotate(name, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-4, 3), **style).set_bbox(PAPER)
