"""What late interaction is worth: retrieval over all documents, and reranking, by MaxSim."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from anaume.bundle import Bundle
from anaume.bundle.predicting import Seen
from anaume.data.judged import RetrievalSet
from anaume.data.labelled import SimilarityExample
from anaume.errors import AnaumeWarning, SettingsError
from anaume.jobs.vector_evaluation import VECTOR_TASKS, VectorEvaluation, require_both
from anaume.tasks.max_sim import max_sim_scores
from anaume.tasks.retrieval import DEPTH, intervals, ranking_scores

_CHUNK = 256


def refuse_for_late(task: str, dimensions: int | None, whiten: bool) -> None:
    """Raise SettingsError for what a vector a token does not have."""
    if task not in ("retrieval", "reranking"):
        raise SettingsError(f"late interaction orders passages: it is judged by retrieval and reranking, not by {task}")
    if dimensions is not None or whiten:
        raise SettingsError("dimensions and whiten are of one vector a text; late interaction has one a token")


def late_retrieval(given: RetrievalSet, bundle: Bundle, advance: Callable[[int], None]) -> VectorEvaluation:
    """Score every document for every query; the token vectors of a chunk of documents are held at once."""
    seen, names, texts = Seen(), list(given.documents), list(given.documents.values())
    asked = []
    for start in range(0, len(given.queries), _CHUNK):
        asked += _tokens(bundle, list(given.queries.values())[start : start + _CHUNK], "query", seen, advance)
    scores = np.zeros((len(asked), len(texts)), dtype=np.float32)
    for start in range(0, len(texts), _CHUNK):
        found = _tokens(bundle, texts[start : start + _CHUNK], "passage", seen, advance)
        for row, query in enumerate(asked):
            scores[row, start : start + len(found)] = max_sim_scores(query, found)
    # The place in the file decides between equal scores.
    best = [np.argsort(-own, kind="stable")[:DEPTH] for own in scores]
    rows = [
        ranking_scores([names[row] for row in order], given.judged[query])
        for query, order in zip(given.queries, best, strict=True)
    ]
    return _told("retrieval", rows, seen, bundle, documents=len(names), left_out=given.left_out)


def late_reranking(
    examples: Sequence[SimilarityExample], bundle: Bundle, advance: Callable[[int], None]
) -> VectorEvaluation:
    """Order each query's positives and negatives; of equal scores the negative is first."""
    for example in examples:
        require_both(example)
    seen, rows = Seen(), []
    for start in range(0, len(examples), _CHUNK):
        chunk = examples[start : start + _CHUNK]
        predicted = bundle.predict_report(chunk, warn=False)
        seen.add(predicted)
        for example, own in zip(chunk, predicted.predictions, strict=True):
            near = len(example.positives)
            order = sorted(range(len(own.scores)), key=lambda place: (-own.scores[place], place < near))
            rows.append(ranking_scores(order, dict.fromkeys(range(near), 1)))
            advance(1 + len(own.scores))
    return _told("reranking", rows, seen, bundle)


def _tokens(
    bundle: Bundle, texts: Sequence[str], as_: str, seen: Seen, advance: Callable[[int], None]
) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    report = bundle.token_report(texts, as_=as_)
    seen.add(report)
    advance(len(texts))
    return [own.vectors for own in report.predictions]


def _told(task: str, rows: Sequence[dict[str, float]], seen: Seen, bundle: Bundle, **other: int) -> VectorEvaluation:
    if messages := seen.messages(bundle.task_length):
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=4)
    spans = intervals(rows)
    return VectorEvaluation(
        task=task,
        metric=VECTOR_TASKS[task],
        scores={name: span.mean for name, span in spans.items()},
        intervals=spans,
        examples=len(rows),
        cut=seen.cut,
        unknown_share=seen.unknown_share,
        **other,
    )
