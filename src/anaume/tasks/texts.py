"""What tasks over whole texts share: a text or a pair becomes one row, or overlapping windows where it is long."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from anaume.config import HeadConfig
from anaume.data.labelled import TextExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.features import Features
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tokenization import Encoding, Tokenizer

Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class TextPrediction(Prediction):
    """What a text head says of a text."""

    window: Span | None = None
    """Where windows were read: the characters [start, end) of the one that decided; None = there was one row."""


P = TypeVar("P", bound=TextPrediction)


class TextTask(Task[TextExample, P]):
    """Examples with one prediction a text.

    stride  None: what is over the length is cut. Else the text is read in windows that share so many pieces, each
            learned with the text's label; what they say is averaged. Pairs are never windowed
    paired  whether it learned from pairs, or from texts alone; the others are then refused. None = either, or not known
    """

    pairs: ClassVar[bool | None] = None
    """Whether examples must be pairs; None = they may be."""

    def __init__(self, head: HeadConfig, *, stride: int | None = None, paired: bool | None = None) -> None:
        if stride is not None and (isinstance(stride, bool) or not isinstance(stride, int) or stride < 0):
            raise SettingsError(f"task.stride, the pieces windows share, must be a whole number from 0; got {stride!r}")
        if paired is not None and not isinstance(paired, bool):
            raise SettingsError(f"paired, whether pairs were learned, must be true or false; got {paired!r}")
        self._head = head
        self.stride = stride
        self.paired = paired

    @property
    def head(self) -> HeadConfig:
        """The head to train."""
        return self._head

    def features(
        self, examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a row a text or pair, or a row a window; see `Task.features`."""
        if learn:
            self.check_labels(examples)
            self._check_stride(examples, max_length)
        rows: list[Encoding] = []
        owners: list[int] = []
        spans: list[Span | None] = []
        coverage = np.ones(len(examples))
        for number, encoding in enumerate(self._encoded(examples, tokenizer, max_length)):
            coverage[number] = min(part.share for part in encoding.coverage)
            if coverage[number] < 1.0 and self.stride is not None and examples[number].pair is None:
                windows = tokenizer.windows(examples[number].text, max_length=max_length, stride=self.stride)
                coverage[number] = 1.0
                spans += [(window.coverage[0].start, window.coverage[0].end) for window in windows]
            else:
                windows = [encoding]
                spans.append(None)
            rows += windows
            owners += [number] * len(windows)
        targets = self._targets(examples) if learn else {}
        return Features.of_rows(
            [row.token_ids for row in rows],
            [row.segment_ids for row in rows],
            coverage=coverage.tolist(),
            examples=owners,
            targets={name: values[owners] for name, values in targets.items()},
            details=spans,
            pieces=sum(row.pieces for row in rows),
            unknown=sum(row.unknown for row in rows),
        )

    def _check_stride(self, examples: Sequence[TextExample], max_length: int) -> None:
        """Refuse a stride that no text could ever be read with: long ones may first come when it predicts."""
        room = max_length - 2  # beside [CLS] and [SEP]
        if self.stride is not None and self.stride >= room:
            raise SettingsError(
                f"task.stride is {self.stride}, and a window of {max_length} tokens has room for {room} pieces: "
                "none is left to move forward; lower it, or raise model.max_length"
            )
        if self.stride is not None and are_paired(examples) is True:
            raise SettingsError("task.stride reads long texts in windows, and pairs are cut: leave it out")

    def example(self, given: object, place: str) -> TextExample:
        """Return a text, or a pair given as a tuple or list of two."""
        if isinstance(given, str) and self.pairs is not True:
            return TextExample(text=given, place=place)
        if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(one, str) for one in given):
            return TextExample(text=given[0], pair=given[1], place=place)
        wanted = {True: "a pair (text, text)", False: "a text", None: "a text or a pair (text, text)"}[self.pairs]
        raise DataError(f"{place}: {self.name} reads {wanted}; got {type(given).__name__} {given!r:.60}")

    def check_labels(self, examples: Sequence[TextExample]) -> None:
        """Refuse pairs where texts alone were learned, and texts where pairs were; each task adds its labels."""
        if self.paired is None or self.pairs is not None:
            return
        for example in examples:
            if isinstance(example, TextExample) and self.paired != (example.pair is not None):
                learned, came = ("pairs", "one text") if self.paired else ("texts", "a pair")
                do = "--column text=NAME --column pair=NAME read two" if self.paired else "--column text=NAME reads one"
                raise DataError(f"{example.place}: the model learned from {learned}, and this is {came}; {do}")

    def _encoded(self, examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int) -> list[Encoding]:
        for example in examples:
            if not isinstance(example, TextExample):
                raise DataError(f"{example.place}: {self.name} reads a text or a pair a row; came {example!r:.60}")
            if self.pairs is not None and self.pairs != (example.pair is not None):
                wanted, came = ("a pair", "one text") if self.pairs else ("one text", "a pair")
                raise DataError(f"{example.place}: {self.name} reads {wanted} a row; came {came}")
        TextTask.check_labels(self, examples)
        # A file holds texts or pairs; should they be mixed, each kind is encoded by itself.
        found: dict[int, Encoding] = {}
        for paired in (False, True):
            own = [number for number, example in enumerate(examples) if (example.pair is not None) == paired]
            if own:
                texts = [examples[number].text for number in own]
                seconds = [examples[number].pair or "" for number in own] if paired else None
                found |= dict(zip(own, tokenizer.encode_batch(texts, seconds, max_length=max_length), strict=True))
        return [found[number] for number in range(len(examples))]

    @abstractmethod
    def _targets(self, examples: Sequence[TextExample]) -> dict[str, npt.NDArray[np.generic]]:
        """Return what is to be learned, arrays (examples, ...) by name."""


