"""From the scores of windows to one answer: the best spans of a context, and whether none of them is one.

A span's score is start logit + end logit, and nothing is normalised within a window or a context: scores compare over
windows, and over the contexts one question is put to (BERT, section 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.tasks.task import Prediction

LIMIT = 1e9
"""Logits are held within +-LIMIT, and one that is no number counts as the lowest: an answer always comes."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a context that one row holds."""

    first: int
    """The place in the row of the context's first piece."""
    spans: npt.NDArray[np.int32]
    """(pieces, 2) characters [start, end) of the context, outer white space apart; an empty one bounds no answer."""
    bounds: tuple[int, int]
    """Characters [start, end) of the context that the row stands for."""


@dataclass(frozen=True, slots=True)
class Span:
    """One possible answer, context[start:end]."""

    text: str
    start: int
    end: int
    score: float
    """Start logit + end logit; compares over windows, contexts and questions."""
    probability: float
    """Among the candidates of this question, and no answer where that is possible; does not compare over contexts."""
    window: tuple[int, int]
    """Characters [start, end) of the context that the model saw when it gave this score."""


@dataclass(frozen=True, kw_only=True)
class AnswerPrediction(Prediction):
    """The answer to one question."""

    answer: str
    """context[start:end]; "" = no answer."""
    start: int | None
    """Characters of the context as it was given; None with no answer."""
    end: int | None
    score: float
    """Of the answer; with no answer it is null_score."""
    probability: float
    """Of the answer, see `Span`."""
    null_score: float
    """Start + end logit of [CLS], the lowest over the windows."""
    window: tuple[int, int] | None
    """The window that decided: characters [start, end) of the context; None = there was one row."""
    candidates: tuple[Span, ...]
    """The best spans, best first, whether or not one of them is the answer."""

    @property
    def null_odds(self) -> float:
        """By how much no answer outscores the best span: above the threshold the answer is "". inf without any span."""
        return self.null_score - self.candidates[0].score if self.candidates else math.inf

    @property
    def best_span(self) -> str:
        """The best answer that is not empty, "" where the context has none."""
        return self.candidates[0].text if self.candidates else ""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON; of the candidates the first three."""
        return {
            "answer": self.answer,
            "start": self.start,
            "end": self.end,
            "probability": self.probability,
            "score": self.score,
            "null_score": self.null_score,
            "coverage": self.coverage,
            **({} if self.window is None else {"window": list(self.window)}),
            "candidates": [
                {"text": span.text, "start": span.start, "end": span.end, "score": span.score}
                for span in self.candidates[:3]
            ],
        }


def choose_answer(
    context: str,
    windows: Sequence[Window],
    logits: Sequence[npt.NDArray[np.float32]],
    *,
    coverage: float,
    n_best: int,
    max_answer_length: int,
    null_threshold: float | None,
) -> AnswerPrediction:
    """Return the answer found in the windows of a context.

    logits             (tokens, 2) each: start and end logits of a row
    max_answer_length  in pieces
    null_threshold     "" when null_odds exceed it; None = there is always an answer, as long as the context has a piece

    A span that several windows hold has its highest score; of equal scores the first and shortest span wins.
    """
    null_score, null_window = _null(windows, logits)
    found: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {}
    for window, scores in zip(windows, logits, strict=True):
        for start, end, score in best_spans(window, scores, n_best, max_answer_length):
            if (start, end) not in found or score > found[start, end][0]:
                found[start, end] = (score, window.bounds)
    ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))[:n_best]
    null = [] if null_threshold is None else [null_score]
    probabilities = _softmax([score for _, (score, _) in ranked] + null)
    candidates = tuple(
        Span(context[start:end], start, end, score, probability, bounds)
        for ((start, end), (score, bounds)), probability in zip(ranked, probabilities, strict=False)
    )
    best = candidates[0] if candidates else None
    if best is not None and null_threshold is not None and null_score - best.score > null_threshold:
        best = None
    decided = best.window if best else null_window
    return AnswerPrediction(
        coverage=coverage,
        answer=best.text if best else "",
        start=best.start if best else None,
        end=best.end if best else None,
        score=best.score if best else null_score,
        probability=best.probability if best else probabilities[-1] if null else 0.0,
        null_score=null_score,
        window=decided if len(windows) > 1 else None,
        candidates=candidates,
    )


def best_spans(
    window: Window, logits: npt.NDArray[np.float32], count: int, longest: int
) -> list[tuple[int, int, float]]:
    """Return the `count` best of all spans of at most `longest` pieces as (start, end, score), in no order.

    Exact: every pair of start and end is looked at, not the best starts against the best ends.
    """
    usable = window.spans[:, 0] < window.spans[:, 1]
    pieces = len(usable)
    if not usable.any():
        return []
    scores = _held(logits[window.first : window.first + pieces])
    starts, ends = np.where(usable, scores.T, -np.inf)
    width = min(longest, pieces)
    ends = np.concatenate([ends, np.full(width - 1, -np.inf)])
    sums = (starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, width)).ravel()
    count = min(count, int(np.isfinite(sums).sum()))
    lowest = np.partition(sums, len(sums) - count)[len(sums) - count]
    above = np.flatnonzero(sums > lowest)
    chosen = np.concatenate([above, np.flatnonzero(sums == lowest)[: count - len(above)]])
    return [
        (int(window.spans[index // width, 0]), int(window.spans[index // width + index % width, 1]), float(sums[index]))
        for index in chosen.tolist()
    ]


def _null(windows: Sequence[Window], logits: Sequence[npt.NDArray[np.float32]]) -> tuple[float, tuple[int, int]]:
    """Return the lowest score of [CLS] and its window: a context has no answer when none of its windows has one."""
    firsts = [(rows[0], window.bounds) for rows, window in zip(logits, windows, strict=True)]
    known = [(float(_held(first).sum()), bounds) for first, bounds in firsts if np.isfinite(first).all()]
    return min(known, default=(0.0, windows[0].bounds), key=lambda item: item[0])


def _held(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    numbers = np.nan_to_num(logits.astype(np.float64), nan=-LIMIT)
    return np.clip(numbers, -LIMIT, LIMIT)


def _softmax(scores: Sequence[float]) -> list[float]:
    if not scores:
        return []
    powers = np.exp(np.asarray(scores) - max(scores))
    probabilities: list[float] = (powers / powers.sum()).tolist()
    return probabilities
