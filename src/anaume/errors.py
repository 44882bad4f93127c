"""The exceptions of anaume.

    AnaumeError                     something asked of anaume can't be done; the message says what to do next
    ├── SettingsError  (ValueError) a setting, an argument or a shape is wrong
    ├── DataError      (ValueError) a file, a row or a text is wrong: names file, row and field
    ├── TokenizerError (ValueError) a vocabulary or tokenizer file is wrong or does not fit
    ├── BundleError    (ValueError) a bundle or a checkpoint can't be trusted, read or written
    └── MissingExtra   (ImportError) an optional dependency is not installed: names the install line

    AnaumeWarning  (UserWarning)    done, but the user must know: counts of what was cut, unknown or unfit

A message says what was expected, what came (with numbers, file, row, field), and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AnaumeError(Exception):
    """The root: catch this to catch everything anaume raises on purpose."""


class SettingsError(AnaumeError, ValueError):
    """A setting, an argument or a shape is wrong."""


class DataError(AnaumeError, ValueError):
    """A file, a row or a text is wrong; the message names file, row and field."""


class TokenizerError(AnaumeError, ValueError):
    """A vocabulary or a tokenizer file is wrong, or does not fit what it is used with."""


class BundleError(AnaumeError, ValueError):
    """A bundle or a checkpoint can't be trusted, read or written."""


class MissingExtra(AnaumeError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency; install it with: pip install 'anaume[{extra}]'")
        self._made_from = (what, extra)

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        """Say how to rebuild it: a worker process sends its exceptions pickled."""
        return type(self), self._made_from


class AnaumeWarning(UserWarning):
    """It was done, but something was cut, unknown or unfit; the message carries counts."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint " (did you mean 'x'?)" for a misspelt name, or "" when nothing known is close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
