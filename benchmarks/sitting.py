"""The command line of a study: its rows can be run over many sittings, and its page is made of those that are there."""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from anaume.errors import AnaumeError, nearest
from benchmarks import harness
from benchmarks.harness import say
from benchmarks.study import Study

Page = Callable[[Study], str]


class AnyStudy(Protocol):
    """Rows of any kind, each with a name, that can be run and kept; `Study` says what each of these is."""

    @property
    def rows(self) -> Sequence[Any]: ...

    def state(self, row: Any) -> str: ...

    def minutes(self, row: Any) -> float | None: ...

    def forget(self, name: str) -> None: ...

    def run(self, row: Any, *, threads: int | None = None) -> dict[str, Any] | None: ...

    def measure_rates(self, rows: Sequence[Any], *, rounds: int, seconds: float, fresh: bool = False) -> None: ...


S = TypeVar("S", bound=AnyStudy)


def main(
    description: str | None,
    study: S,
    page: Callable[[S], str],
    *,
    quick: Callable[[], tuple[S, Callable[[S], str]]],
    others: Mapping[str, Callable[[S], str]] | None = None,
    argv: Sequence[str] | None = None,
) -> None:
    """Do what the command line asks for, then make the page.

    quick   makes a study of a few steps, kept apart from the real one, that only shows that everything works
    others  further pages, each made where the option of its name says: ja -> --ja PATH
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--list", action="store_true", help="say what is done and what is missing, and do nothing")
    parser.add_argument("--rates", action="store_true", help="measure seconds a step, on a quiet machine, and no more")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of --rates")
    parser.add_argument("--seconds", type=float, default=15, help="about how long a round of --rates trains a kind")
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name is like this (*, ?)")
    parser.add_argument("--fresh", metavar="NAME", action="append", default=[], help="forget this row first")
    parser.add_argument("--fresh-rates", action="store_true", help="with --rates: measure those that are kept, too")
    parser.add_argument("--stop-after", metavar="MINUTES", type=float, help="stop then; the same line goes on")
    parser.add_argument("--threads", type=int, metavar="N", help="begin runs with N threads; their steps stay the same")
    parser.add_argument("--page", action="store_true", help="only make the page of the rows that are there")
    parser.add_argument("--quick", action="store_true", help="a few steps of a few rows, only to show that it works")
    parser.add_argument("-o", "--out", type=Path, help="write the page here (else it is printed)")
    for name in others or {}:
        parser.add_argument(f"--{name}", metavar="PATH", type=Path, help=f"write its {name} page here")
    given = parser.parse_args(argv)
    if given.quick:
        study, page = quick()
    names = [row.name for row in study.rows]
    rows = [row for row in study.rows if fnmatch.fnmatchcase(row.name, given.only or "*")]
    if not rows:
        parser.error(f"no row is like {given.only!r}{nearest(given.only, names)}; --list shows them")
    for name in given.fresh:
        if name not in names:
            parser.error(f"there is no row {name!r}{nearest(name, names)}; --list shows them")
        study.forget(name)
    if given.list:
        print(listing(study, rows))
        return
    if given.stop_after is not None:
        _stop_after(60 * given.stop_after)
    try:
        if given.quick:
            for row in rows:
                study.forget(row.name)  # what shows that it works is not kept
            study.measure_rates(rows, rounds=1, seconds=0.1)
        if given.rates:
            study.measure_rates(rows, rounds=given.rounds, seconds=given.seconds, fresh=given.fresh_rates)
        elif not given.page and not run(study, rows, given.threads):
            say("stopped; nothing is lost, and the same line goes on")
    except KeyboardInterrupt:
        say("stopped; nothing is lost, and the same line goes on")
    except AnaumeError as error:
        parser.exit(1, f"{error}\n")
    harness.publish(page(study), given.out)
    for name, other in (others or {}).items():
        if (out := getattr(given, name)) is not None:
            harness.publish(other(study), out)


def run(study: AnyStudy, rows: Sequence[Any], threads: int | None = None) -> bool:
    """Run the rows that are not done; False if it was stopped."""
    for row in rows:
        state = study.state(row)
        if state == "done":
            continue
        if state == "no rate":
            say(f"{row.name}: not run: nothing tells the seconds a step; measure with --rates")
            continue
        if state == "changed":
            say(f"{row.name}: not run: kept under another definition; --fresh {row.name} forgets that one")
            continue
        worth = study.minutes(row)
        say(f"{row.name}: " + ("begins" if worth is None else f"{worth:.3g} minutes' worth"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line = study.run(row, threads=threads)
        if line is None:
            return False
        steps = f"{line['steps']:,} steps in " if "steps" in line else ""
        say(f"{row.name}: {steps}{line['seconds'] / 60:.1f} minutes: {line['scores']}")
    return True


def listing(study: AnyStudy, rows: Sequence[Any]) -> str:
    """Return a line a row: its state, the minutes it needs, its name; and the sum of what is missing."""
    states = {row.name: study.state(row) for row in rows}
    minutes = {row.name: study.minutes(row) for row in rows}
    lines = [f"{state:8}  {_told(minutes[name]):>6} min  {name}" for name, state in states.items()]
    left = [minutes[name] for name, state in states.items() if state != "done"]
    unknown = "" if None not in left else f", and {left.count(None)} of them an unknown time"
    done = len(states) - len(left)
    needed = sum(worth for worth in left if worth is not None)
    return "\n".join([*lines, f"{done} of {len(states)} done; the others need {needed:.4g} minutes{unknown}"])


def _told(minutes: float | None) -> str:
    return "?" if minutes is None else f"{minutes:.3g}"


def _stop_after(seconds: float) -> None:
    """Send this process what Ctrl-C sends, when the time has come."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
