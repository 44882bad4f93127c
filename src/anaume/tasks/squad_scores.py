"""Exact match and F1 of answers, by the official definition of SQuAD 1.1 and 2.0, and the best threshold for "".

"words": answers are compared in lower case, without ASCII punctuation, without the words a, an, the, with blanks
squeezed, and F1 is that of the words two answers share. "characters", for languages that write no blanks between words,
is what JSQuAD is scored by: lower case, without a last 。, with blanks squeezed, nothing else removed, and F1 is that
of the characters. A question takes its best over all right answers; where either side is empty, F1 is 1 if both are.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Rule = Literal["words", "characters"]
Scores = npt.NDArray[np.float64]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# Kana and the iteration marks, half-width kana, ideographs of the common planes.
_UNSPACED = re.compile("[\u3005-\u3007\u3041-\u30ff\uff66-\uff9f\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")


def rule_for(texts: Iterable[str]) -> Rule:
    """Return "characters" when at least half of all letters in the texts are kana or Chinese characters."""
    letters = unspaced = 0
    for text in texts:
        letters += sum(map(str.isalpha, text))
        unspaced += len(_UNSPACED.findall(text))
    return "characters" if unspaced and 2 * unspaced >= letters else "words"


def normalize_answer(text: str, rule: Rule = "words") -> str:
    """Return what is compared of an answer."""
    if rule == "characters":
        return " ".join(text.lower().rstrip("。").split())
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def question_scores(answer: str, right: Sequence[str], rule: Rule = "words") -> tuple[float, float]:
    """Return exact match and F1, 0 to 1; no right answer (or only such as normalise to nothing) wants an empty one."""
    given = _units(answer, rule)
    golds = [units for units in (_units(text, rule) for text in right) if units] or [[]]
    return float(given in golds), max(_f1(given, gold) for gold in golds)


def squad_scores(
    answers: Sequence[str],
    right: Sequence[Sequence[str]],
    rule: Rule = "words",
    *,
    spans: Sequence[str] | None = None,
    null_odds: Sequence[float] | None = None,
) -> dict[str, Any]:
    """Return the official scores by their official names, as fractions of 1; a mean of nothing is None.

    answers    one a question, "" = it has none
    right      the right answers of each question, () = it has none (SQuAD 2.0)
    spans      the best answer to each that is not empty, for best_*; None = `answers`, as the official script has it
    null_odds  how much better "" is than that, in the unit of the threshold; with it best_exact and best_f1 come

    HasAns_*, NoAns_* and best_* stand there where some question has no answer. "rule" says what F1 counted.
    """
    values = table_of(answers, right, rule)
    has = np.array([bool(texts) for texts in right], dtype=bool)
    scores = _means("", values) | {"rule": rule}
    if has.all():
        return scores
    scores |= _means("HasAns_", values[has]) | _means("NoAns_", values[~has])
    if null_odds is not None:
        answered = table_of(answers if spans is None else spans, right, rule)
        empty = table_of([""] * len(right), right, rule)
        for column, name in enumerate(("exact", "f1")):
            best, threshold = best_threshold(answered[:, column], empty[:, column], np.asarray(null_odds))
            scores |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return scores


def table_of(answers: Sequence[str], right: Sequence[Sequence[str]], rule: Rule) -> Scores:
    """Return (questions, 2): exact match and F1 of each."""
    rows = [question_scores(answer, texts, rule) for answer, texts in zip(answers, right, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def best_threshold(answered: Scores, empty: Scores, null_odds: Scores) -> tuple[float, float]:
    """Return the best mean score that a threshold on null_odds reaches, and that threshold.

    answered, empty  (questions,) the score of each when it is answered, and when "" is
    null_odds        (questions,) "" where they exceed the threshold; inf = "" whatever the threshold

    The threshold lies midway between two questions' odds, or 1 beyond the outermost; of equally good ones the lowest.
    """
    free = np.isfinite(null_odds)
    if not free.any():
        return float(empty.mean()), 0.0
    order = np.argsort(null_odds[free], kind="stable")
    odds, gains = null_odds[free][order], (answered - empty)[free][order]
    totals = empty.sum() + np.concatenate([[0.0], np.cumsum(gains)])
    # Answering the first k is possible where the k-th and the next one differ in their odds.
    possible = np.concatenate([[True], odds[1:] > odds[:-1], [True]])
    best = int(np.argmax(np.where(possible, totals.round(9), -np.inf)))
    below = odds[best - 1] if best else odds[0] - 2.0
    above = odds[best] if best < len(odds) else odds[-1] + 2.0
    return float(totals[best] / len(empty)), float((below + above) / 2)


def _units(text: str, rule: Rule) -> list[str]:
    compared = normalize_answer(text, rule)
    return compared.split() if rule == "words" else list(compared)


def _f1(given: list[str], gold: list[str]) -> float:
    if not given or not gold:
        return float(given == gold)
    shared = (Counter(given) & Counter(gold)).total()
    return 2 * shared / (len(given) + len(gold))


def _means(prefix: str, values: Scores) -> dict[str, Any]:
    exact, f1 = values.mean(axis=0).tolist() if len(values) else (None, None)
    return {f"{prefix}exact": exact, f"{prefix}f1": f1, f"{prefix}total": len(values)}
