"""What a check says: one row each, with the number that was measured and the bound it was held to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    promise: int
    """The number of the promise, as in the README."""
    what: str
    measured: str
    bound: str
    status: Status
    hint: str = ""
    """What to do when it failed, or how it could be checked."""


@dataclass(frozen=True)
class VerifyReport:
    """Every row, in the order of the promises."""

    rows: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True when nothing failed; what could not be checked does not count."""
        return all(row.status != "failed" for row in self.rows)


def verdict(promise: int, what: str, measured: str, bound: str, kept: bool, hint: str = "") -> Check:
    """Return a row that is ok or failed; the hint is kept for a failure only."""
    return Check(promise, what, measured, bound, "ok" if kept else "failed", "" if kept else hint)


def compared(promise: int, what: str, difference: float, bound: float, hint: str, note: str = "") -> Check:
    """Return a row that holds a largest difference against a bound. NaN fails."""
    return verdict(promise, what, f"{difference:.1e}{note}", f"{bound:.1e}", difference <= bound, hint)


def guarded(promise: int, what: str, rows: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Yield rows; an exception becomes a failed row, so that one broken part does not hide the others."""
    try:
        yield from rows()
    except Exception as error:  # whatever it is: a check that can't be carried out is a finding
        found = f"{type(error).__name__}: {error}"
        yield Check(promise, what, found, "no error", "failed", "this check could not be carried out")
