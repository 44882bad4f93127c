"""The class of a pair, which a classifier reads off its two vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.model.losses import classification_loss
from anaume.tasks.features import Target
from anaume.tasks.similarity.objective import Objective, need_positive
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared


class Softmax(Objective):
    """The class of a pair, out of (u, v, |u - v|) (Sentence-BERT, section 3: what NLI is learned by)."""

    name, metric, classes = "softmax", "accuracy", True

    def check(self, example: SimilarityExample) -> None:
        """Take pairs with a class."""
        need_positive(self.name, example)
        if not isinstance(example.label, str):
            raise DataError(
                f"{example.place}: {self.name} needs the class of each pair (--column label=NAME); got "
                f"{example.label!r:.40}"
            )

    def targets(self, examples: Sequence[SimilarityExample], terms: Terms, labels: Sequence[str]) -> dict[str, Target]:
        """Return the classes' numbers. Raises DataError for one that training had not."""
        for example in examples:
            if isinstance(example.label, str) and example.label not in labels:
                raise DataError(
                    f"{example.place}: the label {example.label!r} is none of the training rows': {', '.join(labels)}"
                )
        numbers = [labels.index(one.label) if isinstance(one.label, str) else -100 for one in examples]
        return {"classes": np.array(numbers, dtype=np.int64)}

    def loss(self, given: Compared) -> Tensor:
        """Return the mean cross-entropy."""
        if (given.batch.targets["classes"] < 0).any():
            return given.other_kind
        return classification_loss(given.classes[::2], given.batch.targets["classes"], count=given.count)
