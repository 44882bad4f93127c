"""The first pass over a corpus: how much there is, which documents are duplicates, what is held out, and a sample.

Hashes of documents go to a file, eight bytes each, and are compared a range of values at a time: memory is bounded
however many documents there are, but for one bit each.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.documents import Document
from anaume.data.corpus.sentences import guess_language

TRAIN, HELD_OUT, LEFT_OUT = 0, 1, 2

FEW_DOCUMENTS = 20
"""Below so many documents blocks of sentences are held out instead of documents."""

_AT_ONCE = 1 << 20  # hashes looked at together
_EXACT = 1 << 22  # up to so many documents, exactly the asked share is held out; beyond, what the hashes give
_CHUNK = 2_000  # characters of a piece of the sample
_MASK = (1 << 64) - 1
_BITS = np.array([byte.bit_count() for byte in range(256)], dtype=np.int64)


def document_hash(text: str) -> int:
    """Return 64 bits of a document's text, blanks around it apart."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(), digest_size=8).digest(), "little")


def mix(values: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return other 64 bits for each value, evenly spread (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = values + np.uint64((0x9E3779B97F4A7C15 * (seed + 1)) & _MASK)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


class HashFile:
    """64-bit values in a file, in the order they came; removed with the work folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = open(path, "wb")  # noqa: SIM115  closed by `__exit__`
        self._waiting = array("Q")

    def add(self, value: int) -> None:
        """Append a value."""
        self._waiting.append(value)
        self.count += 1
        if len(self._waiting) >= 1 << 16:
            self._write()

    def _write(self) -> None:
        self._file.write(self._waiting.tobytes())
        self._waiting = array("Q")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def values(self) -> NDArray[np.uint64]:
        """Return the values, uint64 (count,), memory-mapped; nothing is added after."""
        self._write()
        self._file.flush()
        if not self.count:
            return np.empty(0, dtype=np.uint64)
        return np.memmap(self.path, dtype=np.uint64, mode="r")


def later_copies(hashes: NDArray[np.uint64], *, at_once: int = _AT_ONCE) -> NDArray[np.uint8]:
    """Return packed bits (np.packbits), 1 where a value occurred before; memory is that of `at_once` values.

    hashes: uint64 (n,), evenly spread.
    """
    copies = np.zeros((len(hashes) + 7) // 8, dtype=np.uint8)
    rounds = -(-len(hashes) // at_once)
    width = -(-(1 << 64) // max(rounds, 1))
    for number in range(rounds):
        low, high = np.uint64(number * width), np.uint64(min((number + 1) * width - 1, _MASK))
        values, places = [], []
        for start in range(0, len(hashes), at_once):
            block = np.asarray(hashes[start : start + at_once])
            inside = np.flatnonzero((block >= low) & (block <= high))
            values.append(block[inside])
            places.append(inside + start)
        value, place = np.concatenate(values), np.concatenate(places)
        order = np.argsort(value, kind="stable")
        twice = np.flatnonzero(value[order[1:]] == value[order[:-1]])
        again = place[order[1:][twice]]
        np.bitwise_or.at(copies, again // 8, (128 >> (again % 8)).astype(np.uint8))
    return copies


class Sample:
    """Pieces of text spread evenly over everything that passes, at most `budget` characters in the end.

    Each piece has a number drawn from (seed, document, place); those with the smallest stay. Which ones does not
    depend on how many come after.
    """

    def __init__(self, budget: int, seed: int) -> None:
        self.budget = budget
        self.seen = 0
        self._seed = seed
        self._below = 1 << 64
        self._kept: list[tuple[int, int, int, str]] = []
        self._size = 0

    def add(self, number: int, text: str) -> None:
        """Offer the text of document `number`."""
        self.seen += len(text)
        for place, start in enumerate(range(0, len(text), _CHUNK)):
            key = _key(self._seed, number, place)
            if key < self._below:
                piece = text[start : start + _CHUNK]
                self._kept.append((key, number, place, piece))
                self._size += len(piece)
        while self._size > 2 * self.budget:
            self._below //= 2
            self._kept = [item for item in self._kept if item[0] < self._below]
            self._size = sum(len(item[3]) for item in self._kept)

    def texts(self, wanted: Callable[[int], bool]) -> list[str]:
        """Return the pieces of wanted documents, within the budget, in the order they came."""
        kept: list[tuple[int, int, int, str]] = []
        size = 0
        for item in sorted(item for item in self._kept if wanted(item[1])):
            size += len(item[3])
            if size > self.budget and kept:
                break
            kept.append(item)
        return [piece for _, _, _, piece in sorted(kept, key=lambda item: item[1:3])]


def _key(seed: int, number: int, place: int) -> int:
    value = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15 + place * 0xBF58476D1CE4E5B9 + 1) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the first pass found."""

    documents: int
    """All that are not blank."""
    characters: int
    japanese: int
    """Characters of the documents whose beginning is Japanese."""
    hashes: NDArray[np.uint64]
    copies: NDArray[np.uint8]
    """Packed bits: 1 = the document is a copy, or a near copy, of an earlier one."""
    duplicates: int
    near_duplicates: int
    held_below: int
    """A document is held out when its mixed hash is below this."""
    seed: int
    sample: Sample

    @property
    def kept(self) -> int:
        """Documents without the copies."""
        return self.documents - self.duplicates - self.near_duplicates

    def fates(self) -> Iterator[int]:
        """Yield TRAIN, HELD_OUT or LEFT_OUT for each document, in order."""
        for start in range(0, len(self.hashes), _AT_ONCE):
            yield from self._fates(start, start + _AT_ONCE).tolist()

    def fate(self, number: int) -> int:
        """Return the fate of one document."""
        return int(self._fates(number, number + 1)[0])

    def _fates(self, start: int, stop: int) -> NDArray[np.int8]:
        """Fates of documents [start, stop)."""
        block = np.asarray(self.hashes[start:stop])
        held = mix(block, self.seed) < np.uint64(self.held_below) if self.held_below <= _MASK else np.True_
        fates = np.where(held, HELD_OUT, TRAIN).astype(np.int8) + np.zeros(len(block), dtype=np.int8)
        first = start // 8
        bits = np.unpackbits(self.copies[first : (stop + 7) // 8])[start - first * 8 :][: len(block)]
        fates[bits == 1] = LEFT_OUT
        return fates


def survey(
    documents: Iterable[Document],
    hash_file: Path,
    *,
    held_out: float,
    deduplicate: bool,
    seed: int,
    sample: int,
    tell: Callable[[int], Any],
    near: Callable[[int, NDArray[np.uint8]], int] | None = None,
) -> Survey:
    """Read every document once.

    held_out: the share of documents to hold out; sample: characters to keep a sample of; tell: is told the characters
    read so far; near: is given the number of documents left and the packed bits of copies, marks near copies too and
    returns how many.
    """
    picked = Sample(sample, seed)
    characters = japanese = 0
    with HashFile(hash_file) as file:
        for number, document in enumerate(documents):
            text = document.text
            characters += len(text)
            file.add(document_hash(text))
            if not text.isascii() and guess_language(text[:2_000]) == "ja":
                japanese += len(text)
            if sample:
                picked.add(number, text)
            if number % 256 == 0:
                tell(characters)
        hashes = file.values()
    copies = later_copies(hashes) if deduplicate else np.zeros((len(hashes) + 7) // 8, dtype=np.uint8)
    duplicates = int(_BITS[copies].sum())
    near_duplicates = near(len(hashes) - duplicates, copies) if near is not None else 0
    return Survey(
        documents=len(hashes),
        characters=characters,
        japanese=japanese,
        hashes=hashes,
        copies=copies,
        duplicates=duplicates,
        near_duplicates=near_duplicates,
        held_below=_held_below(hashes, copies, len(hashes) - duplicates - near_duplicates, held_out, seed),
        seed=seed,
        sample=picked,
    )


def _held_below(hashes: NDArray[np.uint64], copies: NDArray[np.uint8], kept: int, held_out: float, seed: int) -> int:
    """Return the bound that holds out the share asked for: at least one document, at most all but one."""
    if held_out <= 0 or kept < FEW_DOCUMENTS:
        return 0
    if len(hashes) > _EXACT:
        return int(held_out * (1 << 64))
    first = np.unpackbits(copies, count=len(hashes)) == 0
    mixed = np.sort(mix(np.asarray(hashes)[first], seed))
    count = min(max(round(held_out * kept), 1), kept - 1)
    return int(mixed[count])


def choose_blocks(hashes: Iterable[int], sentences: Iterable[int], held_out: float, seed: int) -> list[set[int]]:
    """Return, for each of a few documents, the numbers of its blocks of sentences that are held out.

    hashes, sentences: of each document. A block has `block_size(sentences)` of them. At least one block is held out,
    and at least one is not, as far as there are two.
    """
    drawn: list[tuple[int, int, int]] = []
    chosen: list[set[int]] = []
    for document, (value, count) in enumerate(zip(hashes, sentences, strict=True)):
        chosen.append(set())
        size = block_size(count)
        drawn += [(_key(seed, value, block), document, block) for block in range(-(-count // size))]
    if held_out > 0 and len(drawn) > 1:
        for _, document, block in sorted(drawn)[: min(max(round(held_out * len(drawn)), 1), len(drawn) - 1)]:
            chosen[document].add(block)
    return chosen


def block_size(sentences: int) -> int:
    """Return how many sentences a block has: sixteen, fewer where a document has fewer than twenty such blocks."""
    return max(1, min(16, sentences // FEW_DOCUMENTS))
