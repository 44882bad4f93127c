"""Logging: one logger a module under "anaume", silent unless the program that uses us, or the command line, listens.

DEBUG lines stand at borders only (rows read, batch shapes, padding share, tensors loaded), never inside `forward`.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings

logging.getLogger("anaume").addHandler(logging.NullHandler())


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a module; call it with `__name__`."""
    return logging.getLogger(name)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (seconds since the epoch), level, logger, message; exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        row = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """The message alone at INFO; else "warning: message", "error: message"."""

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        text = super().format(record)
        return text if record.levelno == logging.INFO else f"{record.levelname.lower()}: {text}"


def configure(*, verbose: bool = False, quiet: bool = False, as_json: bool = False) -> None:
    """Send anaume's log lines and warnings to stderr; for the command line, never for library use.

    verbose shows DEBUG, quiet only errors; as_json prints one JSON object a line. Other libraries' loggers and
    warnings are left alone: only AnaumeWarning is turned into a log line.
    """
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.INFO
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    root = logging.getLogger("anaume")
    root.handlers = [handler]
    root.setLevel(level)
    root.propagate = False

    default = warnings.showwarning

    def show(message, category, filename, lineno, file=None, line=None):  # type: ignore[no-untyped-def]
        from anaume.errors import AnaumeWarning

        if issubclass(category, AnaumeWarning):
            root.warning("%s", message)
        else:
            default(message, category, filename, lineno, file, line)

    warnings.showwarning = show
