"""One part of labelled data, train or dev, counted example by example."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anaume.checks.copies import ContentTally, Copies
from anaume.data.labelled import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from anaume.errors import DataError
from anaume.tasks.ner.schemes import spans_of, speaks_of_entities
from anaume.tokenization import Tokenizer, voicing_lost
from anaume.tokenization.bulk import BulkEncoder

ANSWER, NO_ANSWER = "an answer", "no answer"
WITH_NEGATIVES, PAIR, SINGLE = "with negatives", "without negatives", "single texts"
_MOST_LABELS = 10_000


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The targets of a regression."""

    lowest: float
    highest: float
    mean: float
    deviation: float
    """Of the population: its square is the mean squared error of always guessing the mean."""


@dataclass(frozen=True, kw_only=True)
class LabelledPart:
    """What one part holds."""

    examples: int
    labels: dict[str, int]
    """How often each occurs, most frequent first: classes, labels, entities by type (else tags), the number of the
    right option from 0, questions with an answer and without; empty for numbers."""
    without: int
    """Examples with no label, no entity or no answer, where a task allows that."""
    numbers: Numbers | None
    blank: int
    """Examples with a text that holds nothing but blanks."""
    first_blank: str | None
    """Where the first of them stands."""
    copies: Copies
    long: int | None
    """Examples that do not fit into max_length tokens, special ones included; None without a tokenizer."""
    unknown_share: float | None
    """The share of the tokens that the vocabulary does not hold, 0 to 1."""
    voiced: int | None
    """Kana whose voicing marks the tokenizer strips; None without a tokenizer."""
    split_entities: int | None
    """Entities that begin or end inside a token; None without a tokenizer or entities."""

    @property
    def long_share(self) -> float | None:
        """Long over examples, 0 to 1."""
        return None if self.long is None else self.long / max(self.examples, 1)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is counted of an example: one row of its texts for the model each (a text, or two)."""

    content: str
    label: str
    counted: tuple[str, ...]
    rows: list[tuple[str, ...]]


class PartCounter:
    """Counts a part. Its memory grows by hashes and numbers of contents, not by texts.

    together  queries and passages are read in one row (ranking), not each by itself (similarity)
    """

    def __init__(self, tokenizer: Tokenizer | None, max_length: int, *, together: bool = False) -> None:
        self.examples = 0
        self.labels: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        """Of words."""
        self.shared = self._contents = ContentTally()
        """By what must not be on both sides: contents; of questions their contexts."""
        self._tokenizer = tokenizer
        self._encoder = None if tokenizer is None else BulkEncoder(tokenizer)
        self._max_length, self._together = max_length, together
        self._without = self._blank = self._long = self._tokens = self._unknown = self._voiced = self._split = 0
        self._first_blank: str | None = None
        self._numbers = _Moments()

    def add(self, examples: Sequence[Example]) -> None:
        """Count some examples. Raises DataError for too many labels."""
        seen = [self._look(example) for example in examples]
        self.examples += len(examples)
        for example, one in zip(examples, seen, strict=True):
            self._contents.add(one.content, one.label, example.place)
            if not all(text.strip() for row in one.rows for text in row):
                self._blank += 1
                self._first_blank = self._first_blank or example.place
            self.labels.update(one.counted)
            if len(self.labels) > _MOST_LABELS:
                raise DataError(
                    f"{example.place}: more than {_MOST_LABELS:,} different labels, the last {one.counted[-1]!r:.40}; "
                    "is it the right column?"
                )
        if self._encoder is not None:
            assert self._tokenizer is not None
            self._measure(self._encoder, [one.rows for one in seen])
            self._voiced += voicing_lost(self._tokenizer, (text for example in examples for text in example.texts))
            self._split += sum(self._split_in(example) for example in examples if isinstance(example, TaggedExample))

    def _look(self, example: Example) -> _Seen:
        if isinstance(example, TextExample):
            return self._look_at_text(example)
        if isinstance(example, TaggedExample):
            tags = example.tags or ()
            self.tags.update(tags)
            spans = spans_of(tags)
            self._without += not spans
            return _Seen(example.text, " ".join(tags), tuple(span.type for span in spans), [(example.text,)])
        if isinstance(example, QuestionExample):
            if self.shared is self._contents:
                self.shared = ContentTally()
            self.shared.add(example.context, "", example.place)
            self._without += not example.answers
            texts = sorted({answer.text for answer in example.answers or ()})
            counted = (ANSWER if texts else NO_ANSWER,)
            row = (example.question, example.context)
            return _Seen("\n".join(row), "\n".join(texts), counted, [row])
        if isinstance(example, SimilarityExample):
            return self._look_at_similar(example)
        assert isinstance(example, ChoiceExample)
        rows = [(example.question, option) for option in example.options]
        label = str(example.label)
        return _Seen("\n".join([example.question, *example.options]), label, (label,), list(rows))

    def _look_at_text(self, example: TextExample) -> _Seen:
        row = (example.text,) if example.pair is None else (example.text, example.pair)
        label = example.label
        if isinstance(label, float):
            self._numbers.add(label)
            counted: tuple[str, ...] = ()
        else:
            counted = label if isinstance(label, tuple) else (str(label),)
            self._without += not counted
        return _Seen("\n".join(row), repr(label), counted, [row])

    def _look_at_similar(self, example: SimilarityExample) -> _Seen:
        texts = (example.text, *example.positives, *example.negatives)
        label = example.label
        counted: tuple[str, ...] = ()
        if isinstance(label, float):
            self._numbers.add(label)
        elif isinstance(label, str):
            counted = (label,)
        else:
            counted = (WITH_NEGATIVES if example.negatives else PAIR if example.positives else SINGLE,)
        rows: list[tuple[str, ...]] = [(text,) for text in texts]
        if self._together:
            rows = [(example.text, other) for other in texts[1:]]
        return _Seen("\n".join(texts), repr(label), counted, rows)

    def _measure(self, encoder: BulkEncoder, rows_of: Sequence[list[tuple[str, ...]]]) -> None:
        assert self._tokenizer is not None
        times = Counter(text for rows in rows_of for row in rows for text in row)  # options share their question
        pieces = encoder.encode(list(times))
        each = np.repeat(list(times.values()), pieces.lengths)
        self._tokens += int(each.sum())
        self._unknown += int(each[pieces.token_ids == self._tokenizer.unk_id].sum())
        length = dict(zip(times, pieces.lengths.tolist(), strict=True))
        for rows in rows_of:
            longest = max(sum(length[text] for text in row) + len(row) + 1 for row in rows)
            self._long += longest > self._max_length

    def _split_in(self, example: TaggedExample) -> int:
        """Return how many entities of a text begin or end inside a token."""
        assert self._tokenizer is not None
        spans = spans_of(example.tags or ())
        if not spans:
            return 0
        pieces = self._tokenizer.encode(example.text).offsets[1:-1]
        starts = [start for start, _ in pieces]

        def inside(place: int) -> bool:
            before = bisect_left(starts, place) - 1
            return before >= 0 and pieces[before][1] > place

        bounds = [(example.spans[span.start][0], example.spans[span.stop - 1][1]) for span in spans]
        return sum(inside(start) or inside(end) for start, end in bounds)

    def part(self) -> LabelledPart:
        """Return what was counted so far."""
        entities = speaks_of_entities(self.tags) if self.tags else True
        labels = self.labels if entities else self.tags
        known = self._tokenizer is not None
        return LabelledPart(
            examples=self.examples,
            labels=dict(sorted(labels.items(), key=lambda item: (-item[1], item[0]))),
            without=self._without if entities else 0,
            numbers=self._numbers.told() if self._numbers.count else None,
            blank=self._blank,
            first_blank=self._first_blank,
            copies=self._contents.copies(),
            long=self._long if known else None,
            unknown_share=self._unknown / max(self._tokens, 1) if known else None,
            voiced=self._voiced if known else None,
            split_entities=self._split if known and self.tags and entities else None,
        )


class _Moments:
    """Mean and deviation of numbers that pass by (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self._lowest, self._highest = math.inf, -math.inf
        self._mean = self._squares = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self._lowest, self._highest = min(self._lowest, value), max(self._highest, value)
        off = value - self._mean
        self._mean += off / self.count
        self._squares += off * (value - self._mean)

    def told(self) -> Numbers:
        deviation = math.sqrt(self._squares / self.count)
        return Numbers(lowest=self._lowest, highest=self._highest, mean=self._mean, deviation=deviation)
