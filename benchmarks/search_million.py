"""A million vectors: exact and approximate search of the index beside faiss and usearch, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.harness import say
from benchmarks.jobs import Job, JobStudy, Line
from benchmarks.search_engines import AIMED, EXACT_QUESTIONS, WAYS, apart
from benchmarks.search_vectors import ASKED, MOVED, NEAREST, TUNING, VectorSet

COUNTS = (1_000_000,)
ROUNDS = 3
RECALL = 0.95
"""What is promised of the index."""

BUILDS = ("anaume-exact", "faiss-exact", "faiss-parts", "usearch-graph")
"""One way of each file or folder."""
SAID = {
    "anaume-exact": "anaume, exact",
    "anaume-parts": "anaume, in parts",
    "faiss-exact": "faiss IndexFlatIP",
    "faiss-parts": "faiss IndexIVFFlat",
    "usearch-exact": "usearch, exact",
    "usearch-graph": "usearch, graph (HNSW)",
}

ABOUT = """\
Vectors of 384 numbers by all-MiniLM-L6-v2: {real} of real texts (paragraphs of SQuAD, questions of Quora,
sentences of SNLI and of Tanaka's corpus), the others copies of them, each moved by {moved} of the difference of two
others and brought back to length 1. Asked are real questions, half of SQuAD, half of Quora, none of them in the
index; {tuning} for settings, {asked} for what is told ({exact} of the exact ways). One question at a time, vector
to the {nearest} nearest ids; each way in a process of its own, at its library's default threads, all taken turn by
turn in {rounds} rounds. Recall: the share of the {nearest} nearest, which numpy found by going through all. anaume
chooses its parts by itself when the index is built; faiss has as many parts, and it and usearch the least thorough
setting that finds {aimed:.0%} of the tuning questions'. anaume's hits carry text, place and metadata, read from the
disk, and every call checks the bundle's fingerprint; the others return numbers. Peak memory is that of the process,
of it before the index was opened: Python, torch and the checkpoint, which only anaume needs here. usearch keeps
16-bit numbers, its default."""


@dataclass(frozen=True, kw_only=True)
class Build(Job):
    """One file or folder, built in a process of its own."""

    way: str
    count: int
    made: bool = False

    @property
    def vectors(self) -> VectorSet:
        return VectorSet(count=self.count, made=self.made)

    def run(self, folder: Path, threads: int | None) -> Line | None:
        given = self.vectors
        given.vectors()
        given.truth()
        return {"scores": {}, "real": given.real, **apart("build", self.way, given)}


@dataclass(frozen=True, kw_only=True)
class Asked(Job):
    """Every way, turn by turn."""

    count: int
    made: bool = False
    rounds: int = ROUNDS
    ways: tuple[str, ...] = tuple(WAYS)
    builds: tuple[Build, ...] = field(default=())

    @property
    def needs(self) -> tuple[Job, ...]:
        return self.builds

    def run(self, folder: Path, threads: int | None) -> Line | None:
        given = VectorSet(count=self.count, made=self.made)
        about = {"commit": harness.commit(), "versions": harness.versions(), "row": self.definition}
        results = harness.Results("asked", about, folder=folder)
        for way in self.ways:
            results.remember(f"tuned {way}", lambda way=way: apart("tune", way, given))
        for round_ in range(self.rounds):
            shift = round_ % len(self.ways)
            for way in [*self.ways[shift:], *self.ways[:shift]]:
                if results.get(way, round_) is None:
                    told = apart("ask", way, given, results.get(f"tuned {way}")["setting"])
                    results.put(way, told, round_)
                    say(f"round {round_ + 1}: {way}: {_rate(told['seconds']):,.1f} a second, {told['recall']:.3f}")
        ways = {way: _summary(results.all(way)) | results.get(f"tuned {way}") for way in self.ways}
        return {"scores": {way: told["recall"] for way, told in ways.items()}, "ways": ways}


def _summary(rounds: Sequence[Line]) -> Line:
    """Return the median over rounds of what was told, and the spread of the rate."""
    rates = [_rate(told["seconds"]) for told in rounds]
    rate = float(np.median(rates))
    middle = {name: float(np.median([one[name] for one in rounds])) for name in ("recall", "peak", "before")}
    for share in (50, 95):
        middle[f"p{share}"] = float(np.median([np.percentile(one["seconds"], share) for one in rounds]))
    last = {name: value for name, value in rounds[-1].items() if name not in ("seconds", *middle)}
    return {"rate": rate, "spread": (max(rates) - min(rates)) / rate, **middle, **last}


def _rate(seconds: Sequence[float]) -> float:
    return len(seconds) / sum(seconds)


def rows(counts: Sequence[int] = COUNTS, *, made: bool = False, rounds: int = ROUNDS) -> list[Job]:
    """Return the builds and the questions of every size."""
    found: list[Job] = []
    for count in counts:
        builds = tuple(Build(name=f"build-{count}-{way}", way=way, count=count, made=made) for way in BUILDS)
        found += [*builds, Asked(name=f"asked-{count}", count=count, made=made, rounds=rounds, builds=builds)]
    return found


def section(study: JobStudy) -> list[str]:
    """Return the part of the page."""
    asked = [row for row in study.rows if isinstance(row, Asked)]
    known = [line for row in study.rows if isinstance(row, Build) and (line := study.result(row)) is not None]
    real = max((line["real"] for line in known), default=None)
    about = ABOUT.format(
        real="some" if real is None else f"{real:,}", moved=MOVED, tuning=TUNING, asked=ASKED,
        exact=EXACT_QUESTIONS, nearest=NEAREST, rounds=max(row.rounds for row in asked), aimed=AIMED,
    )  # fmt: skip
    parts = ["## Many vectors", about]
    for row in reversed(asked):
        parts += [f"### {row.count:,}", _table(study, row), _verdict(study, row)]
    return parts


def _table(study: JobStudy, row: Asked) -> str:
    line = study.result(row)
    built = {WAYS[build.way][1]: study.result(build) for build in row.builds}
    lines = []
    for way in row.ways:
        told, build = None if line is None else line["ways"][way], built.get(WAYS[way][1])
        made = ["", "", ""] if build is None else [
            f"{build['processor_seconds']:,.0f}", _size(build["peak"]), _size(build["disk"])]  # fmt: skip
        if told is None:
            lines.append([SAID[way], "", "not run yet", *[""] * 6, *made])
            continue
        lines.append([
            SAID[way], told.get("search") or ("" if told["setting"] is None else f"{told['setting']}"),
            f"{told['rate']:,.1f}", f"{told['spread']:.0%}", f"{1e3 * told['p50']:,.1f}", f"{1e3 * told['p95']:,.1f}",
            f"{told['recall']:.3f}", _size(told["peak"]), _size(told["before"]), *made,
        ])  # fmt: skip
    columns = ["how", "looks through", "queries/s", "spread", "p50, ms", "p95, ms", f"recall@{NEAREST}", "peak memory",
               "before", "build, processor s", "its peak", "on disk"]  # fmt: skip
    return harness.table(columns, lines)


def _verdict(study: JobStudy, row: Asked) -> str:
    line = study.result(row)
    if line is None:
        return f"Goal, recall@{NEAREST} at least {RECALL}: not run yet."
    told = line["ways"]["anaume-parts"]
    return (
        f"Goal, recall@{NEAREST} at least {RECALL}: {told['recall']:.3f}, "
        f"{'met' if told['recall'] >= RECALL else 'MISSED'}, at {told['rate']:,.1f} queries a second, p95 "
        f"{1e3 * told['p95']:,.1f} ms, peak memory {_size(told['peak'])}. Machine: {line['machine']}; {line['date']}."
    )


def _size(count: Any) -> str:
    return f"{count / 1e9:,.2f} GB"
