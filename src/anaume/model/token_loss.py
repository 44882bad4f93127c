"""The loss of predicted tokens straight from the vectors before the output matrix, logits never kept in float32.

Logits over the vocabulary are the largest tensor of pretraining: with float32 copies of them, their softmax and their
gradient, a small encoder spends more time on them than on its layers. Here a few rows at a time go through the cache,
and what is left in the place of the logits is their gradient. (The idea is known from Liger's fused linear
cross-entropy and from Wijmans et al. 2024, arXiv:2411.09009; here in plain torch.)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.errors import SettingsError
from anaume.model.losses import mlm_loss
from anaume.model.masking import IGNORED

_CACHE = 1 << 21
"""Bytes of float32 logits in work at once on a processor: what a second-level cache holds."""
_ELSEWHERE = 1 << 28


def token_loss(states: Tensor, table: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the summed cross-entropy of `states @ table.T + bias` against `labels`, and how many were right.

    states   (n, width): what the output matrix is applied to
    table    (vocab_size, width), the output matrix; bias (vocab_size,)
    labels   (n,) int64, -100 = not counted
    returns  two float32 scalars (float64 for such states): the loss, summed over what counts, and how many of the
             highest logits are the label's (no gradient)

    The same as `mlm_loss` of the logits, times their count, with the rounding of autocast where that is on: products
    in its dtype, bias and softmax in float32, the gradient of the logits rounded to that dtype.

    Raises SettingsError (a ValueError) for shapes that don't go together, for other labels where they lie on a CPU, and
    in a backward pass with create_graph=True: the gradient has none of its own.
    """
    if states.dim() != 2 or labels.shape != states.shape[:1] or table.shape != (len(bias), states.shape[1]):
        raise SettingsError(
            f"expected states (n, width), table (vocab_size, width), bias (vocab_size,), labels (n,); got "
            f"{tuple(states.shape)}, {tuple(table.shape)}, {tuple(bias.shape)}, {tuple(labels.shape)}"
        )
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        wrong = (labels != IGNORED) & ((labels < 0) | (labels >= len(bias)))
        if wrong.any():
            place = int(wrong.nonzero()[0])
            raise SettingsError(
                f"label {int(labels[place])} at [{place}] is neither in 0 .. {len(bias) - 1} nor {IGNORED} (ignored)"
            )
    if torch.compiler.is_compiling():  # which does as well by itself
        logits = F.linear(states, table, bias)
        one = labels.new_ones(())
        return mlm_loss(logits, labels, one), (logits.detach().argmax(dim=1) == labels).sum().float()
    loss, right = _TokenLoss.apply(states, table, bias, labels)  # type: ignore[no-untyped-call]
    return loss, right


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, table: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        device_type = states.device.type
        dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else states.dtype
        with torch.autocast(device_type, enabled=False):
            states_, table_ = states.to(dtype), table.to(dtype)
            logits = states_ @ table_.T
            loss, right, of_bias = _softmax_in_place(logits, bias, labels)
        ctx.save_for_backward(states_, table_, logits, of_bias)
        ctx.dtypes = states.dtype, table.dtype, bias.dtype
        ctx.mark_non_differentiable(right)
        return loss, right

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        # torch's once_differentiable lets it pass, as a constant, where the incoming gradient is one.
        if torch.is_grad_enabled():
            raise SettingsError(
                "token_loss has no second derivative (create_graph=True asks for one); mlm_loss of the logits has"
            )
        states, table, logits, of_bias = ctx.saved_tensors  # of the logits, their gradient is left
        scale = gradients[0]
        states_dtype, table_dtype, bias_dtype = ctx.dtypes
        with torch.autocast(states.device.type, enabled=False):
            of_states = (logits @ table).to(states_dtype) * scale
            of_table = (logits.T @ (states * scale).to(states.dtype)).to(table_dtype)
        return of_states, of_table, of_bias.to(bias_dtype) * scale, None


def _softmax_in_place(logits: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Put the gradient of the summed loss in the place of the logits, which still lack their bias.

    Returns the loss, how many were right, and the gradient of the bias.
    """
    exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
    of_bias = torch.zeros(logits.shape[1], dtype=exact, device=logits.device)
    counted = labels != IGNORED
    wanted = labels.clamp(min=0)[:, None]
    losses, rights = [of_bias[:0]], [counted[:0]]  # there may be no row
    cache = _CACHE if logits.device.type == "cpu" else _ELSEWHERE
    rows = max(1, cache // (4 * logits.shape[1]))
    for start in range(0, len(logits), rows):
        some = slice(start, start + rows)
        values = logits[some].to(exact).add_(bias)  # the logits themselves, or a copy in the cache
        highest = values.amax(dim=1, keepdim=True)
        of_label = values.gather(1, wanted[some])
        rights.append(_right(values, of_label == highest, wanted[some]) & counted[some])
        values.sub_(highest).exp_()
        total = values.sum(dim=1, keepdim=True)
        losses.append((total.log() + highest - of_label)[:, 0] * counted[some])
        values.mul_(counted[some, None] / total)
        values.scatter_add_(1, wanted[some], -counted[some, None].to(values.dtype))
        of_bias += values.sum(dim=0)
        if logits.dtype != exact:
            logits[some] = values
    return torch.cat(losses).sum(), torch.cat(rights).sum().float(), of_bias


def _right(values: Tensor, highest: Tensor, wanted: Tensor) -> Tensor:
    """Return for each row whether its first guess is the wanted token; of equal logits the first one counts."""
    if values.device.type != "cpu":
        return values.argmax(dim=1) == wanted[:, 0]
    right = highest[:, 0].clone()  # a search is slow on a processor: only where the answer is open
    right[right.clone()] = values[right].argmax(dim=1) == wanted[right, 0]
    return right
