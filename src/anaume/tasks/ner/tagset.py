"""What the labels of a head mean: right tags as its labels, and its labels as tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from anaume.data.labelled import TaggedExample
from anaume.tasks.ner.learning import known_tags
from anaume.tasks.ner.reading import WordLabels
from anaume.tasks.ner.rows import ReadWords
from anaume.tasks.ner.schemes import Scheme, Span, scheme_of_labels, spans_of, split_tag, tags_of


@dataclass(frozen=True)
class TagSet:
    """The labels of a head in order, and the scheme that tags are given back in."""

    labels: tuple[str, ...]
    scheme: Scheme

    @property
    def plain(self) -> bool:
        """Whether tags mean no entities."""
        return self.scheme == "plain"

    def right(self, number: int, examples: Sequence[TaggedExample]) -> Sequence[str]:
        """Return an example's tags, whatever their scheme, in this one. Raises DataError for a tag not known."""
        tags = known_tags(number, examples, self._known, plain=self.plain)
        return tags if self.plain else tags_of(spans_of(tags), len(tags), self.scheme)

    def label_ids(self, number: int, examples: Sequence[TaggedExample]) -> list[int]:
        """Return the number of the label of each word; where a head lacks a type's B, that of another of the type."""
        tags = self.right(number, examples)
        if not self.plain:
            tags = tags_of(spans_of(tags), len(tags), self._head_scheme)
        return [self._ids[tag] if tag in self._ids else self._known[tag.partition("-")[2]] for tag in tags]

    def answer(self, said: WordLabels) -> tuple[list[str], list[tuple[Span, bool]]]:
        """Return the tags of a text's words, and its entities, each with whether a strict reading finds it."""
        if self.plain:
            return said.tags(self.labels), []
        found = said.spans(self.labels, self._head_scheme)
        return tags_of([span for span, _ in found], len(said.labels), self.scheme), found

    def lost(self, number: int, examples: Sequence[TaggedExample], rows: Sequence[ReadWords]) -> tuple[int, int]:
        """Return how many of an example's entities (plain: words) no model can get right from these rows, of how many.

        rows  what each row of the example decides
        """
        tags = self.right(number, examples)
        said = WordLabels.taught(self.label_ids(number, examples), rows)
        told, _ = self.answer(said)
        if self.plain:
            return sum(map(str.__ne__, tags, told)), len(tags)
        gold = spans_of(tags)
        return len(set(gold) - set(spans_of(told))), len(gold)

    @cached_property
    def _head_scheme(self) -> Scheme:
        return scheme_of_labels(self.labels)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def _known(self) -> dict[str, int]:
        """The first label of each type; plain tags are their own."""
        if self.plain:
            return self._ids
        pairs = [(split_tag(label), number) for number, label in enumerate(self.labels)]
        return {pair[1]: number for pair, number in reversed(pairs) if pair and pair[0] != "O"}
