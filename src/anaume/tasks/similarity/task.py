"""Similarity: an encoder whose vectors of like texts are near each other (Sentence-BERT, Reimers and Gurevych 2019).

The "logits" of this task are the pooled vectors of each text; what is kept of it is the encoder, and how it pools.
Which texts are compared, and how, is the objective's; see `OBJECTIVES`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, PoolingMethod
from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError, SettingsError
from anaume.model import Bert
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.similarity.objective import Objective
from anaume.tasks.similarity.objectives import objective_named, objective_of
from anaume.tasks.similarity.rows import text_rows
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.triples import MarginMse
from anaume.tasks.similarity.units import Compared
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tasks.text_keys import known_pairs
from anaume.tasks.vector_scores import METRICS, USUAL, VectorScores, kind_of, vector_scores
from anaume.tokenization import Tokenizer


@dataclass(frozen=True, kw_only=True)
class TextVectors(Prediction):
    """The vectors of an example's texts."""

    vectors: npt.NDArray[np.float32]
    """(texts, size): query, positives, negatives."""
    label: str | None = None
    """What the classifier says of a pair, where there is one."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"vectors": self.vectors.tolist(), "coverage": self.coverage}


class Similarity(Task[SimilarityExample, TextVectors]):
    """One vector a text.

    objective       a name of `OBJECTIVES`
    terms           its numbers: scale, margin, the range of scores
    normalize       whether vectors have length 1 before they are compared
    dimensions      Matryoshka (Kusupati et al. 2022): the loss is the sum over vectors cut to each of these sizes
    prompts         what stands before a query and before what it is compared with
    metric          the score that decides
    known           sorted keys of the pairs of texts that are alike (`text_key`): never each other's negatives
    """

    name: ClassVar[str] = "similarity"
    kind: ClassVar[HeadKind] = "similarity"
    starts_scored: ClassVar[bool] = True

    def __init__(
        self,
        head: HeadConfig,
        *,
        objective: str = "in-batch",
        terms: Terms | None = None,
        normalize: bool = True,
        dimensions: Sequence[int] = (),
        prompts: tuple[str, str] = ("", ""),
        metric: str = "spearman",
        known: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._head = head
        self.objective: Objective = objective_named(objective)
        self.terms = terms or Terms()
        self.normalize, self.prompts = normalize, prompts
        self.dimensions = tuple(dimensions)
        if not all(type(size) is int and size > 0 for size in self.dimensions):
            raise SettingsError(f"task.dimensions must be whole numbers from 1; got {list(dimensions)}")
        if self.dimensions and head.labels:
            raise SettingsError("task.dimensions mean nothing to softmax, whose classifier reads whole vectors")
        if self.dimensions and self.objective.rebuilds:
            raise SettingsError(f"task.dimensions mean nothing to {objective}, whose decoder reads whole vectors")
        if metric not in METRICS:
            raise SettingsError(f"task.metric must be one of {', '.join(METRICS)}; got {metric!r}")
        self.metric = metric
        self._known = np.empty(0, np.int64) if known is None else known

    @classmethod
    def fit(
        cls,
        examples: Sequence[SimilarityExample],
        *,
        objective: str | None = None,
        pooling: PoolingMethod = "mean",
        scale: float = 20.0,
        margin: float = 1.0,
        score_range: Sequence[float] | None = None,
        deleted: float = 0.6,
        decoder_layers: int = 1,
        metric: str | None = None,
        prompts: tuple[str, str] = ("", ""),
        **options: Any,
    ) -> Self:
        """Settle what is learned; without an objective, what the examples have decides."""
        chosen = objective_named(objective or objective_of(examples))
        for example in examples:
            chosen.check(example)
        labels = sorted({str(example.label) for example in examples}) if chosen.classes else []
        if chosen.classes and len(labels) < 2:
            raise DataError(f"{examples[0].place}: {chosen.name} needs two classes or more; all rows are {labels[0]!r}")
        terms = Terms.of(examples, scale=scale, margin=margin, score_range=score_range, deleted=deleted)
        return cls(
            HeadConfig(
                kind=cls.kind,
                pooling=pooling,
                labels=tuple(labels),
                decoder_layers=decoder_layers if chosen.rebuilds else 0,
            ),
            objective=chosen.name,
            terms=terms,
            prompts=prompts if chosen.directed else (prompts[1], prompts[1]),
            metric=metric or chosen.metric,
            known=known_pairs(examples) if chosen.compares_units else None,
            **options,
        )

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    @property
    def compares_units(self) -> bool:
        """Whether the loss is of a batch as a whole, and no sum over its units."""
        return self.objective.compares_units

    @property
    def scores_dot(self) -> bool:
        """Whether vectors are compared by their dot product: margins of a teacher go beyond those of cosines."""
        return isinstance(self.objective, MarginMse) and not self.normalize

    @property
    def head(self) -> HeadConfig:
        """The head to train."""
        return self._head

    def settings(self) -> dict[str, Any]:
        """Return what was settled; nothing of it is needed to make vectors."""
        return {
            "objective": self.objective.name,
            "terms": self.terms.to_dict(),
            "normalize": self.normalize,
            "dimensions": list(self.dimensions),
            "prompts": list(self.prompts),
            "metric": self.metric,
        }

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle; none is saved with one."""
        given = dict(settings)
        if "terms" in given:
            given["terms"] = Terms(**given["terms"])
        if "prompts" in given:
            given["prompts"] = tuple(given["prompts"])
        return cls(head, **given)

    def features(
        self, examples: Sequence[SimilarityExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a unit an example: a row for the query, one each for positives and negatives."""
        targets = self.objective.targets(examples, self.terms, self._head.labels) if learn else None
        rows = text_rows(
            examples, tokenizer, max_length, prompts=self.prompts, twice=self.objective.twice, targets=targets
        )
        if learn and self.objective.rebuilds:
            return replace(rows, targets={**rows.targets, "tokens": rows.token_ids})
        return rows

    def kept_places(
        self, token_ids: Sequence[npt.NDArray[Any]], rows: Sequence[int], *, seed: int, step: int
    ) -> list[npt.NDArray[np.int64]] | None:
        """Return what the objective leaves of each row."""
        return self.objective.kept_places(token_ids, rows, self.terms, seed=seed, step=step)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return how many terms these units have: units, or triples."""
        return self.objective.count(batch)

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the loss; logits (rows, hidden_size), with a classifier's (rows, hidden_size + labels).

        Of an objective that compares units it is that of the batch as a whole; `count` scales it like the others'.
        One with a decoder can't do without its model (`loss_in`).
        """
        return self._loss(None, logits, batch, count)

    def loss_in(self, model: Bert, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the loss, where a decoder of the model may be part of it."""
        return self._loss(model, logits, batch, count)

    def _loss(self, model: Bert | None, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        width = logits.shape[-1] - len(self._head.labels)
        vectors, classes = logits[:, :width].float(), logits[:, width:]
        for size in self.dimensions:
            if size > width:
                raise SettingsError(f"task.dimensions has {size}; the vectors have {width}")
        losses, rebuilds = [], self.objective.rebuilds
        # Cosines in bfloat16 are off in their third digit; a decoder takes no harm.
        with nullcontext() if rebuilds else torch.autocast(logits.device.type, enabled=False):
            for size in self.dimensions or (width,):
                cut = vectors[:, :size]
                given = Compared(
                    vectors=F.normalize(cut, dim=-1) if self.normalize and not rebuilds else cut,
                    classes=classes,
                    batch=batch,
                    count=count,
                    terms=self.terms,
                    known=self._known,
                    model=model,
                )
                losses.append(self.objective.loss(given))
        return torch.stack(losses).sum()

    def decode(self, logits: Logits, features: Features, examples: Sequence[SimilarityExample]) -> list[TextVectors]:
        """Return the vectors of each example's texts."""
        made, classes = [], len(self._head.labels)
        starts = features.unit_starts.tolist()
        for (start, stop), coverage in zip(itertools.pairwise(starts), features.coverage, strict=True):
            rows = np.stack([logits[row] for row in range(start, stop)])
            label = self._head.labels[int(rows[0, -classes:].argmax())] if classes else None
            vectors = rows[:, : rows.shape[1] - classes]
            made.append(TextVectors(vectors=vectors, label=label, coverage=float(coverage)))
        return made

    def score(self, predictions: Sequence[TextVectors], examples: Sequence[SimilarityExample]) -> dict[str, Any]:
        """Return the scores that these examples allow, and `main`, None with the reason where it is none of them."""
        told: dict[str, Any] = dict(self._scored(predictions, examples).scores)
        if told.get(self.main) is None:
            told[self.main] = None
            told.setdefault("reason", f"examples of this kind have no {self.main}")
        for size in self.dimensions:
            cut = [TextVectors(vectors=one.vectors[:, :size], coverage=one.coverage) for one in predictions]
            told[f"{self.main}@{size}d"] = self._scored(cut, examples).scores.get(self.main)
        return {**told, "examples": len(examples)}

    def example_scores(
        self, predictions: Sequence[TextVectors], examples: Sequence[SimilarityExample]
    ) -> npt.NDArray[np.float64]:
        """Return what `score_of` needs: (examples, 2) label and cosine, or (examples, 1) the score of each query."""
        return self._scored(predictions, examples).rows(self.main)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows; NaN where it is not defined."""
        return VectorScores.of_rows(self.main, rows)

    def _scored(self, predictions: Sequence[TextVectors], examples: Sequence[SimilarityExample]) -> VectorScores:
        return vector_scores(
            [one.vectors for one in predictions], [one.label for one in predictions], examples, dot=self.scores_dot
        )

    def judged_on(self, examples: Sequence[SimilarityExample]) -> Self:
        """Return the task with a main score that held-out examples of this kind can have, where its own is none."""
        kind = kind_of(examples)
        return self if kind is None or kind == METRICS[self.metric] else self._with(metric=USUAL[kind])

    def _with(self, **changes: Any) -> Self:
        given: dict[str, Any] = {**self.settings(), "terms": self.terms, "known": self._known, **changes}
        return type(self)(self._head, **{**given, "prompts": tuple(given["prompts"])})

    def example(self, given: object, place: str) -> SimilarityExample:
        """Return a text, or two given as a tuple or list."""
        if isinstance(given, str):
            return SimilarityExample(text=given, place=place)
        if isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(one, str) for one in given):
            return SimilarityExample(text=given[0], positives=(given[1],), place=place)
        raise DataError(f"{place}: similarity reads a text or a pair (text, text); got {given!r:.60}")
