"""Losses: functions of logits and labels, each with its shapes. Computed in float32 whatever the logits' dtype.

Labels of classes are int64; -100 marks a place that does not count. Other labels outside 0 .. classes - 1 raise
SettingsError where the labels lie on the CPU (elsewhere that look would wait for the device).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.errors import SettingsError
from anaume.model.masking import IGNORED


def mlm_loss(logits: Tensor, labels: Tensor, count: Tensor | None = None) -> Tensor:
    """Mean cross-entropy over the masked places only (BERT, section 3.1, task 1).

    logits   (..., vocab_size)
    labels   (...) int64: the hidden token, -100 where nothing was masked
    count    what the summed loss is divided by; None = the number of masked places here (a run that spreads a batch
             over micro-batches or ranks gives their global number)
    returns  a scalar; 0, with zero gradients, when nothing is masked
    """
    return _cross_entropy(logits, labels, count=count)


def nsp_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the next-sentence head (task 2).

    logits  (batch, 2)
    labels  (batch,) int64: 0 = B follows A, 1 = B is random
    """
    return _cross_entropy(logits, labels)


def classification_loss(
    logits: Tensor,
    labels: Tensor,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
    *,
    count: Tensor | None = None,
) -> Tensor:
    """Cross-entropy over classes, for texts (batch, classes) or tokens (batch, seq_len, classes).

    labels         (batch,) or (batch, seq_len) int64, -100 = not counted
    class_weights  (classes,) float; the mean is weighted by them
    count          what the summed loss is divided by, as for `mlm_loss`; None = the counted labels' weights here
    """
    return _cross_entropy(logits, labels, count=count, class_weights=class_weights, label_smoothing=label_smoothing)


def multi_label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy of each label by itself.

    logits  (batch, labels)
    labels  (batch, labels): 0 or 1, of any dtype
    """
    _same_shape("multi_label_loss", logits, labels)
    return F.binary_cross_entropy_with_logits(logits.float(), labels.float())


def regression_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error; both (batch,) or both (batch, 1): shapes that would broadcast are refused."""
    _same_shape("regression_loss", predictions, targets)
    return F.mse_loss(predictions.float(), targets.float())


def span_loss(
    logits: Tensor, starts: Tensor, ends: Tensor, attention_mask: Tensor | None, count: Tensor | None = None
) -> Tensor:
    """Mean of the cross-entropies of start and end place (BERT, section 4.2).

    logits          (batch, seq_len, 2)
    starts, ends    (batch,) int64 places, -100 = not counted
    attention_mask  (batch, seq_len) bool; padding can't be chosen; None says that nothing is padding
    count           what the summed losses are divided by, as for `mlm_loss`; None = the number of places here
    """
    scores = logits.float()
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask[..., None], torch.finfo(torch.float32).min)
    start_logits, end_logits = scores.unbind(dim=-1)
    return (_cross_entropy(start_logits, starts, count=count) + _cross_entropy(end_logits, ends, count=count)) / 2


def _cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    count: Tensor | None = None,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    if logits.shape[:-1] != labels.shape:
        raise SettingsError(
            f"labels must have the shape of logits without its last dimension, {tuple(logits.shape[:-1])}; "
            f"got {tuple(labels.shape)}"
        )
    classes = logits.shape[-1]
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = (labels != IGNORED) & ((labels < 0) | (labels >= classes))
        if wrong.any():
            place = wrong.nonzero()[0].tolist()
            raise SettingsError(
                f"label {int(labels[tuple(place)])} at {place} is neither in 0 .. {classes - 1} nor {IGNORED} (ignored)"
            )
    flat_labels = labels.reshape(-1)
    total = F.cross_entropy(
        logits.reshape(-1, classes).float(),
        flat_labels,
        weight=class_weights,
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    if count is None:
        counted = flat_labels != IGNORED
        if class_weights is None:
            count = counted.sum()
        else:
            count = (class_weights[flat_labels.clamp(min=0)] * counted).sum()
    # Nothing counted: total is 0, so any positive divisor gives 0 and zero gradients. Weights may sum below 1.
    return total / torch.where(count > 0, count, torch.ones_like(count))


def _same_shape(name: str, given: Tensor, wanted: Tensor) -> None:
    if given.shape != wanted.shape:
        raise SettingsError(
            f"{name} needs equal shapes, or they would broadcast; got {tuple(given.shape)} and {tuple(wanted.shape)}"
        )
