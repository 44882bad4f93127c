"""Do evaluation texts occur in training text? The evaluation side is held in memory, the training side streams by.

Texts are compared by their normalised `units`: words, numbers, and single ideographs and kana.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.units import units

_KEY = 8  # a text is looked up by its first so many units
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

SHORT = 5
"""A text of fewer units may well occur inside another by chance."""


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of one evaluation file occurs in the training text."""

    source: str
    texts: int
    """Texts with at least one word, copies counted once."""
    whole: int
    """Those that occur as a line, a sentence or a document."""
    part: int
    """Those of the others that occur inside a longer text."""
    short_part: int
    """Those of `part` with fewer than five words or ideographs, which may be chance."""
    examples: tuple[str, ...]
    """A few that were found."""

    @property
    def whole_share(self) -> float:
        """Whole over texts, 0 to 1."""
        return self.whole / self.texts if self.texts else 0.0

    @property
    def part_share(self) -> float:
        """Part over texts, 0 to 1."""
        return self.part / self.texts if self.texts else 0.0


class OverlapFinder:
    """Holds evaluation texts; is shown training documents; tells what occurred."""

    def __init__(self, sources: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._sources: list[tuple[str, list[int]]] = []
        self._texts: list[str] = []
        self._units: list[list[str]] = []
        by_key: dict[str, int] = {}
        for name, texts in sources:
            own: dict[int, None] = {}
            for text in texts:
                split = units(text)
                if not split:
                    continue
                number = by_key.setdefault(" ".join(split), len(self._texts))
                if number == len(self._texts):
                    self._texts.append(text)
                    self._units.append(split)
                own[number] = None
            self._sources.append((name, list(own)))
        self._by_key = by_key
        self._whole = np.zeros(len(self._texts), dtype=bool)
        self._inside = np.zeros(len(self._texts), dtype=bool)
        self._index()

    def _index(self) -> None:
        """Index what was not yet found, by the length of its key: hashes of first units, sorted, and their texts."""
        waiting: dict[int, dict[int, list[int]]] = {}
        for number in np.flatnonzero(~self._inside).tolist():
            first = self._units[number][:_KEY]
            key = int(_rolled(_hashes(first), len(first))[0])
            waiting.setdefault(len(first), {}).setdefault(key, []).append(number)
        self._waiting = waiting
        self._keys = {size: np.array(sorted(table), dtype=np.uint64) for size, table in waiting.items()}
        self._since = 0

    def show(self, text: str, sentences: Sequence[str]) -> None:
        """Look at one training document and its sentences."""
        whole = units(text)
        self._look_inside(whole)
        self._equal(" ".join(whole))
        for part in (*text.split("\n"), *sentences):
            self._equal(" ".join(units(part)))

    def _equal(self, key: str) -> None:
        number = self._by_key.get(key)
        if number is not None:
            self._whole[number] = True

    def _look_inside(self, document: list[str]) -> None:
        hashes = _hashes(document)
        for size, keys in self._keys.items():
            if size > len(document):
                continue
            rolled = _rolled(hashes, size)
            places = np.searchsorted(keys, rolled)
            places[places == len(keys)] = 0
            for at in np.flatnonzero(keys[places] == rolled).tolist():
                self._compare(document, at, self._waiting[size].get(int(rolled[at]), []))
        if self._since > 16 and self._since * 20 > len(self._texts) - int(self._inside.sum()):
            self._index()

    def _compare(self, document: list[str], at: int, numbers: list[int]) -> None:
        found = [number for number in numbers if document[at : at + len(self._units[number])] == self._units[number]]
        for number in found:
            self._inside[number] = True
            numbers.remove(number)
            self._since += 1

    def overlaps(self) -> tuple[Overlap, ...]:
        """Return what was found so far, a file each."""
        found = []
        for name, numbers in self._sources:
            whole = [number for number in numbers if self._whole[number]]
            part = [number for number in numbers if self._inside[number] and not self._whole[number]]
            found.append(
                Overlap(
                    source=name,
                    texts=len(numbers),
                    whole=len(whole),
                    part=len(part),
                    short_part=sum(len(self._units[number]) < SHORT for number in part),
                    examples=tuple(self._texts[number] for number in (whole + part)[:3]),
                )
            )
        return tuple(found)


def _hashes(document: list[str]) -> NDArray[np.uint64]:
    return np.fromiter(map(hash, document), dtype=np.int64, count=len(document)).view(np.uint64)


def _rolled(hashes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Return one value for every `size` neighbours, uint64 (n - size + 1,)."""
    count = len(hashes) - size + 1
    with np.errstate(over="ignore"):
        rolled = hashes[:count].copy()
        for step in range(1, size):
            rolled = rolled * _FACTOR + hashes[step : step + count]
    return rolled
