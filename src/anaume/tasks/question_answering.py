"""Question answering: where in a context the answer stands, if it does (BERT, sections 4.2, 4.3; SQuAD, JSQuAD)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor

from anaume.config import HeadConfig, HeadKind, require_positive
from anaume.data.labelled import QuestionExample
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.model import span_loss
from anaume.tasks.answers import LIMIT, AnswerPrediction, choose_answer
from anaume.tasks.features import IGNORED, Features, TaskBatch
from anaume.tasks.question_rows import question_rows
from anaume.tasks.squad_scores import Rule, best_threshold, rule_for, squad_scores, table_of
from anaume.tasks.task import Logits, Task
from anaume.tokenization import Tokenizer

_RULES = ("auto", *get_args(Rule))


class QuestionAnswering(Task[QuestionExample, AnswerPrediction]):
    """A span of the context, or "" where it holds no answer.

    missing            whether a context may hold no answer (SQuAD 2.0); None = as the training examples say, and False
                       where nobody knows
    null_threshold     no answer where [CLS] outscores the best span by more; None = `calibrate` sets it, 0 until then
    rule               how answers are compared, see `squad_scores`: "characters" for languages that write no blanks
                       between words; "auto" = that where at least half of the answers' letters are kana or Chinese
                       characters
    stride             pieces that neighbouring windows of a long context share, at most half of a window's room for it
    n_best             candidates kept for each question
    max_answer_length  in pieces
    """

    name: ClassVar[str] = "question-answering"
    kind: ClassVar[HeadKind] = "span"
    main: ClassVar[str] = "f1"

    def __init__(
        self,
        *,
        missing: bool | None = None,
        null_threshold: float | None = None,
        rule: Literal["auto", "words", "characters"] = "auto",
        stride: int = 128,
        n_best: int = 20,
        max_answer_length: int = 30,
    ) -> None:
        if missing is not None and not isinstance(missing, bool):
            raise SettingsError(f"task.missing must be true or false; got {missing!r}")
        if rule not in _RULES:
            raise SettingsError(f"task.rule must be one of {', '.join(_RULES)}; got {rule!r}")
        if null_threshold is not None and not _is_finite(null_threshold):
            raise SettingsError(f"task.null_threshold must be a finite number; got {null_threshold!r}")
        if type(stride) is not int or stride < 0:
            raise SettingsError(f"task.stride, the pieces windows share, must be a whole number from 0; got {stride!r}")
        require_positive(n_best=n_best, max_answer_length=max_answer_length)
        self.missing = missing
        self.null_threshold = null_threshold
        self.rule = rule
        self.stride = stride
        self.n_best = n_best
        self.max_answer_length = max_answer_length

    @classmethod
    def fit(
        cls,
        examples: Sequence[QuestionExample],
        *,
        missing: bool | None = None,
        rule: Literal["auto", "words", "characters"] = "auto",
        **options: Any,
    ) -> Self:
        """Settle whether answers may be missing, and by which rule they are compared."""
        answers = _right(examples)
        if not any(answers):
            begin = f", from {examples[0].place or repr(examples[0].id)} on," if examples else ""
            raise DataError(f"none of the questions{begin} has an answer: there is nothing to learn")
        missing = not all(answers) if missing is None else missing
        task = cls(missing=missing, rule=rule, **options)
        return task if rule != "auto" else cls(**{**task.settings(), "rule": _rule(rule, answers)})

    @property
    def head(self) -> HeadConfig:
        """Two scores a token."""
        return HeadConfig(kind="span")

    def settings(self) -> dict[str, Any]:
        """Return what is kept beside the head."""
        return {
            "missing": self.missing,
            "null_threshold": self.null_threshold,
            "rule": self.rule,
            "stride": self.stride,
            "n_best": self.n_best,
            "max_answer_length": self.max_answer_length,
        }

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task; of a foreign checkpoint nobody knows whether answers may be missing: always an answer."""
        return cls(**settings)

    def features(
        self, examples: Sequence[QuestionExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return the windows, see `question_rows`."""
        return question_rows(
            examples, tokenizer, max_length, stride=self.stride, longest=self.max_answer_length, learn=learn
        )

    def example(self, given: object, place: str) -> QuestionExample:
        """Return a question and its context, given as a pair or by these names (`id` may stand beside them)."""
        if isinstance(given, Mapping) and {"question", "context"} <= given.keys() <= {"id", "question", "context"}:
            texts: tuple[object, ...] = (given["question"], given["context"], given.get("id", ""))
        elif isinstance(given, tuple | list) and len(given) == 2:
            texts = (*given, "")
        else:
            texts = ()
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(
                f"{place}: {self.name} reads (question, context) or {{'question': ..., 'context': ...}}; "
                f"got {type(given).__name__} {given!r:.60}"
            )
        question, context, id = map(str, texts)
        return QuestionExample(id=id, question=question, context=context, place=place)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of windows that are learned."""
        return (batch.targets["start"] != IGNORED).sum().float()

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the mean of the cross-entropies of start and end, summed over windows, over `count`."""
        return span_loss(logits, batch.targets["start"], batch.targets["end"], batch.attention_mask, count)

    def decode(self, logits: Logits, features: Features, examples: Sequence[QuestionExample]) -> list[AnswerPrediction]:
        """Return the answers, see `choose_answer`."""
        bounds = np.searchsorted(features.examples, np.arange(len(examples) + 1)).tolist()
        return [
            choose_answer(
                example.context,
                features.details[bounds[number] : bounds[number + 1]],
                logits[bounds[number] : bounds[number + 1]],
                coverage=float(features.coverage[number]),
                n_best=self.n_best,
                max_answer_length=self.max_answer_length,
                null_threshold=(self.null_threshold or 0.0) if self.missing else None,
            )
            for number, example in enumerate(examples)
        ]

    def score(self, predictions: Sequence[AnswerPrediction], examples: Sequence[QuestionExample]) -> dict[str, Any]:
        """Return exact, f1, total; where answers are missing also HasAns_*, NoAns_* and best_* (`squad_scores`)."""
        right = _right(examples)
        return squad_scores(
            [prediction.answer for prediction in predictions],
            right,
            _rule(self.rule, right),
            spans=[prediction.best_span for prediction in predictions],
            null_odds=[prediction.null_odds for prediction in predictions],
        )

    def example_scores(
        self, predictions: Sequence[AnswerPrediction], examples: Sequence[QuestionExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 1), the F1 of each."""
        right = _right(examples)
        return table_of([prediction.answer for prediction in predictions], right, _rule(self.rule, right))[:, 1:]

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return their mean."""
        return float(rows.mean())

    def calibrate(self, logits: Logits, features: Features, examples: Sequence[QuestionExample]) -> Self:
        """Return the task with the null threshold of the best F1; itself where that is given, or no answer is missing.

        AnaumeWarning says when the examples can't tell: a threshold needs questions with an answer and without.
        """
        if not self.missing or self.null_threshold is not None:
            return self
        right = _right(examples)
        if all(right) or not any(right):
            warnings.warn(
                f"the null threshold stays at 0: the {len(right)} held-out questions "
                f"{'all have' if all(right) else 'have no'} answers, and it takes both kinds to set it",
                AnaumeWarning,
                stacklevel=2,
            )
            return self
        rule = _rule(self.rule, right)
        predictions = self.decode(logits, features, examples)
        answered = table_of([prediction.best_span for prediction in predictions], right, rule)
        empty = table_of([""] * len(right), right, rule)
        odds = np.array([prediction.null_odds for prediction in predictions])
        _, threshold = best_threshold(answered[:, 1], empty[:, 1], odds)
        return type(self)(**{**self.settings(), "null_threshold": threshold})


def official_answers(
    predictions: Sequence[AnswerPrediction], examples: Sequence[QuestionExample]
) -> tuple[dict[str, str], dict[str, float]]:
    """Return what the official evaluation reads: id -> answer ("" = none), and id -> null odds.

    Raises DataError where two questions have one id.
    """
    require_own_ids(examples)
    answers: dict[str, str] = {}
    odds: dict[str, float] = {}
    for prediction, example in zip(predictions, examples, strict=True):
        answers[example.id] = prediction.answer
        odds[example.id] = min(prediction.null_odds, LIMIT)
    return answers, odds


def score_official(
    answers: Mapping[str, str],
    examples: Sequence[QuestionExample],
    rule: Literal["auto", "words", "characters"] = "auto",
) -> dict[str, Any]:
    """Return the scores of id -> answer, wherever it comes from.

    Raises DataError where a question's id is absent, or is another question's too.
    """
    absent = [example for example in examples if example.id not in answers]
    if absent:
        raise DataError(
            f"{len(absent)} of {len(examples)} questions have no prediction; the first is {absent[0].id!r} "
            f"({absent[0].place or absent[0].question[:60]})"
        )
    require_own_ids(examples)
    right = _right(examples)
    return squad_scores([answers[example.id] for example in examples], right, _rule(rule, right))


def require_own_ids(examples: Sequence[QuestionExample]) -> None:
    """Raise DataError where two questions have one id."""
    known: set[str] = set()
    for example in examples:
        if example.id in known:
            raise DataError(
                f"{example.place or 'a question'}: the id {example.id!r} is another question's too, and one answer "
                "can't be both's; give each its own"
            )
        known.add(example.id)


def _is_finite(number: object) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


def _right(examples: Sequence[QuestionExample]) -> list[tuple[str, ...]]:
    """Return the texts of the right answers. Raises DataError for a question whose answers are not given."""
    right = []
    for example in examples:
        if example.answers is None:
            raise DataError(f"{example.place or repr(example.id)}: the answers are not given; () says there is none")
        right.append(tuple(answer.text for answer in example.answers))
    return right


def _rule(rule: Literal["auto", "words", "characters"], right: Sequence[Sequence[str]]) -> Rule:
    return rule_for(text for texts in right for text in texts) if rule == "auto" else rule
