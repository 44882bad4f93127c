"""Score answers that are there already, whoever gave them, on the questions they answer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anaume.data.labelled.answers import read_answers
from anaume.errors import AnaumeWarning, DataError
from anaume.jobs.evaluate import Evaluation
from anaume.tasks.question_answering import QuestionAnswering, require_own_ids, score_official
from anaume.tasks.registry import read_examples


def evaluate_answers(answers: str | Path, paths: str | Path | Sequence[str | Path], **reading: Any) -> Evaluation:
    """Score a file of answers, as `predict_file(..., "answers.json")` and others write it, on labelled questions.

    reading  columns and format, as `read_questions` takes them

    Raises DataError for a file, a question that is not answered, or two that have one id; warns of answers to other
    questions.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    said = read_answers(answers)
    examples = read_examples(QuestionAnswering, given, labelled=True, **reading)
    if not examples:
        raise DataError(f"{', '.join(map(str, given))}: no examples to score on")
    require_own_ids(examples)
    try:
        scores = score_official(said, examples)
    except DataError as error:
        raise DataError(f"{answers}: {error}; are these answers to other questions?") from error
    others = len(said.keys() - {example.id for example in examples})
    if others:
        warnings.warn(
            f"{answers}: {others:,} of {len(said):,} answers are to questions that {', '.join(map(str, given))} "
            "does not have; they count for nothing",
            AnaumeWarning,
            stacklevel=2,
        )
    return Evaluation(
        task=QuestionAnswering.name,
        metric=QuestionAnswering.main,
        scores=scores,
        examples=len(examples),
        cut=None,
        unknown_share=None,
        comparison=None,
        other_scores=None,
    )
