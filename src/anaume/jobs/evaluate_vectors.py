"""What the vectors of a bundle are worth: STS, pairs of two classes, retrieval, reranking; with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.bundle import Bundle
from anaume.bundle.embedding import EmbedTotals
from anaume.data.judged import RetrievalSet, read_retrieval_set
from anaume.data.labelled import SimilarityExample, read_labelled
from anaume.errors import AnaumeWarning, DataError, SettingsError, nearest
from anaume.jobs.evaluate_late import late_reranking, late_retrieval, refuse_for_late
from anaume.jobs.progress import progress_bar
from anaume.jobs.vector_evaluation import VECTOR_TASKS, VectorEvaluation, require_both
from anaume.tasks.retrieval import DEPTH, Interval, cosines, intervals, nearest_rows, ranking_scores
from anaume.tasks.vector_scores import ALIKE, correlation, pair_scores, resampled, sts_scores
from anaume.tasks.whitening import Whitening

_CHUNK = 1024

Paths = str | Path | Sequence[str | Path]


def evaluate_vectors(
    bundle: Bundle,
    paths: Paths,
    task: str,
    *,
    dimensions: int | None = None,
    positive: str | None = None,
    whiten: bool = False,
    progress: bool = False,
    **reading: Any,
) -> VectorEvaluation:
    """Score the vectors of a bundle.

    task        sts: scored pairs, by Spearman (and Pearson) correlation of the cosine with the score
                pairs: pairs of two classes, by average precision of the cosine, with the best thresholds
                retrieval: queries against all documents of a set (`read_retrieval_set` says how it is given)
                reranking: each query's positives among its own negatives; of equal scores the negative is first
    dimensions  vectors are cut to so many numbers, as Matryoshka training allows
    whiten      vectors are whitened first, as these very texts (of retrieval: the documents) have it; `dimensions` then
                keeps the directions that vary most
    positive    of pairs: the class of those that are alike; None = 1, true, yes, entailment, ...
    reading     columns and format, as `read_similar` takes them

    A bundle of late interaction has retrieval and reranking, by MaxSim over all documents.
    Queries and passages get the bundle's prompts where it has some. Raises SettingsError for wrong arguments, DataError
    for a file or a row.
    """
    if task not in VECTOR_TASKS:
        raise SettingsError(
            f"vectors aren't judged by {task!r}{nearest(task, VECTOR_TASKS)}: {', '.join(VECTOR_TASKS)}"
        )
    late = bundle.parts.is_late
    if late:
        refuse_for_late(task, dimensions, whiten)
    if dimensions is not None and not 1 <= dimensions <= bundle.embedding_size:
        raise SettingsError(
            f"dimensions must be 1 to {bundle.embedding_size}, the size of the vectors; got {dimensions}"
        )
    if positive is not None and task != "pairs":
        raise SettingsError(f"a positive class is of the task pairs, not of {task}")
    if task == "retrieval":
        given = {name: value for name, value in reading.items() if name != "encoding" and value not in (None, True)}
        if given.pop("errors", "strict") != "strict" or given:
            raise SettingsError("a retrieval set has its own files: of the options of reading it takes --encoding")
        found = read_retrieval_set(paths, encoding=reading.get("encoding", "utf-8"))
        total = len(found.documents) + len(found.queries)
        with progress_bar("embedding", total, show=progress) as advance:
            if late:
                return late_retrieval(found, bundle, advance)
            return _retrieval(found, _Embedder(bundle, dimensions, whiten, advance))
    read = read_labelled("similarity", paths, **reading)
    examples = [example for example in read if isinstance(example, SimilarityExample)]
    if not examples:
        raise DataError(f"{paths}: no examples to score on")
    total = sum(1 + len(one.positives) + len(one.negatives) for one in examples)
    with progress_bar("embedding", total, show=progress) as advance:
        if late:
            return late_reranking(examples, bundle, advance)
        embedder = _Embedder(bundle, dimensions, whiten, advance)
        if task == "sts":
            return _sts(examples, embedder)
        return _pairs(examples, embedder, positive) if task == "pairs" else _reranking(examples, embedder)


@dataclass
class _Embedder:
    """Embeds texts and sums up what the model saw of them."""

    bundle: Bundle
    dimensions: int | None
    whiten: bool
    advance: Callable[[int], None]
    totals: EmbedTotals = field(default_factory=EmbedTotals)

    def __call__(self, texts: Sequence[str], as_: str | None = None) -> npt.NDArray[np.float32]:
        """Return (n, size) float32."""
        chunks = (texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK))
        found = []
        for report in self.bundle.embed_stream(chunks, as_=as_, fingerprint=""):
            self.totals.add(report)
            self.advance(len(report.vectors))
            found.append(report.vectors)
        vectors = np.concatenate(found)
        if not np.isfinite(vectors).all():
            raise DataError("the model gives NaN or infinite numbers: its weights are unusable")
        return vectors

    def kept(
        self, *vectors: npt.NDArray[np.float32], of: Sequence[npt.NDArray[np.float32]] | None = None
    ) -> list[npt.NDArray[np.float32]]:
        """Return vectors whitened, where that is asked for, and cut; `of`: what whitening is learned from."""
        if not self.whiten:
            return [own[:, : self.dimensions] for own in vectors]
        whitening = Whitening.of(np.concatenate(of or vectors), self.dimensions)
        return [whitening(own) for own in vectors]

    def result(self, task: str, scores: dict[str, Any], spans: dict[str, Interval], **told: Any) -> VectorEvaluation:
        """Return the evaluation, and warn of what the model did not see."""
        if messages := self.totals.messages(self.bundle.embedding):
            warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=4)
        return VectorEvaluation(
            task=task,
            metric=VECTOR_TASKS[task],
            scores=scores,
            intervals=spans,
            cut=self.totals.cut,
            unknown_share=self.totals.unknown / self.totals.pieces if self.totals.pieces else 0.0,
            **told,
        )


def _sts(examples: Sequence[SimilarityExample], embed: _Embedder) -> VectorEvaluation:
    for example in examples:
        if not isinstance(example.label, float) or len(example.positives) != 1:
            raise DataError(f"{example.place}: sts needs two texts and their score (--column score=NAME)")
    labels = np.array([example.label for example in examples], dtype=np.float64)
    found = _cosines(examples, embed)
    scores = sts_scores(labels, found)
    spans = {
        name: resampled(partial(_correlation, name, labels, found), len(labels))
        for name in ("spearman", "pearson")
        if scores[name] is not None
    }
    return embed.result("sts", scores, spans, examples=len(examples))


def _pairs(examples: Sequence[SimilarityExample], embed: _Embedder, positive: str | None) -> VectorEvaluation:
    for example in examples:
        if not isinstance(example.label, str) or len(example.positives) != 1:
            raise DataError(f"{example.place}: pairs needs two texts and their class (--column label=NAME)")
    names = sorted({str(example.label) for example in examples})
    if positive is None:
        alike = [name for name in names if name.lower() in ALIKE]
        positive = alike[0] if len(alike) == 1 and len(names) == 2 else None
    if positive not in names or len(names) < 2:
        raise SettingsError(
            f"pairs needs two classes, and to know which says that texts are alike (--positive NAME); got "
            f"{positive!r} of {', '.join(names)}"
        )
    labels = np.array([example.label == positive for example in examples])
    found = _cosines(examples, embed)
    scores = pair_scores(labels, found)

    def precision(rows: npt.NDArray[np.int64]) -> float:
        own = labels[rows]
        return float("nan") if own.all() or not own.any() else pair_scores(own, found[rows])["average_precision"]

    spans = {"average_precision": resampled(precision, len(labels), 200)}
    return embed.result("pairs", {**scores, "positive": positive}, spans, examples=len(examples))


def _retrieval(given: RetrievalSet, embed: _Embedder) -> VectorEvaluation:
    names = list(given.documents)
    documents = embed(list(given.documents.values()), "passage")
    queries = embed(list(given.queries.values()), "query")
    queries, documents = embed.kept(queries, documents, of=[documents])
    dot = embed.bundle.embedding.similarity == "dot"
    rows = [
        ranking_scores([names[row] for row in order], given.judged[query])
        for query, (order, _) in zip(given.queries, nearest_rows(queries, documents, DEPTH, dot=dot), strict=True)
    ]
    spans = intervals(rows)
    scores = {name: span.mean for name, span in spans.items()}
    return embed.result("retrieval", scores, spans, examples=len(rows), documents=len(names), left_out=given.left_out)


def _reranking(examples: Sequence[SimilarityExample], embed: _Embedder) -> VectorEvaluation:
    for example in examples:
        require_both(example)
    queries = embed([example.text for example in examples], "query")
    # Negatives first: of equal scores the earlier one stands higher.
    candidates = [[*example.negatives, *example.positives] for example in examples]
    vectors = embed([text for own in candidates for text in own], "passage")
    queries, vectors = embed.kept(queries, vectors)
    dot, start, rows = embed.bundle.embedding.similarity == "dot", 0, []
    for example, query, own in zip(examples, queries, candidates, strict=True):
        passages = vectors[start : start + len(own)].astype(np.float64)
        ((order, _),) = nearest_rows(query[None].astype(np.float64), passages, len(own), dot=dot)
        rows.append(ranking_scores([own[row] for row in order], dict.fromkeys(example.positives, 1)))
        start += len(own)
    spans = intervals(rows)
    return embed.result("reranking", {name: span.mean for name, span in spans.items()}, spans, examples=len(rows))


def _cosines(examples: Sequence[SimilarityExample], embed: _Embedder) -> npt.NDArray[np.float64]:
    one = embed([example.text for example in examples])
    return cosines(*embed.kept(one, embed([example.positives[0] for example in examples])))


def _correlation(
    metric: str, labels: npt.NDArray[np.float64], found: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]
) -> float:
    return correlation(metric, labels[rows], found[rows])
