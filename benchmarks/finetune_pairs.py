"""How much two kinds of runs differ: the paired bootstrap over dev examples, seeds averaged, data sets averaged.

Both kinds are scored on the same resamples. What was found is kept beside the rows: finding it takes a minute.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anaume.data import atomic_file
from anaume.tasks.registry import AnyTask
from benchmarks.finetune_sides import Line, Tuned, task_of
from benchmarks.kept import KeptRows

RESAMPLES = 1000

Pair = tuple[Tuned, Tuned]
"""Two rows of one data set and one seed."""


class ScoredStudy(Protocol):
    """A study that keeps the scores of single examples (`FinetuneStudy` says what these are)."""

    kept: KeptRows

    def result(self, row: Any) -> Line | None: ...

    def examples(self, row: Any) -> NDArray[np.float64] | None: ...


@dataclass(frozen=True)
class Difference:
    """The main score of the first rows of pairs, less that of the second ones."""

    value: float
    low: float
    """The middle 95 % over resamples of the dev examples."""
    high: float
    data: int
    """How many data sets it is the mean of."""
    seeds: int
    """The fewest seeds of any of them."""


class Pairs:
    """Differences between the rows of a study; kept beside its rows, NAME-pairs.json."""

    def __init__(self, study: ScoredStudy, *, resamples: int = RESAMPLES) -> None:
        self._study, self._resamples = study, resamples
        self._path = study.kept.path.with_name(f"{study.kept.path.stem}-pairs.json")
        there = self._path.exists()
        self._kept: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8")) if there else {}
        self._drawn: dict[str, NDArray[np.float64]] = {}

    def difference(self, sets: Sequence[Sequence[Pair]]) -> Difference | None:
        """Return the mean difference over data sets, each with a pair a seed; pairs that were not run don't count.

        None where a data set has no pair, or what it takes is not there and was not found before.
        """
        done = [[pair for pair in own if all(self._study.result(row) for row in pair)] for own in sets]
        if not done or not all(done):
            return None
        key = self._key(done)
        if key not in self._kept:
            if any(self._study.examples(row) is None for own in done for pair in own for row in pair):
                return None
            self._kept[key] = asdict(self._difference(done))
            self._write()
        return Difference(**self._kept[key])

    def _difference(self, sets: Sequence[Sequence[Pair]]) -> Difference:
        each = [np.mean([self._scores(one) - self._scores(other) for one, other in own], axis=0) for own in sets]
        whole = np.mean(each, axis=0)
        drawn = whole[1:][np.isfinite(whole[1:])]  # a resample may have no score: constant labels
        low, high = np.percentile(drawn, [2.5, 97.5])
        return Difference(float(whole[0]), float(low), float(high), len(sets), min(map(len, sets)))

    def _scores(self, row: Tuned) -> NDArray[np.float64]:
        """Return (1 + resamples,): the score of all dev examples, and of each resample; drawn alike for all rows."""
        if row.name not in self._drawn:
            examples = self._study.examples(row)
            assert examples is not None
            self._drawn[row.name] = resampled(task_of(row), examples, self._resamples)
        return self._drawn[row.name]

    def _key(self, sets: Sequence[Sequence[Pair]]) -> str:
        told = [[[self._line(row) for row in pair] for pair in own] for own in sets]
        return hashlib.sha256(json.dumps([told, self._resamples]).encode()).hexdigest()[:16]

    def _line(self, row: Tuned) -> list[Any]:
        line = self._study.result(row)
        assert line is not None
        return [line["row"], line["scores"], line["sha256"]]

    def _write(self) -> None:
        with atomic_file(self._path) as file:
            file.write((json.dumps(self._kept, indent=1) + "\n").encode())


def resampled(task: AnyTask, examples: NDArray[np.float64], resamples: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Return (1 + resamples,): the score of all examples, then of resamples; as many examples are drawn alike."""
    generator = np.random.default_rng(seed)
    drawn = [task.score_of(examples[generator.integers(0, len(examples), len(examples))]) for _ in range(resamples)]
    return np.array([task.score_of(examples), *drawn])
