"""Examples as the encoder takes them: rows of token IDs and what is to be predicted, flat in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

IGNORED = -100


class Ragged:
    """Sequences of whole numbers of any lengths, in one array: a million rows cost their tokens, no more."""

    def __init__(self, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> None:
        self.values = values
        """(sum of lengths,)"""
        self.starts = starts
        """(sequences + 1,): sequence i is values[starts[i] : starts[i + 1]]."""

    @classmethod
    def of(cls, sequences: Iterable[Sequence[int] | npt.NDArray[Any]], dtype: npt.DTypeLike = np.int32) -> Ragged:
        """Put sequences one after the other."""
        arrays = [np.asarray(sequence, dtype=dtype) for sequence in sequences]
        starts = np.concatenate([[0], np.cumsum([len(array) for array in arrays], dtype=np.int64)]).astype(np.int64)
        return cls(np.concatenate(arrays) if arrays else np.empty(0, dtype), starts)

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """Put the sequences of several, in order, into one."""
        if not parts:
            return cls.of([])
        lengths = np.concatenate([part.lengths for part in parts])
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(np.concatenate([part.values for part in parts]), starts)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(sequences,)"""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        return self.values[self.starts[index] : self.starts[index + 1]]


Target = npt.NDArray[Any] | Ragged
"""What is to be predicted: an array with one entry a unit, (units, ...); or a `Ragged` with one number a token."""


@dataclass(frozen=True)
class Note:
    """How many examples something must be told of, and the place of the first."""

    count: int
    first: str