def are_paired(examples: Sequence[TextExample]) -> bool | None:
    """Return whether examples are pairs (True), or texts alone (False); None where both are among them."""
    found = {example.pair is not None for example in examples}
    return found.pop() if len(found) == 1 else None


def refuse_unknown(examples: Sequence[TextExample], names: Sequence[Collection[str]], known: Sequence[str]) -> None:
    """Raise DataError with both lists, at the first example one of whose labels (`names`) is none of the known ones."""
    there = {name for own in names for name in own}
    if unknown := there - set(known):
        first = next(example for example, own in zip(examples, names, strict=True) if unknown & set(own))
        lists = sorted(there, key=label_order), known
        quoted = any("," in label for label in (*there, *known))
        theirs, ours = (", ".join(map(repr, one) if quoted else one) for one in lists)
        raise DataError(
            f"{first.place}: the labels of the data and of the model differ: the data has {theirs}; the model knows "
            f"{ours}"
        )


def seem_joined(labels: Sequence[str], separator: str) -> list[str]:
    """Return the labels that look like several in one, parted by `separator`: another label has a part of theirs."""
    parts = Counter(part for label in labels for part in {one.strip() for one in label.split(separator)})
    return [
        label
        for label in labels
        if separator in label and any(parts[one.strip()] > 1 for one in label.split(separator))
    ]


def label_order(label: str) -> tuple[int, float, str]:
    """Return what labels are sorted by: numbers by value, then the others."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


def rows_of_examples(logits: Logits, features: Features) -> list[tuple[npt.NDArray[np.float64], list[Span | None]]]:
    """Return, for each example, what the head says of its rows, (rows, labels) float64, and the rows' spans."""
    starts = np.searchsorted(features.examples, np.arange(len(features.coverage) + 1))
    return [
        (np.stack([logits[row] for row in range(start, stop)]).astype(np.float64), list(features.details[start:stop]))
        for start, stop in itertools.pairwise(starts.tolist())
    ]
