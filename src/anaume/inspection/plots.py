"""Pictures of what was inspected (extra `plots`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anaume.data.pictures import PALETTE, new_figure, save_figure
from anaume.inspection.attention import AttentionReport
from anaume.inspection.words import WordReport


def plot_word(report: WordReport, path: str | Path) -> None:
    """Draw the cosines within and across senses by layer, and the last layer's vectors on their two main axes."""
    figure = new_figure(11, 4.6)
    lines, points = figure.subplots(1, 2)
    names = [row.layer for row in report.layers]
    for label, values, colour in (
        ("same sense", [row.within for row in report.layers], PALETTE[0]),
        ("different senses", [row.across for row in report.layers], PALETTE[1]),
    ):
        lines.plot(range(len(names)), values, marker="o", label=label, color=colour)
    lines.set_xticks(range(len(names)), names, rotation=45, ha="right")
    lines.set_ylabel("mean cosine")
    lines.set_title(f"“{report.word}”: one row of the table, many vectors")
    lines.grid(alpha=0.3)
    lines.legend(frameon=False)

    centred = report.vectors[-1] - report.vectors[-1].mean(axis=0)
    _, strengths, axes = np.linalg.svd(centred, full_matrices=False)
    flat = centred @ axes[:2].T
    shares = (strengths**2 / max(float((strengths**2).sum()), 1e-12))[:2]
    for place, sense in enumerate(dict.fromkeys(report.senses)):
        chosen = [row for row, other in enumerate(report.senses) if other == sense]
        points.scatter(flat[chosen, 0], flat[chosen, 1], s=60, color=PALETTE[place % len(PALETTE)], label=sense)
    for row, (x, y) in enumerate(flat[:, :2]):
        points.annotate(str(row + 1), (x, y), xytext=(5, 5), textcoords="offset points", fontsize=8)
    points.set_title("last layer, each dot one sentence")
    points.set_xlabel(f"first main axis ({shares[0]:.0%})")
    points.set_ylabel(f"second main axis ({shares[1] if len(shares) > 1 else 0:.0%})")
    points.grid(alpha=0.3)
    points.legend(frameon=False)
    save_figure(figure, path)


def plot_attention(report: AttentionReport, path: str | Path) -> None:
    """Draw how much attention each token gets in each layer."""
    figure = new_figure(max(6.0, 0.5 * len(report.tokens) + 2), 0.45 * len(report.weights) + 2.2)
    axes = figure.subplots()
    picture = axes.imshow(report.looks(), aspect="auto", cmap="Blues", vmin=0.0)
    axes.set_xticks(range(len(report.tokens)), report.tokens, rotation=45, ha="right")
    axes.set_yticks(range(len(report.weights)), [f"layer {layer + 1}" for layer in range(len(report.weights))])
    source = "all tokens" if report.source is None else report.tokens[report.source]
    axes.set_title(f"where {source} looks, mean over heads")
    figure.colorbar(picture, ax=axes, label="share of attention")
    save_figure(figure, path)
