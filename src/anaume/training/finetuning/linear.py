"""Linear probes: the last layer of a head over a frozen encoder, solved by scikit-learn instead of trained in steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from anaume.config import HeadConfig
from anaume.data import token_budget_batches
from anaume.errors import SettingsError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.tasks.classification import Classification
from anaume.tasks.features import IGNORED, Features, Ragged
from anaume.tasks.ner import Ner
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.frozen import FrozenStates
from anaume.training.finetuning.scoring import TOKENS_AT_ONCE

log = get_logger(__name__)

STRENGTHS = (0.01, 0.1, 1.0)
"""What is tried where nothing else is said; the first is taken where nothing is held out."""

_MOST_STEPS = 1000
_NEVER = 20.0
"""How far below the least likely label one stands that no training example has: e^-20 as likely."""

Floats = NDArray[np.floating[Any]]


def is_linear(head: HeadConfig) -> bool:
    """Whether a head is one linear layer over what a frozen encoder gives: then its best weights can be solved for."""
    return head.head_layers == 1 and head.recurrent_layers == 0 and not head.layers.startswith("weighted")


@dataclass(frozen=True)
class Linear:
    """A linear layer."""

    weight: Floats
    """(outputs, width)"""
    bias: Floats
    """(outputs,)"""

    def put_into(self, head: nn.Module) -> None:
        """Make it the head's last layer."""
        dense = head.get_submodule("dense")
        assert isinstance(dense, nn.Linear)
        with torch.no_grad():
            dense.weight.copy_(torch.from_numpy(np.asarray(self.weight, np.float32)))
            dense.bias.copy_(torch.from_numpy(np.asarray(self.bias, np.float32)))


class LinearProbe:
    """What the last layer of a task's head reads, and what it is to say.

    Raises SettingsError for what a solved head has not: smoothed labels.
    """

    def __init__(self, task: AnyTask, model: Bert, features: Features, states: FrozenStates) -> None:
        self._weights = _class_weights(task)
        self._kind = task.kind
        self._outputs = max(1, len(task.head.labels))
        wanted = []
        given = []
        for rows, seen in _last_inputs(model, task.kind, states):
            for row, own in zip(rows, seen, strict=True):
                labels = _labels_of(features, row)
                if own.ndim == 2:  # one a token
                    own, labels = own[: len(labels)][labels != IGNORED], labels[labels != IGNORED]
                given.append(own.reshape(-1, own.shape[-1]))
                wanted.append(labels)
        self.given: Floats = np.concatenate(given)
        """(items, width): of each text, or each labelled word."""
        self.wanted = np.concatenate(wanted)
        """(items,) numbers of labels or values; (items, labels) 0 or 1 for several labels."""

    def solve(self, strength: float) -> Linear:
        """Return the best layer at a strength, scikit-learn's C: the larger, the freer. The same every time.

        What the layer reads is scaled to mean 0 and variance 1 first, so that a strength means the same everywhere; the
        scale is then written into the weights.
        """
        mean, spread = self.given.mean(axis=0, dtype=np.float64), self.given.std(axis=0, dtype=np.float64)
        spread[spread == 0.0] = 1.0
        scaled = ((self.given - mean) / spread).astype(np.float32)
        if self._kind == "regression":
            found = _ridge(scaled, self.wanted, strength)
        elif self._kind == "multi-label":
            each = [_logistic(scaled, column.astype(np.int64), 2, strength, None) for column in self.wanted.T]
            found = Linear(
                np.stack([one.weight[1] - one.weight[0] for one in each]),
                np.stack([one.bias[1] - one.bias[0] for one in each]),
            )
        else:
            found = _logistic(scaled, self.wanted, self._outputs, strength, self._weights)
        weight = found.weight / spread
        return Linear(weight, found.bias - weight @ mean)


def _last_inputs(model: Bert, head: str, states: FrozenStates) -> Iterator[tuple[list[int], Floats]]:
    """Yield rows, and what the last layer of a head reads of them: (rows, width) or (rows, seq_len, width)."""
    device = next(model.parameters()).device
    seen: list[torch.Tensor] = []
    hook = (
        model.heads[head].get_submodule("dense").register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    )
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            for batch in token_budget_batches(np.diff(states.starts), TOKENS_AT_ONCE):
                read, mask = states.padded(batch.tolist(), device)
                model.head_logits(head, read, mask)
                yield batch.tolist(), seen.pop().cpu().numpy()
    finally:
        hook.remove()
        model.train(was_training)


def _labels_of(features: Features, row: int) -> NDArray[Any]:
    """Return what is to be said of a row: (tokens,) with IGNORED, or (1, ...)."""
    (target,) = features.targets.values()
    return target[row] if isinstance(target, Ragged) else target[row : row + 1]


def _class_weights(task: AnyTask) -> Sequence[float] | None:
    """Return a weight a label; None = all alike."""
    if isinstance(task, Classification | Ner) and task.label_smoothing:
        raise SettingsError("task.label_smoothing means nothing to a linear probe: it is solved, not trained")
    if isinstance(task, Classification) and task.class_weights is not None:
        return [task.class_weights[label] for label in task.labels]
    return task.class_weights if isinstance(task, Ner) else None


def _logistic(
    given: Floats, wanted: NDArray[Any], classes: int, strength: float, weights: Sequence[float] | None
) -> Linear:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weight, bias = np.zeros((classes, given.shape[1])), np.zeros(classes)
    there = np.unique(wanted)
    if len(there) > 1:
        model = LogisticRegression(
            C=strength,
            max_iter=_MOST_STEPS,
            class_weight=None if weights is None else {label: weights[label] for label in there.tolist()},
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(given, wanted)
        if max(model.n_iter_) >= _MOST_STEPS:
            log.info("the linear probe of strength %g was still moving after %d steps", strength, _MOST_STEPS)
        if len(there) == 2:  # scikit-learn has one row then, for the second
            weight[there[1]], bias[there[1]] = model.coef_[0], model.intercept_[0]
        else:
            weight[there], bias[there] = model.coef_, model.intercept_
    absent = np.setdiff1d(np.arange(classes), there)
    bias[absent] = bias[there].min() - _NEVER
    return Linear(weight, bias)


def _ridge(given: Floats, wanted: NDArray[Any], strength: float) -> Linear:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1.0 / strength).fit(given, wanted)
    return Linear(model.coef_[None], np.array([model.intercept_]))
