"""The curves of a fine-tuning, all seeds in one picture (extra `plots`): M/curves.png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anaume.data.pictures import PALETTE, new_figure, save_figure
from anaume.errors import DataError
from anaume.training.drawing import CURVES, PAPER, check_rows, column, draw_line, legend, tidy
from anaume.training.finetuning.start import begun_seeds, seed_folder
from anaume.training.records import METRICS, read_lines

Rows = Sequence[Mapping[str, Any]]


def curves(folder: str | Path, path: str | Path | None = None) -> Path:
    """Draw the curves of the fine-tuning in `folder`, finished or not; return the picture's path.

    path  .png, .svg or .pdf; None = curves.png in its folder

    Raises DataError where no seed has a step to draw, or the picture can't be written, MissingExtra without matplotlib.
    """
    folder = Path(folder)
    path = folder / CURVES if path is None else Path(path)
    seeds = {}
    for seed in begun_seeds(folder):
        metrics = seed_folder(folder, seed) / METRICS
        if metrics.exists():
            seeds[seed] = rows = read_lines(metrics)
            check_rows(rows, metrics, _needed, ("loss", "dev_loss"))
    save_figure(plot_curves(seeds, title=folder.resolve().name), path)
    return path


def plot_curves(seeds: Mapping[int, Rows], *, title: str) -> Any:
    """Return a matplotlib figure: the losses of every seed, and the score that decided, its best marked.

    seeds  seed -> rows of its metrics.jsonl

    Raises DataError where no step was trained, MissingExtra without matplotlib.
    """
    seeds = {seed: rows for seed, rows in seeds.items() if any("loss" in row for row in rows)}
    if not seeds:
        raise DataError(f"{title}: no step was trained (or none is told of), so there is nothing to draw")
    figure = new_figure(9, 7)
    panels = figure.subplots(2, 1, sharex=True)
    metric = _metric(seeds)
    for number, (seed, rows) in enumerate(seeds.items()):
        colour = PALETTE[number % len(PALETTE)]
        trained = [row for row in rows if "loss" in row]
        scored = [row for row in rows if "dev_loss" in row]
        draw_line(panels[0], column(trained, "step"), column(trained, "loss"), f"seed {seed}", colour)
        over = column(scored, "step")
        dots = {"color": colour, "marker": "o", "linestyle": "--", "linewidth": 1.0, "clip_on": False}
        panels[0].plot(over, column(scored, "dev_loss"), **dots)
        if metric is not None and len(scored):
            scores = column(scored, f"dev_{metric}")
            panels[1].plot(over, scores, **dots, label=f"seed {seed}")
            _mark_best(panels[1], over, scores, scored, colour)
    panels[0].plot([], [], color="#555555", linewidth=1.4, label="training")
    panels[0].plot([], [], color="#555555", marker="o", linestyle="--", linewidth=1.0, label="held out")
    panels[0].set_ylabel("loss")
    panels[1].set_ylabel("nothing was held out" if metric is None else f"{metric}, held out")
    panels[1].set_xlabel("steps")
    panels[1].xaxis.set_major_formatter("{x:,g}")
    panels[1].set_xlim(0.0, max(row["step"] for rows in seeds.values() for row in rows) or 1)
    for axes in panels:
        if axes.get_legend_handles_labels()[0]:
            legend(axes)
    tidy(panels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def _needed(row: Mapping[str, Any]) -> tuple[str, ...]:
    return ("step",)


def _metric(seeds: Mapping[int, Rows]) -> str | None:
    """Return the score that decided, which stands first among those of an evaluation; None where there is none."""
    for rows in seeds.values():
        for row in rows:
            names = [name.removeprefix("dev_") for name in row if name.startswith("dev_") and name != "dev_loss"]
            if names:
                return names[0]
    return None


def _mark_best(axes: Any, over: Any, scores: Any, rows: Rows, colour: str) -> None:
    """Put a ring and the score at the evaluation whose weights were kept."""
    best = [place for place, row in enumerate(rows) if row.get("best")]
    if not best or not np.isfinite(scores[best[-1]]):
        return
    at = (over[best[-1]], scores[best[-1]])
    axes.plot(*at, marker="o", markersize=11, markerfacecolor="none", color=colour, clip_on=False)
    style = {"textcoords": "offset points", "color": colour, "annotation_clip": False, "ha": "right", "va": "bottom"}
    axes.annotate(f"{at[1]:.4f}", at, xytext=(-7, 5), **style).set_bbox(PAPER)
