"""A picture's frame and its file (extra `plots`): drawn without a display and without touching global settings."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from anaume.data.atomic import atomic_file
from anaume.errors import AnaumeWarning, DataError, MissingExtra

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, distinct to colour-blind readers."""
NO_FONT = "no font here has"


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of this many inches. Raises MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a picture", "plots") from None
    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure as .png, .svg or .pdf, whole or not at all. Raises DataError for another ending or a full disk.

    Letters that no font of this machine has are boxes in it: an AnaumeWarning that begins with `NO_FONT` says so.
    """
    from matplotlib import rc_context

    target = Path(path)
    kind = target.suffix.lower().lstrip(".")
    if kind not in ("png", "svg", "pdf"):
        raise DataError(f"a picture is written as .png, .svg or .pdf; got {target.name!r}")
    # Fonts that hold Japanese where they are installed, the library's own otherwise.
    fonts = ["DejaVu Sans", "Noto Sans CJK JP", "IPAexGothic", "Hiragino Sans", "Yu Gothic"]
    with (
        rc_context({"font.family": _installed(fonts)}),
        atomic_file(target) as file,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        figure.savefig(file, format=kind)
    boxes = {str(one.message) for one in caught if str(one.message).startswith("Glyph ")}
    for one in caught:
        if str(one.message) not in boxes:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if boxes:
        told = f"{NO_FONT} {len(boxes)} letter{'' if len(boxes) == 1 else 's'} of {target.name}, where boxes stand"
        warnings.warn(f"{told}: install one that does, such as Noto Sans CJK JP", AnaumeWarning, stacklevel=3)


def _installed(fonts: list[str]) -> list[str]:
    from matplotlib.font_manager import fontManager

    known = {entry.name for entry in fontManager.ttflist}
    return [font for font in fonts if font in known]
