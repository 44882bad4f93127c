"""What a labelled file holds, row by row. Labels are None where they are asked for, not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row of a labelled file."""

    place: str = ""
    """Where it stands, as messages say it: "dev.tsv: row 12"."""
    fields: Mapping[str, object] = field(default_factory=dict)
    """Every column as it was read, to be written back beside a prediction."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextExample(Example):
    """A text, or a pair of texts, with what is said of it."""

    text: str
    pair: str | None = None
    label: str | float | tuple[str, ...] | None = None
    """The name of its class, a number, or the names of all its labels."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return (self.text,) if self.pair is None else (self.text, self.pair)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedExample(Example):
    """A text cut into words, with a tag each."""

    text: str
    """The original; words given without one are joined by spaces."""
    spans: tuple[tuple[int, int], ...]
    """Character span [start, end) of each word in the text, in order."""
    tags: tuple[str, ...] | None = None
    """One a word, as the file spells them (B-PER, I-PER, O, ...)."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return (self.text,)

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[start:end] for start, end in self.spans)


@dataclass(frozen=True, slots=True)
class Answer:
    """One right answer: context[start : start + len(text)] is the text."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionExample(Example):
    """A question about a context."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...] | None = None
    """Every answer that counts as right; () = the context has none (SQuAD 2.0)."""
    title: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return (self.question, self.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceExample(Example):
    """A question, or the beginning of a text, with options of which one is right."""

    question: str
    options: tuple[str, ...]
    label: int | None = None
    """The number of the right option, from 0."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return (self.question, *self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityExample(Example):
    """A text and others that should be near it or far from it in the space of vectors; or a text by itself."""

    text: str
    """The query, where the others are passages."""
    positives: tuple[str, ...] = ()
    """What is near; of a labelled pair, the second text."""
    negatives: tuple[str, ...] = ()
    label: str | float | tuple[float, ...] | None = None
    """Of a pair: how similar the two are, or the name of its class. With negatives: how much better a teacher scores
    the positive than each of them."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What of it a model reads."""
        return (self.text, *self.positives, *self.negatives)
