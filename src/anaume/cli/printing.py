"""Results for people and for programs, on stdout: aligned tables, JSON, numbers. Colour and boxes would break pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO


def say(text: str = "") -> None:
    """Print one line of a result."""
    print(text, file=sys.stdout)


def say_json(value: Any) -> None:
    """Print a value as JSON on one line; consoles that are not UTF-8 get the same value in JSON's own escapes."""
    unicode = _encoding(sys.stdout).lower().replace("-", "").replace("_", "").startswith("utf")
    print(json.dumps(value, ensure_ascii=not unicode, allow_nan=False), file=sys.stdout)


def printable(text: str, stream: TextIO | None = None) -> str:
    r"""Return text as it can be shown on a line of the stream: what can't is a backslash escape.

    >>> printable("a\tb\x1b[31m")
    'a\\tb\\x1b[31m'
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
    encoding = _encoding(stream or sys.stdout)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def table(names: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """Print rows under their names, aligned by the cells a terminal gives each character (two to a kanji).

    right  the columns set to the right; a cell that is None is shown as "-"
    """
    from rich.cells import cell_len

    lines = [[printable(name) for name in names]]
    lines += [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(cell_len(line[place]) for line in lines) for place in range(len(names))]
    for line in lines:
        cells = []
        for name, cell, width in zip(names, line, widths, strict=True):
            blank = " " * (width - cell_len(cell))
            cells.append(blank + cell if name in right else cell + blank)
        say("  ".join(cells).rstrip())


def facts(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print name and value, one a line, values aligned."""
    shown = [(name, printable(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        say(f"{name.ljust(width)}  {value}".rstrip())


def clipped(text: str, width: int | None) -> str:
    """Return text of at most `width` characters, its end replaced by "..." where it was longer; None = whole.

    >>> clipped("a long story", 9)
    'a long...'
    """
    return text if width is None or len(text) <= width else text[: width - 3].rstrip() + "..."


def megabytes(count: int) -> str:
    """Return bytes as people count them.

    >>> megabytes(90_000_000)
    '90.0 MB (85.8 MiB)'
    """
    return f"{count / 1e6:,.1f} MB ({count / 2**20:,.1f} MiB)"


def percent(share: float) -> str:
    """Return a share with one decimal; what is not whole never reads 100.0%, nor nothing 0.0%.

    >>> percent(0.99999), percent(1.0), percent(0.00001), percent(0.0)
    ('>99.9%', '100.0%', '<0.1%', '0.0%')
    """
    if 0.0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1.0:
        return ">99.9%"
    return f"{share:.1%}"


def _encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"
