"""Do contents come again, and with another label? By 8-byte hashes, so that a million examples take some 30 MB."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from anaume.data.corpus.units import units

_ENDS_IN_NUMBER = re.compile(r"(.*?)(\d{1,18})", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Copies:
    """How many examples are copies of others."""

    duplicates: int
    """Examples whose content, normalised, occurred before."""
    conflicts: int
    """Contents that occur with different labels."""
    conflict: tuple[str, str] | None
    """Where one of those stands twice."""


class ContentTally:
    """Remembers contents, labels and places of examples."""

    def __init__(self) -> None:
        self._contents = array("Q")
        self._labelled = array("Q")
        self._places = _Places()

    def add(self, content: str, label: str, place: str) -> None:
        """Count one example; its content is compared by `units` (case, widths and punctuation left out)."""
        key = " ".join(units(content)) or content
        self._contents.append(_hash(key))
        self._labelled.append(_hash(f"{key}\0{label}"))
        self._places.add(place)

    def copies(self) -> Copies:
        """Return what was found so far."""
        contents, labelled = _numbers(self._contents), _numbers(self._labelled)
        order = np.lexsort((labelled, contents))
        same = contents[order][1:] == contents[order][:-1]
        conflicting = same & (labelled[order][1:] != labelled[order][:-1])
        conflict = None
        if conflicting.any():
            at = int(conflicting.argmax())
            first, second = sorted((int(order[at]), int(order[at + 1])))
            conflict = (self._places[first], self._places[second])
        return Copies(
            duplicates=int(same.sum()),
            conflicts=len(np.unique(contents[order][1:][conflicting])),
            conflict=conflict,
        )

    def shared_with(self, other: ContentTally) -> tuple[int, int]:
        """Return how many of these have a content the other holds, and how many of those never with their label."""
        known = np.isin(_numbers(self._contents), _numbers(other._contents))
        alike = np.isin(_numbers(self._labelled), _numbers(other._labelled))
        return int(known.sum()), int((known & ~alike).sum())


class _Places:
    """Places as the text before a number at their end, kept once, and that number."""

    def __init__(self) -> None:
        self._heads: dict[str, int] = {}
        self._head = array("L")
        self._number = array("q")

    def add(self, place: str) -> None:
        match = _ENDS_IN_NUMBER.fullmatch(place)
        head, number = (match[1], int(match[2])) if match else (place, -1)
        self._head.append(self._heads.setdefault(head, len(self._heads)))
        self._number.append(number)

    def __getitem__(self, index: int) -> str:
        head = list(self._heads)[self._head[index]]
        return head if self._number[index] < 0 else f"{head}{self._number[index]}"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _numbers(values: array[int]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(values, dtype=np.uint64) if len(values) else np.empty(0, dtype=np.uint64)
