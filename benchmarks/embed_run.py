"""One run of the benchmark of embedding: who is asked what and when, and what is kept of the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed_rows import DEFAULT, OURS, Row
from benchmarks.harness import MatrixRates, Results, say
from benchmarks.texts import queries
from benchmarks.workers import RowFailed, Workers

REST = 0.2
"""Seconds before each timed run: threads of the row before it may still be waiting for work."""


@dataclass(frozen=True)
class Mix:
    """Texts of one kind."""

    name: str
    texts: list[str]
    lengths: list[int]
    """Tokens of each text, as every tool sees it."""
    flops: int
    """What the encoder needs for them, without any padding."""


class Run:
    """One run of the benchmark: what is kept is not measured again."""

    def __init__(
        self, results: Results, workers: Workers, mixes: Sequence[Mix], rows: Sequence[Row], folder: Path
    ) -> None:
        self.results, self.workers, self.mixes, self.rows, self.folder = results, workers, mixes, rows, folder
        self.failed: dict[str, str] = {}
        self._warm: set[str] = set()

    def ask(self, row: Row, **order: Any) -> dict[str, Any] | None:
        try:
            return self.workers.ask(row, **order)
        except RowFailed as error:
            self.failed[row.name] = str(error)
            return None

    def warm(self, row: Row) -> bool:
        """Have a row embed every mix once, and keep its vectors; False where it can't."""
        if row.name in self.failed:
            return False
        if row.name in self._warm:
            return True
        for mix in self.mixes:
            file = self.vectors(row, mix)
            answer = self.ask(row, do="vectors", mix=mix.name, to=str(file))
            if answer is None:
                return False
        self.results.put(f"about {row.name}", answer)
        self._warm.add(row.name)
        return True

    def vectors(self, row: Row, mix: Mix) -> Path:
        return self.folder / f"{row.name.replace(' ', '-').replace(',', '')}.{mix.name}.npy"

    def measure(self, repeats: int, calls: int, rates: MatrixRates) -> None:
        for round_ in range(repeats):
            if self.results.get("rate float32", round_) is None:
                rates.measure(round_)
            for mix in self.mixes:
                for row in self._turn(round_):
                    self._timed(row, f"{row.name}: {mix.name}", round_, do="time", mix=mix.name)
            for row in self._turn(round_):
                self._timed(row, f"{row.name}: single", round_, do="single", text=self._one(), calls=calls)
            say(f"round {round_ + 1} of {repeats} done")
        for row in self.rows:
            if self.results.get(f"{row.name}: peak") is None and self.warm(row):
                answer = self.ask(row, do="peak")
                if answer is not None:
                    self.results.put(f"{row.name}: peak", answer["peak"])
        for row in self.rows:
            if row.name not in self.failed and self.results.get(f"cosines {row.name}") is None:
                self.results.put(f"cosines {row.name}", self._cosines(row))

    def _one(self) -> str:
        """The text that is embedded alone: 8 tokens, or as near as there is."""
        mix = self.mixes[0]
        return mix.texts[int(np.abs(np.array(mix.lengths) - 8).argmin())]

    def _timed(self, row: Row, name: str, round_: int, **order: Any) -> None:
        if self.results.get(name, round_) is None and self.warm(row):
            time.sleep(REST)
            answer = self.ask(row, **order)
            if answer is not None:
                self.results.put(name, answer["seconds"], round_)

    def cold(self, repeats: int, *, first: int = -1) -> None:
        """Processes from start to first vector; one start before, unmeasured, fills the system's file cache."""
        for round_ in range(first, repeats):
            for row in self._turn(round_ + 1):
                name = f"{row.name}: cold"
                if not row.cold or row.name in self.failed or self.results.get(name, round_) is not None:
                    continue
                if round_ < 0 and self.results.get(name, 0) is not None:
                    continue
                try:
                    seconds = self.workers.cold(row, self._one())
                except RowFailed as error:
                    self.failed[row.name] = str(error)
                    continue
                if round_ >= 0:
                    self.results.put(name, seconds, round_)

    def stream(self, count: int) -> None:
        """Peak memory of a file of many short texts turned into a file of vectors."""
        file = self.folder / f"stream-{count}.txt"
        if not file.exists():
            file.write_text("\n".join(queries(count)) + "\n", "utf-8")
        for row in self.rows:
            name = f"{row.name}: stream {count}"
            if not row.stream or row.name in self.failed or self.results.get(name) is not None:
                continue
            say(f"{row.name}: {count:,} short texts from file to file")
            try:
                answer = self.workers.alone(row, do="stream", file=str(file), to=str(self.folder / "stream.npy"))
            except RowFailed as error:
                self.failed[f"{row.name} (many texts)"] = str(error)
                continue
            self.results.put(name, answer)

    def reference(self) -> Row:
        """Whose float32 vectors the others' are compared with."""
        return DEFAULT if DEFAULT in self.rows and DEFAULT.name not in self.failed else OURS

    def _turn(self, round_: int) -> list[Row]:
        shift = round_ % len(self.rows)
        return [*self.rows[shift:], *self.rows[:shift]]

    def _cosines(self, row: Row) -> dict[str, float]:
        """The smallest cosine to the float32 vectors of the reference, each mix."""
        found: dict[str, float] = {}
        reference = self.reference()
        if not (self.warm(reference) and self.warm(row)):
            return found
        for mix in self.mixes:
            wanted, vectors = (np.load(self.vectors(own, mix)).astype(np.float64) for own in (reference, row))
            lengths = np.linalg.norm(wanted, axis=1) * np.linalg.norm(vectors, axis=1)
            found[mix.name] = float(((vectors * wanted).sum(axis=1) / lengths).min())
        return found
