"""What a cross-encoder teaches an encoder of vectors: how much better it finds the positive than each negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anaume.bundle import Bundle
from anaume.bundle.ranking import check_ranker, score_of
from anaume.data.labelled import Example, SimilarityExample
from anaume.errors import DataError

_AT_ONCE = 256  # examples whose pairs are scored together


def taught(examples: Sequence[Example], teacher: Bundle) -> list[Example]:
    """Return the examples with the teacher's margins as labels, for the objective margin-mse (Hofstätter et al. 2020).

    Raises SettingsError for a teacher without a score of pairs, DataError for an example without a negative or with
    several positives.
    """
    check_ranker(teacher)
    given = [example for example in examples if isinstance(example, SimilarityExample)]
    for example in given:
        if len(example.positives) != 1 or not example.negatives:
            raise DataError(f"{example.place}: a teacher compares one positive with negatives (anaume mine finds them)")
    made: list[Example] = []
    for start in range(0, len(given), _AT_ONCE):
        chunk = given[start : start + _AT_ONCE]
        pairs = [(one.text, passage) for one in chunk for passage in (*one.positives, *one.negatives)]
        scores = iter([score_of(one) for one in teacher.predict_report(pairs, warn=False).predictions])
        for example in chunk:
            best = next(scores)
            made.append(replace(example, label=tuple(round(best - next(scores), 4) for _ in example.negatives)))
    return made
