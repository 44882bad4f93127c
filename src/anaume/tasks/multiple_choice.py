"""Multiple choice: which of two or more options goes with a question (BERT, section 4.4; SWAG, ARC, JCommonsenseQA).

A row an option, [CLS] question [SEP] option [SEP]; the options of a question are softmaxed against each other.
Questions may have unequal numbers of options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.config import HeadConfig, HeadKind
from anaume.data.labelled import ChoiceExample
from anaume.errors import DataError
from anaume.tasks.features import Features, Ragged, TaskBatch
from anaume.tasks.task import Logits, Prediction, Task
from anaume.tokenization import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction(Prediction):
    """The option chosen."""

    choice: int
    """Its number, from 0."""
    text: str
    """The option itself."""
    probabilities: tuple[float, ...]
    """Of each option, adding up to 1."""

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {
            "choice": self.choice,
            "text": self.text,
            "probabilities": list(self.probabilities),
            "coverage": self.coverage,
        }


class MultipleChoice(Task[ChoiceExample, ChoicePrediction]):
    """One option out of several."""

    name: ClassVar[str] = "multiple-choice"
    kind: ClassVar[HeadKind] = "multiple-choice"
    main: ClassVar[str] = "accuracy"

    def __init__(self, *, dropout: float = 0.1) -> None:
        self._head = HeadConfig(kind="multiple-choice", dropout=dropout)

    @classmethod
    def fit(cls, examples: Sequence[ChoiceExample], **options: Any) -> Self:
        """Check that every example can be learned from."""
        if not examples:
            raise DataError("there are no questions to learn from")
        _check_options(examples)
        _labels(examples)
        return cls(**options)

    @property
    def head(self) -> HeadConfig:
        """One score a row."""
        return self._head

    def settings(self) -> dict[str, Any]:
        """Return nothing: the head says it all."""
        return {}

    @classmethod
    def restore(cls, head: HeadConfig, settings: Mapping[str, Any]) -> Self:
        """Return the task of a head."""
        return cls(dropout=head.dropout)

    def features(
        self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, max_length: int, *, learn: bool
    ) -> Features:
        """Return a row an option, a unit a question; of what is too long the longer side is cut, the coverage tells.

        Target "label": (units,) int64. Raises DataError for fewer than two options, and for a label that is none.
        """
        _check_options(examples)
        targets = {"label": _labels(examples)} if learn else {}
        questions = [example.question for example in examples for _ in example.options]
        options = [option for example in examples for option in example.options]
        encodings = tokenizer.encode_batch(questions, options, max_length=max_length, truncation="longest-first")
        unit_starts = np.cumsum([0, *(len(example.options) for example in examples)], dtype=np.int64)
        sides = [encoding.coverage for encoding in encodings]
        kept, total = (
            np.array([sum(getattr(side, name) for side in both) for both in sides], dtype=np.float64)
            for name in ("kept", "total")
        )
        kept, total = (
            np.add.reduceat(counts, unit_starts[:-1]) if len(examples) else counts for counts in (kept, total)
        )
        return Features(
            token_ids=Ragged.of(encoding.token_ids for encoding in encodings),
            segment_ids=Ragged.of((encoding.segment_ids for encoding in encodings), np.uint8),
            unit_starts=unit_starts,
            examples=np.arange(len(examples), dtype=np.int64),
            coverage=np.where(total > 0, kept / np.maximum(total, 1), 1.0),
            targets=targets,
            pieces=sum(encoding.pieces for encoding in encodings),
            unknown=sum(encoding.unknown for encoding in encodings),
        )

    def example(self, given: object, place: str) -> ChoiceExample:
        """Return a question and its options, given as a pair or by these names."""
        if isinstance(given, Mapping) and given.keys() == {"question", "options"}:
            question, options = given["question"], given["options"]
        elif isinstance(given, tuple | list) and len(given) == 2:
            question, options = given
        else:
            question, options = None, ()
        fits = isinstance(question, str) and isinstance(options, tuple | list)
        if not fits or not all(isinstance(option, str) for option in options):
            raise DataError(
                f"{place}: {self.name} reads (question, [option, ...]) or {{'question': ..., 'options': [...]}}; "
                f"got {type(given).__name__} {given!r:.60}"
            )
        return ChoiceExample(question=str(question), options=tuple(options), place=place)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of questions."""
        labels = batch.targets["label"]
        return torch.tensor(float(len(labels)), device=labels.device)

    def loss(self, logits: Tensor, batch: TaskBatch, count: Tensor) -> Tensor:
        """Return the cross-entropies over the options of each question, summed, over `count`; logits (rows,)."""
        labels, units = batch.targets["label"], batch.unit_of_row
        firsts = torch.searchsorted(units, torch.arange(len(labels), device=units.device))
        # As wide as one question could be, from the shapes alone: to ask for the widest would wait for the device.
        width = len(units) - len(labels) + 1
        lowest = torch.finfo(torch.float32).min
        scores = torch.full((len(labels), width), lowest, device=logits.device)
        places = torch.arange(len(units), device=units.device) - firsts[units]
        scores = scores.index_put((units, places), logits.float())
        return F.cross_entropy(scores, labels, reduction="sum") / count

    def decode(self, logits: Logits, features: Features, examples: Sequence[ChoiceExample]) -> list[ChoicePrediction]:
        """Return the options with the highest scores; of equal ones the first."""
        # Held within bounds, and what is no number counts as the lowest: an option is always chosen.
        scores = np.clip(np.nan_to_num(np.array(logits, dtype=np.float64).reshape(-1), nan=-1e9), -1e9, 1e9)
        predictions = []
        for number, example in enumerate(examples):
            own = scores[features.unit_starts[number] : features.unit_starts[number + 1]]
            powers = np.exp(own - own.max())
            probabilities = powers / powers.sum()
            choice = int(np.argmax(own))
            predictions.append(
                ChoicePrediction(
                    coverage=float(features.coverage[number]),
                    choice=choice,
                    text=example.options[choice],
                    probabilities=tuple(probabilities.tolist()),
                )
            )
        return predictions

    def score(self, predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]) -> dict[str, Any]:
        """Return accuracy, and chance: what drawing an option would reach."""
        rows = self.example_scores(predictions, examples)
        chances = [1 / len(example.options) for example in examples]
        return {
            "accuracy": self.score_of(rows) if len(rows) else None,
            "chance": sum(chances) / len(chances) if chances else None,
            "total": len(rows),
        }

    def example_scores(
        self, predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]
    ) -> npt.NDArray[np.float64]:
        """Return (examples, 1): 1 where the choice is right."""
        choices = np.array([prediction.choice for prediction in predictions], dtype=np.int64)
        right: npt.NDArray[np.bool_] = choices == _labels(examples)
        return right.astype(np.float64)[:, None]

    def score_of(self, rows: npt.NDArray[np.float64]) -> float:
        """Return their mean."""
        return float(rows.mean())


def _check_options(examples: Sequence[ChoiceExample]) -> None:
    for example in examples:
        if len(example.options) < 2:
            raise DataError(f"{example.place or 'a question'}: {len(example.options)} options; it takes two or more")


def _labels(examples: Sequence[ChoiceExample]) -> npt.NDArray[np.int64]:
    """Return the numbers of the right options. Raises DataError for one that is not given, or is none."""
    labels = []
    for example in examples:
        label, options = example.label, len(example.options)
        if label is None or not 0 <= label < options:
            raise DataError(
                f"{example.place or 'a question'}: the right option must be a number from 0 to {options - 1}; "
                f"got {label!r}"
            )
        labels.append(label)
    return np.array(labels, dtype=np.int64)
