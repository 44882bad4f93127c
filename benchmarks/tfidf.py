"""What counting characters reaches, without any encoder: TF-IDF of runs of one to three under a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

KINDS = ("classification", "pair-classification", "regression", "similarity", "multiple-choice")
"""Tasks that it can learn, similarity where pairs have a number; word tags and answers in a text are none of them."""
_FREE = 10.0
"""scikit-learn's C, one value for all."""


def score(kind: str, train: Sequence[Any], dev: Sequence[Any]) -> float | None:
    """Return the main score on dev: accuracy, of numbers Spearman's; None where the task is not one of `KINDS`."""
    if kind not in KINDS:
        return None
    counts = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2, sublinear_tf=True)
    counts.fit(text for example in train for text in example.texts)
    if kind == "multiple-choice":
        guesses = [int(np.argmax(_cosines(counts, example))) for example in dev]
        return float(np.mean([guess == example.label for guess, example in zip(guesses, dev, strict=True)]))
    pairs = kind != "classification"
    rows, others = (_rows(counts, examples, pairs) for examples in (train, dev))
    labels, right = ([example.label for example in examples] for examples in (train, dev))
    if kind in ("regression", "similarity"):
        return float(spearmanr(Ridge().fit(rows, labels).predict(others), right).statistic)
    model = LogisticRegression(C=_FREE, max_iter=2_000).fit(rows, labels)
    return float(np.mean(model.predict(others) == np.array(right)))


def _rows(counts: TfidfVectorizer, examples: Sequence[Any], pairs: bool) -> csr_matrix:
    """Return a row an example: its counts; of a pair, what both have, what one alone has, and their cosine."""
    first = counts.transform([example.texts[0] for example in examples])
    if not pairs:
        return first
    second = counts.transform([example.texts[1] for example in examples])
    common = first.multiply(second)
    return hstack([common, abs(first - second), csr_matrix(common.sum(axis=1))]).tocsr()


def _cosines(counts: TfidfVectorizer, example: Any) -> NDArray[np.float64]:
    question, options = counts.transform([example.question]), counts.transform(example.options)
    return np.asarray((options @ question.T).todense()).ravel()
