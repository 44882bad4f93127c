"""Labelled text from the public data folder: CoNLL-2003 (words with tags) and SST-2 (phrases with a sentiment)."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from benchmarks.sources import public_data

Span = tuple[int, int, str]
"""The first word of an entity, the one after its last, its type."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of CoNLL-2003, word by word."""

    words: tuple[str, ...]
    pos: tuple[str, ...]
    """Parts of speech (Penn Treebank)."""
    entities: tuple[str, ...]
    """Tags as the file has them, IOB1: I-PER inside a name, B-PER only where it follows another person's, O outside."""

    @property
    def types(self) -> tuple[str, ...]:
        """The tags without I- and B-: PER, LOC, ORG, MISC or O."""
        return tuple(tag.rpartition("-")[2] for tag in self.entities)

    @property
    def spans(self) -> set[Span]:
        """The entities."""
        return spans(self.entities)


def conll(part: Literal["train", "testa"]) -> list[Sentence]:
    """Read the sentences of CoNLL-2003 (English); document marks are left out."""
    with _opened(public_data(f"conll2003/eng.{part}.gz")) as file:
        return list(_sentences(file))


def sst2(part: Literal["train", "dev"]) -> tuple[list[str], list[int]]:
    """Read the texts of SST-2 and their labels, 1 = positive: phrases in train, whole sentences in dev."""
    with _opened(public_data("glue/SST-2/" + {"train": "train.tsv.gz", "dev": "dev.tsv"}[part])) as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["sentence"].strip() for row in rows], [int(row["label"]) for row in rows]


def spans(tags: Sequence[str]) -> set[Span]:
    """Return the entities that IOB1 tags, or types alone, stand for: runs of one type, cut at every B-."""
    found, start, inside = set(), 0, "O"
    for place, tag in enumerate((*tags, "O")):
        kind = tag.rpartition("-")[2]
        if kind != inside or tag.startswith("B-"):
            if inside != "O":
                found.add((start, place, inside))
            start, inside = place, kind
    return found


def _sentences(lines: TextIO) -> Iterator[Sentence]:
    rows: list[list[str]] = []
    for line in (*lines, ""):
        fields = line.split()
        if fields and fields[0] != "-DOCSTART-":
            rows.append(fields)
        elif rows:
            words, pos, _, entities = zip(*rows, strict=True)
            yield Sentence(words, pos, entities)
            rows = []


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8", newline="")
