"""Tags of words: fine-tuning and decoding (BERT, section 5.3: a word's first piece says its tag).

Entities are learned as BIO, whatever scheme the file has, and given back in the file's. They are read leniently, as
conlleval does: an I- with none of its type before it begins an entity. Scores come by a strict reading, too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, HeadLayers
from anaume.data.labelled import TaggedExample, cut_words
from anaume.data.labelled.conll import joined
from anaume.errors import DataError, SettingsError, nearest
from anaume.model import classification_loss
from anaume.tasks.features import IGNORED, Features, TaskBatch
from anaume.tasks.ner.entities import TaggedPrediction
from anaume.tasks.ner.learning import settle_scheme, settle_smoothing, settle_weights, warn_of_lost
from anaume.tasks.ner.reading import WordLabels
from anaume.tasks.ner.rows import build_features
from anaume.tasks.ner.schemes import Scheme, Span, scheme_of_labels, spans_of
from anaume.tasks.ner.scores import entity_scores, f1_of
from anaume.tasks.ner.tagset import TagSet
from anaume.tasks.task import Logits, Task
from anaume.tokenization import Tokenizer

TAGGERS = {"linear": 0, "bilstm": 2}
"""What stands between the encoder and the tags, and how many recurrent layers it has (two: BERT, section 5.3)."""


@dataclass(frozen=True)
class Ner(Task[TaggedExample, TaggedPrediction]):
    """Tags of words, as one trained head knows them. The main score is f1 (lenient), accuracy for plain tags."""

    name: ClassVar[str] = "ner"
    kind: ClassVar[HeadKind] = "token-classification"

    trained: HeadConfig
    scheme: Scheme
    """Of the tags that are given back."""
    class_weights: tuple[float, ...] | None = None
    """One a label of the head; None = all 1."""
    label_smoothing: float = 0.0
    """The share of a word's label that is spread over all labels."""

    @classmethod
    def fit(
        cls,
        examples: Sequence[TaggedExample],
        *,
        scheme: str | None = None,
        class_weights: str | Mapping[str, float] | None = None,
        label_smoothing: float = 0.0,
        layers: HeadLayers = "last",
        tagger: str = "linear",
        **unknown: Any,
    ) -> Self:
        """Settle scheme, labels and weights; see `Task.fit`.

        scheme           iob1, bio, bioes, bilou, plain; None = recognised
        class_weights    None or "none"; "balanced" = words / (labels x words with the label); or {label: weight}, the
                         others 1. Helps rare types be found, at the cost of precision
        label_smoothing  0 to below 1. Helps where tags are noisy
        layers           what of the encoder is read (`HeadConfig.layers`)
        tagger           linear, as published; bilstm: two layers of a BiLSTM before it, for frozen encoders

        Warns of entities that the scheme would spell otherwise.
        """
        if unknown:
            options = ("scheme", "class_weights", "label_smoothing", "layers", "tagger")
            name = next(iter(unknown))
            raise SettingsError(
                f"task.{name} means nothing to ner{nearest(name, options)}; it has: {', '.join(options)}"
            )
        if tagger not in TAGGERS:
            raise SettingsError(
                f"task.tagger must be one of {', '.join(TAGGERS)}; got {tagger!r}{nearest(tagger, TAGGERS)}"
            )
        found, labels = settle_scheme(examples, scheme)
        head = HeadConfig(kind=cls.kind, labels=labels, layers=layers, recurrent_layers=TAGGERS[tagger])
        task = cls(trained=head, scheme=found)
        counts: Counter[str] = Counter()
        if class_weights == "balanced":
            ids = Counter(id_ for number in range(len(examples)) for id_ in task.tagset.label_ids(number, examples))
            counts = Counter({labels[label]: count for label, count in ids.items()})
        return replace(
            task,
            class_weights=settle_weights(class_weights, labels, counts),
            label_smoothing=settle_smoothing(label_smoothing),
        )

    @cached_property
    def tagset(self) -> TagSet:
        """What the labels mean."""
        return TagSet(self.trained.labels, self.scheme)

    @property
    def main(self) -> str:
        """The score that decides which weights are best."""
        return "accuracy" if self.tagset.plain else "f1"

    @property
    def head(self) -> HeadConfig:
        """The head to train."""
        return self.trained

    def settings(self) -> dict[str, Any]:
        """Return what a bundle keeps beside the label names."""
        return {"scheme": self.scheme}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle; of a foreign head, in the scheme of its label names.

        Labels beside entity tags that are none themselves ("X", "[CLS]") count as O. Weights and smoothing only matter
        for training.
        """
        return cls(trained=head, scheme=settings.get("scheme", scheme_of_labels(head.labels)))

    def features(
        self, examples: Sequence[TaggedExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a row a text, or a window of a long one, with the words each decides (see `rows.ReadWords`).

        Warns of entities, or of plain tags, that can't be learned with the tokenizer's pieces.
        """
        if not learn:
            return build_features(examples, tokenizer, max_length, None)
        features = build_features(
            examples, tokenizer, max_length, lambda number: self.tagset.label_ids(number, examples)
        )
        counts = [
            self.tagset.lost(number, examples, features.details[start:stop])
            for number, (start, stop) in enumerate(_rows_of(features))
        ]
        warn_of_lost(counts, examples, "words" if self.tagset.plain else "entities")
        return features

    def example(self, given: object, place: str) -> TaggedExample:
        """Return words given as a list, or a text, which is cut into words as a file of texts is."""
        if isinstance(given, str):
            return TaggedExample(text=given, spans=cut_words(given), place=place)
        if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
            raise DataError(f"{place}: ner reads a text, or a list of words; got {type(given).__name__} {given!r:.60}")
        text, spans = joined(list(given))
        return TaggedExample(text=text, spans=spans, place=place)

    def check_labels(self, examples: Sequence[TaggedExample]) -> None:
        """Refuse tags that the head does not know, with both lists. Raises DataError."""
        for number in range(len(examples)):
            self.tagset.right(number, examples)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of labelled words, or the sum of their weights."""
        labels = batch.targets["labels"]
        counted = labels != IGNORED
        weights = self._weights(labels)
        return counted.sum().float() if weights is None else (weights[labels.clamp(min=0)] * counted).sum()

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the summed cross-entropy of the labelled words over `count`."""
        labels = batch.targets["labels"]
        return classification_loss(logits, labels, self._weights(labels), self.label_smoothing, count=count)

    def _weights(self, labels: Tensor) -> Tensor | None:
        return None if self.class_weights is None else torch.tensor(self.class_weights, device=labels.device)

    def decode(self, logits: Logits, features: Features, examples: Sequence[TaggedExample]) -> list[TaggedPrediction]:
        """Return a tag a word, and the entities; a word's label is the likeliest at its first piece."""
        predictions = []
        for example, (start, stop), coverage in zip(examples, _rows_of(features), features.coverage, strict=True):
            rows = zip(features.details[start:stop], logits[start:stop], strict=True)
            said = WordLabels.read(len(example.spans), rows)
            predictions.append(self._predict(example, said, float(coverage)))
        return predictions

    def _predict(self, example: TaggedExample, said: WordLabels, coverage: float) -> TaggedPrediction:
        tags, found = self.tagset.answer(said)
        return TaggedPrediction(
            words=example.words,
            tags=tuple(tags),
            probabilities=tuple(said.probabilities.tolist()),
            entities=tuple(said.entity(span, example, strict=strict) for span, strict in found),
            coverage=coverage,
        )

    def score(self, predictions: Sequence[TaggedPrediction], examples: Sequence[TaggedExample]) -> dict[str, Any]:
        """Return accuracy a word and, of entities, F1, precision and recall (see `scores.entity_scores`).

        "majority" is the accuracy of the commonest tag everywhere.
        Those at the top are lenient; "lenient" and "strict" hold all of both readings. Right tags are read leniently.
        Where there is no entity on either side, F1 is None, and "reason" says so.
        """
        right = [self.tagset.right(number, examples) for number in range(len(examples))]
        words = sum(map(len, right))
        hits = sum(_hits(tags, own) for tags, own in zip(right, predictions, strict=True))
        accuracy = hits / words if words else None
        commonest = max(Counter(itertools.chain.from_iterable(right)).values(), default=0)
        majority = commonest / words if words else None
        if self.tagset.plain:
            return {"accuracy": accuracy, "majority": majority, "words": words}
        gold = [spans_of(tags) for tags in right]
        lenient = entity_scores(gold, [spans_of(own.tags) for own in predictions])
        strict = entity_scores(gold, [_strict_spans(own) for own in predictions])
        return {
            **{name: lenient[name] for name in ("f1", "precision", "recall", "macro_f1")},
            "accuracy": accuracy,
            "majority": majority,
            "words": words,
            "entities": sum(map(len, gold)),
            "reading": "lenient",
            "lenient": lenient,
            "strict": strict,
            **({} if lenient["f1"] is not None else {"reason": "no entities: neither tagged nor predicted"}),
        }

    def example_scores(
        self, predictions: Sequence[TaggedPrediction], examples: Sequence[TaggedExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 3): right, found and wanted entities; (examples, 2) for plain tags: right and all words."""
        rows: list[tuple[int, ...]] = []
        for number, own in enumerate(predictions):
            tags = self.tagset.right(number, examples)
            if self.tagset.plain:
                rows.append((_hits(tags, own), len(tags)))
            else:
                gold, found = set(spans_of(tags)), set(spans_of(own.tags))
                rows.append((len(gold & found), len(found), len(gold)))
        return np.array(rows, dtype=np.float64).reshape(len(predictions), 2 if self.tagset.plain else 3)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return accuracy or F1; 0 where there is nothing to count, so that every resample has one."""
        totals = rows.sum(axis=0).tolist()
        if self.tagset.plain:
            return float(totals[0] / totals[1]) if totals[1] else 0.0
        return f1_of(*totals) or 0.0


def _rows_of(features: Features) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) of each example."""
    starts = np.searchsorted(features.examples, np.arange(len(features.coverage) + 1))
    return itertools.pairwise(starts.tolist())


def _hits(tags: Sequence[str], own: TaggedPrediction) -> int:
    return sum(tag == said for tag, said in zip(tags, own.tags, strict=True))


def _strict_spans(own: TaggedPrediction) -> list[Span]:
    return [span for span, entity in zip(spans_of(own.tags), own.entities, strict=True) if entity.strict]