@dataclass(frozen=True, kw_only=True)
class Features:
    """Rows of token IDs. A text too long may become several rows; the options of a question are a row each.

    A unit is what can't be parted: usually one row, with multiple choice the rows of all options of a question.
    """

    token_ids: Ragged
    """Special ones included."""
    segment_ids: Ragged
    """Aligned to token_ids; 0 = A, 1 = B."""
    unit_starts: npt.NDArray[np.int64]
    """(units + 1,): unit u is the rows unit_starts[u] .. unit_starts[u + 1] - 1."""
    examples: npt.NDArray[np.int64]
    """(units,): the number of the example each unit belongs to, never falling."""
    coverage: npt.NDArray[np.float64]
    """(examples,): the share of each example's text that its rows hold together, 0 to 1."""
    targets: Mapping[str, Target] = field(default_factory=dict)
    """By names of the task's own; empty where nothing is to be learned or scored."""
    details: Sequence[Any] = ()
    """(rows,) what decoding needs to know of each row, of the task's own kind; () where it needs nothing."""
    pieces: int = 0
    """Pieces of all texts, special tokens apart."""
    unknown: int = 0
    """How many of them the vocabulary does not hold."""
    notes: Mapping[str, Note] = field(default_factory=dict)
    """What else the user must know of the examples, by what is said of them; whoever asked for the rows says it."""

    @property
    def told(self) -> list[str]:
        """The notes as messages."""
        return [f"{note.count:,} {said} (first: {note.first})" for said, note in self.notes.items()]

    @property
    def cut(self) -> int:
        """How many examples are not there whole."""
        return int((self.coverage < 1.0).sum())

    def __len__(self) -> int:
        """The number of units."""
        return len(self.unit_starts) - 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.token_ids)

    def rows_of(self, units: Sequence[int]) -> tuple[list[int], npt.NDArray[np.int64]]:
        """Return the rows of some units, and which of these units each row belongs to, from 0."""
        bounds = [(int(self.unit_starts[unit]), int(self.unit_starts[unit + 1])) for unit in units]
        rows = [row for start, stop in bounds for row in range(start, stop)]
        counts = [stop - start for start, stop in bounds]
        return rows, np.repeat(np.arange(len(bounds), dtype=np.int64), counts)

    @classmethod
    def joined(cls, parts: Sequence[Features]) -> Features:
        """Put the rows of several, in order, into one: large files are made into rows part by part."""
        rows = np.cumsum([0, *(part.rows for part in parts)])
        owners = np.cumsum([0, *(len(part.coverage) for part in parts)])
        starts = [part.unit_starts[:-1] + first for part, first in zip(parts, rows, strict=False)]
        examples = [part.examples + first for part, first in zip(parts, owners, strict=False)]
        notes: dict[str, Note] = {}
        for said, note in (item for part in parts for item in part.notes.items()):
            before = notes.get(said, Note(0, note.first))
            notes[said] = Note(before.count + note.count, before.first)
        targets: dict[str, Target] = {}
        for name, first in parts[0].targets.items() if parts else ():
            own = [part.targets[name] for part in parts]
            targets[name] = Ragged.joined(own) if isinstance(first, Ragged) else np.concatenate(own)  # type: ignore[arg-type]
        return cls(
            token_ids=Ragged.joined([part.token_ids for part in parts]),
            segment_ids=Ragged.joined([part.segment_ids for part in parts]),
            unit_starts=np.concatenate([*starts, rows[-1:]]).astype(np.int64),
            examples=np.concatenate(examples).astype(np.int64) if parts else np.empty(0, np.int64),
            coverage=np.concatenate([part.coverage for part in parts]) if parts else np.empty(0),
            targets=targets,
            details=[detail for part in parts for detail in part.details],
            pieces=sum(part.pieces for part in parts),
            unknown=sum(part.unknown for part in parts),
            notes=notes,
        )

    @classmethod
    def of_rows(
        cls,
        token_ids: Iterable[Sequence[int]],
        segment_ids: Iterable[Sequence[int]],
        *,
        coverage: Sequence[float],
        examples: Sequence[int] | None = None,
        targets: Mapping[str, Target] | None = None,
        details: Sequence[Any] = (),
        pieces: int = 0,
        unknown: int = 0,
        notes: Mapping[str, Note] | None = None,
    ) -> Features:
        """Return rows that are a unit each; `examples` says whose they are, None = one row an example."""
        ids = Ragged.of(token_ids)
        numbers = np.arange(len(ids)) if examples is None else np.asarray(examples)
        return cls(
            token_ids=ids,
            segment_ids=Ragged.of(segment_ids, np.uint8),
            unit_starts=np.arange(len(ids) + 1, dtype=np.int64),
            examples=numbers.astype(np.int64),
            coverage=np.asarray(coverage, dtype=np.float64),
            targets=targets or {},
            details=details,
            pieces=pieces,
            unknown=unknown,
            notes=notes or {},
        )


@dataclass(frozen=True, kw_only=True)
class TaskBatch:
    """Some units on a device, padded: what a task's loss sees beside the logits."""

    attention_mask: Tensor
    """(rows, seq_len) bool, True = real token."""
    unit_of_row: Tensor
    """(rows,) int64: which unit of the batch a row belongs to, from 0, never falling."""
    targets: Mapping[str, Tensor]
    """(units, ...), or (rows, seq_len or more) int64 for what has one number a token, filled up with -100."""

    @property
    def units(self) -> int:
        """How many units there are."""
        return int(self.unit_of_row[-1]) + 1 if len(self.unit_of_row) else 0


def torch_target(target: Target, units: Sequence[int], rows: Sequence[int], seq_len: int) -> Tensor:
    """Return a target's entries for some units (or, where it is one number a token, for their rows) as a tensor."""
    if not isinstance(target, Ragged):
        return torch.from_numpy(np.ascontiguousarray(target[np.asarray(units)]))
    longest = max([seq_len, *(len(target[row]) for row in rows)])  # a task may show less than it asks for
    padded = np.full((len(rows), longest), IGNORED, dtype=np.int64)
    for place, row in enumerate(rows):
        own = target[row]
        padded[place, : len(own)] = own
    return torch.from_numpy(padded)
