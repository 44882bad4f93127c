"""Late interaction: a vector a token, and texts compared by MaxSim (ColBERT, Khattab and Zaharia 2020).

Between vectors of texts and a cross-encoder: passages are read without the query, as for vectors, and each word of the
query looks for its own best place in them. Every token counts, special ones included; ColBERT leaves a passage's
punctuation out, to store less, and nothing is stored here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.config import HeadConfig, HeadKind
from anaume.data.labelled import SimilarityExample
from anaume.errors import SettingsError
from anaume.model.vector_losses import contrastive_loss, max_sim
from anaume.tasks.features import Features, TaskBatch
from anaume.tasks.max_sim import max_sim_scores
from anaume.tasks.ranking.scores import main_score, told_scores
from anaume.tasks.ranking.task import query_and_passages
from anaume.tasks.retrieval import RETRIEVAL_SCORES, ranking_scores
from anaume.tasks.similarity.contrastive import check_pairs, in_batch_pairs
from anaume.tasks.similarity.rows import text_rows
from anaume.tasks.similarity.units import Units
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tasks.text_keys import known_pairs
from anaume.tasks.vector_scores import judged_passages
from anaume.tokenization import Tokenizer


@dataclass(frozen=True, kw_only=True)
class MaxSims(Prediction):
    """How well passages answer a query by MaxSim; higher is better."""

    scores: tuple[float, ...]
    """One a passage, in the order given."""
    vectors: tuple[npt.NDArray[np.float32], ...]
    """(tokens, size) of the query, then of each passage."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON: the score of a pair, or those of all passages."""
        told = {"score": self.scores[0]} if len(self.scores) == 1 else {"scores": list(self.scores)}
        return {**told, "coverage": self.coverage}


class LateInteraction(Task[SimilarityExample, MaxSims]):
    """Queries with positives, and with negatives or without.

    The loss is that of in-batch negatives over MaxSim scores: cross-entropy of each positive against the other texts of
    the batch; what is known to be alike is no negative (`text_keys`).

    scale         what scores are multiplied by, 1 as published: they are sums, not cosines
    prompts       what stands before a query and before a passage
    query_tokens  shorter queries are filled up with [MASK] to so many tokens, which may stand for words that are not
                  there (section 3.2); 0 = none
    known         sorted keys of the pairs of texts that are alike
    """

    name: ClassVar[str] = "late-interaction"
    kind: ClassVar[HeadKind] = "late-interaction"

    def __init__(
        self,
        head: HeadConfig,
        *,
        scale: float = 1.0,
        prompts: Sequence[str] = ("", ""),
        query_tokens: int = 0,
        metric: str = "mrr@10",
        known: npt.NDArray[np.int64] | None = None,
    ) -> None:
        if metric not in RETRIEVAL_SCORES:
            raise SettingsError(f"task.metric must be one of {', '.join(RETRIEVAL_SCORES)}; got {metric!r}")
        if len(prompts) != 2 or not all(isinstance(prompt, str) for prompt in prompts):
            raise SettingsError(f"task.prompts must be two texts, of queries and of passages; got {prompts!r:.60}")
        if not scale > 0.0:
            raise SettingsError(f"task.scale must be above 0; got {scale}")
        if isinstance(query_tokens, bool) or not isinstance(query_tokens, int) or query_tokens < 0:
            raise SettingsError(f"task.query_tokens must be a whole number from 0; got {query_tokens!r}")
        self._head, self.scale, self.metric = head, scale, metric
        self.prompts, self.query_tokens = (prompts[0], prompts[1]), query_tokens
        self._known = np.empty(0, np.int64) if known is None else known

    @classmethod
    def fit(cls, examples: Sequence[SimilarityExample], *, size: int = 128, **options: Any) -> Self:
        """Settle what is learned; `size` is that of a token's vector, 128 as published."""
        for example in examples:
            check_pairs(cls.name, example)
        return cls(HeadConfig(kind=cls.kind, size=size), known=known_pairs(examples), **options)

    @property
    def compares_units(self) -> bool:
        """Each query meets all passages of the batch."""
        return True

    @property
    def main(self) -> str:
        """The score that decides."""
        return self.metric

    @property
    def head(self) -> HeadConfig:
        """The head to train."""
        return self._head

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        return {
            "scale": self.scale,
            "prompts": list(self.prompts),
            "query_tokens": self.query_tokens,
            "metric": self.metric,
        }

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a bundle."""
        return cls(head, **settings)

    def check_labels(self, examples: Sequence[SimilarityExample]) -> None:
        """Refuse examples that are no queries with positives."""
        for example in examples:
            check_pairs(self.name, example)

    def features(
        self, examples: Sequence[SimilarityExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a unit an example: a row for the query, one each for positives and negatives."""
        if self.query_tokens > max_length:
            raise SettingsError(f"task.query_tokens is {self.query_tokens}; rows have at most {max_length} tokens")
        return text_rows(
            examples,
            tokenizer,
            max_length,
            prompts=self.prompts,
            query_tokens=self.query_tokens,
            targets={} if learn else None,
        )

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of queries."""
        return torch.tensor(float(batch.units), device=batch.unit_of_row.device)

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the mean over queries; logits (rows, seq_len, size), of length 1."""
        units, mask = Units.of(batch), batch.attention_mask
        near, far = in_batch_pairs(batch, self._known)
        with torch.autocast(logits.device.type, enabled=False):
            scores = max_sim(logits[units.queries], mask[units.queries], logits[units.others], mask[units.others])
            return contrastive_loss(self.scale * scores, near, far, count=count)

    def decode(self, logits: Logits, features: Features, examples: Sequence[SimilarityExample]) -> list[MaxSims]:
        """Return the scores of each query's passages."""
        made = []
        starts = features.unit_starts.tolist()
        for (start, stop), coverage in zip(itertools.pairwise(starts), features.coverage, strict=True):
            query, *passages = (logits[row] for row in range(start, stop))
            scores = tuple(max_sim_scores(query, passages).tolist())
            made.append(MaxSims(scores=scores, vectors=(query, *passages), coverage=float(coverage)))
        return made

    def score(self, predictions: Sequence[MaxSims], examples: Sequence[SimilarityExample]) -> dict[str, Any]:
        """Return how well queries find their positives among all passages of the examples."""
        self.check_labels(examples)
        told = told_scores(self.example_scores(predictions, examples), self.main, labelled=False)
        return {**told, "examples": len(examples)}

    def example_scores(
        self, predictions: Sequence[MaxSims], examples: Sequence[SimilarityExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, len(RETRIEVAL_SCORES))."""
        where, judged = judged_passages(examples)
        passages = [predictions[example].vectors[1 + place] for example, place in where]
        rows = []
        for own, right in zip(predictions, judged, strict=True):
            order = np.argsort(-max_sim_scores(own.vectors[0], passages), kind="stable")
            found = ranking_scores(order.tolist(), right)
            rows.append([found[name] for name in RETRIEVAL_SCORES])
        return np.array(rows, dtype=np.float64)

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return the main score of these rows."""
        return main_score(rows, self.main)

    def example(self, given: object, place: str) -> SimilarityExample:
        """Return a pair (query, passage), or (query, [passage, ...])."""
        return query_and_passages(self.name, given, place)
