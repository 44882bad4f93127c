"""The curves of a fine-tuning, all seeds in one picture (extra `plots`): M/curves.png."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anaume.data.pictures import PALETTE, new_figure, save_figure
from anaume.errors import DataError, SettingsError
from anaume.training.drawing import CURVES, check_rows, column, draw_line, head, legend, tidy
from anaume.training.finetuning.start import begun_seeds, seed_folder, stored_settings
from anaume.training.records import METRICS, read_lines

Rows = Sequence[Mapping[str, Any]]

_GREY = "#555555"
# Beyond the frame's edge, too; an empty line that is not clipped would push the panels out of sight.
_DOTS: dict[str, Any] = {"marker": "o", "linestyle": "--", "linewidth": 1.0, "clip_on": False}


def curves(folder: str | Path, path: str | Path | None = None) -> Path:
    """Draw the curves of the fine-tuning in `folder`, finished or not; return the picture's path.

    path  .png, .svg or .pdf; None = curves.png in its folder

    Raises DataError where it is no fine-tuning, or no seed has a step to draw, or the picture can't be written,
    MissingExtra without matplotlib.
    """
    folder = Path(folder)
    path = folder / CURVES if path is None else Path(path)
    try:
        stored_settings(folder)
    except SettingsError as error:
        raise DataError(
            f"{folder}: what it holds is no fine-tuning ({error}); of a pretraining give its own folder"
        ) from error
    seeds = {}
    for seed in begun_seeds(folder):
        metrics = seed_folder(folder, seed) / METRICS
        if metrics.exists():
            seeds[seed] = rows = read_lines(metrics)
            check_rows(rows, metrics, _needed, ("loss", *{name for row in rows for name in row if _is_score(name)}))
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
        label = f"seed {seed}" if metric is None else "_"  # with scores, the panel below names the seeds
        draw_line(panels[0], column(trained, "step"), column(trained, "loss"), label, colour)
        if scored:
            panels[0].plot(column(scored, "step"), column(scored, "dev_loss"), **_DOTS, color=colour)
        if scored and metric is not None:
            _draw_scores(panels[1], scored, f"dev_{metric}", f"seed {seed}", colour)
    panels[0].plot([], [], color=_GREY, linewidth=1.4, label="training")
    panels[0].plot([], [], color=_GREY, **_DOTS | {"clip_on": True}, label="held out")
    panels[0].set_ylabel("loss")
    panels[1].set_ylabel("nothing was held out" if metric is None else f"{metric}, held out")
    panels[1].set_xlabel("steps")
    panels[1].xaxis.set_major_formatter("{x:,g}")
    panels[1].locator_params(axis="x", integer=True)
    panels[1].set_xlim(0.0, max(row["step"] for rows in seeds.values() for row in rows) or 1)
    for axes in panels:
        if axes.get_legend_handles_labels()[0]:
            legend(axes)
    tidy(panels)
    head(figure, title)
    return figure


def _needed(row: Mapping[str, Any]) -> tuple[str, ...]:
    return ("step",)


def _is_score(name: str) -> bool:
    return name.startswith("dev_")


def _metric(seeds: Mapping[int, Rows]) -> str | None:
    """Return the score that decided, which stands first among those of an evaluation; None where there is none."""
    for rows in seeds.values():
        for row in rows:
            names = [name.removeprefix("dev_") for name in row if _is_score(name) and name != "dev_loss"]
            if names:
                return names[0]
    return None


def _draw_scores(axes: Any, rows: Rows, key: str, label: str, colour: str) -> None:
    """Draw the scores of a seed, with a ring around the evaluation whose weights were kept."""
    over, scores = column(rows, "step"), column(rows, key)
    best = [place for place, row in enumerate(rows) if row.get("best")][-1:]
    told = f"{label}: {scores[best[0]]:.4f}" if best else label
    axes.plot(over, scores, **_DOTS, color=colour, label=told)
    if best:
        ring = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "clip_on": False}
        axes.plot(over[best], scores[best], **ring, color=colour)
