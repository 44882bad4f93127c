"""From a head's logits to the labels of words, and from those to entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anaume.data.labelled import TaggedExample
from anaume.tasks.ner.entities import Entity
from anaume.tasks.ner.rows import ReadWords, is_own
from anaume.tasks.ner.schemes import Scheme, Span, spans_of, strict_spans_of
from anaume.tasks.ner.scores import BARE


@dataclass(frozen=True, slots=True)
class WordLabels:
    """What the model says of each word of one text."""

    labels: npt.NDArray[np.int64]
    """(words,): the number of the likeliest label; -1 for a word without any piece."""
    probabilities: npt.NDArray[np.float64]
    """(words,): its probability, 0 for a word without any piece."""
    own: npt.NDArray[np.bool_]
    """(words,): True where it was read from a piece of the word's own; others go with the word before them."""

    @classmethod
    def read(cls, words: int, rows: Iterable[tuple[ReadWords, npt.NDArray[np.float32]]]) -> Self:
        """Read the words out of the rows of a text: (what each row decides, its logits (tokens, labels))."""
        said = cls(np.full(words, -1), np.zeros(words), np.zeros(words, dtype=bool))
        for read, logits in rows:
            scores = logits[read[1]].astype(np.float64)
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            said.labels[read[0]] = odds.argmax(axis=1)
            said.probabilities[read[0]] = odds.max(axis=1) / odds.sum(axis=1)
            said.own[read[0]] = is_own(read)
        return said

    @classmethod
    def taught(cls, labels: Sequence[int], rows: Iterable[ReadWords]) -> Self:
        """Return what a model says that has learned the words' labels as well as the pieces allow."""
        right = np.asarray(labels)
        said = cls(np.full(len(right), -1), np.zeros(len(right)), np.zeros(len(right), dtype=bool))
        for read in rows:
            own = is_own(read)
            taught = np.maximum.accumulate(np.where(own, np.arange(len(own)), 0))
            said.labels[read[0]] = right[read[0][taught]]
            said.own[read[0]] = own
        return said

    def spans(self, labels: Sequence[str], scheme: Scheme) -> list[tuple[Span, bool]]:
        """Return the entities by a lenient reading, and whether a strict one finds each.

        Words without a piece of their own never begin or end one: they lie in it with the words around them.
        """
        read = np.flatnonzero(self.own)
        tags = [labels[label] for label in self.labels[read]]
        strict = set(strict_spans_of(tags, scheme))
        seen = np.flatnonzero(self.labels >= 0)
        # Each goes on through the words that go with its last one, up to the next that is read.
        stops = seen[np.searchsorted(seen, np.append(read[1:], len(self.labels))) - 1] + 1 if len(read) else read
        return [
            (Span(span.type, int(read[span.start]), int(stops[span.stop - 1])), span in strict)
            for span in spans_of(tags)
        ]

    def tags(self, labels: Sequence[str]) -> list[str]:
        """Return plain tags; a word that was not read has that of the word before it (the first one's at the start)."""
        read = np.flatnonzero(self.own)
        if not len(read):
            return [labels[0]] * len(self.labels)
        source = read[np.maximum(np.searchsorted(read, np.arange(len(self.labels)), side="right") - 1, 0)]
        return [labels[label] for label in self.labels[source]]

    def entity(self, span: Span, example: TaggedExample, *, strict: bool) -> Entity:
        """Return an entity with its characters; its score is the mean over its words that have a piece."""
        start, end = example.spans[span.start][0], example.spans[span.stop - 1][1]
        words = slice(span.start, span.stop)
        return Entity(
            label=span.type or BARE,
            start=start,
            end=end,
            text=example.text[start:end],
            score=float(self.probabilities[words][self.labels[words] >= 0].mean()),
            strict=strict,
        )
