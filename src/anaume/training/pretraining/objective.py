"""What a step predicts, and the loss: masked or next tokens, and sentence pairs where the rows have them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anaume.data.corpus.stream import PretrainBatch
from anaume.model import IGNORED, Bert, generate_random_mask, mlm_loss
from anaume.training.pretraining.settings import ObjectiveSettings

TOKEN_HEAD, PAIR_HEAD = "mlm", "nsp"


@dataclass(frozen=True)
class Targets:
    """A batch on its device, with what is to be predicted; tensors are (batch, seq_len) unless said otherwise."""

    token_ids: Tensor
    segment_ids: Tensor
    position_ids: Tensor
    sequence_ids: Tensor
    positions: Tensor | None
    """(batch, places) places that are predicted; None = every place."""
    labels: Tensor
    """(batch, places or seq_len), -100 = not counted."""
    pair_labels: Tensor | None
    """(batch,); None where the rows are no pairs."""

    def __len__(self) -> int:
        return len(self.token_ids)

    def rows(self, start: int, stop: int) -> Targets:
        """Return some of the rows."""
        return Targets(
            self.token_ids[start:stop],
            self.segment_ids[start:stop],
            self.position_ids[start:stop],
            self.sequence_ids[start:stop],
            None if self.positions is None else self.positions[start:stop],
            self.labels[start:stop],
            None if self.pair_labels is None else self.pair_labels[start:stop],
        )

    def counts(self) -> Tensor:
        """Return (3,) float32: how many tokens and how many pairs are predicted, and the real tokens of the rows."""
        tokens = (self.labels != IGNORED).sum()
        pairs = self.labels.new_zeros(()) if self.pair_labels is None else (self.pair_labels != IGNORED).sum()
        return torch.stack([tokens, pairs, (self.sequence_ids >= 0).sum()]).float()


def make_targets(
    batch: PretrainBatch,
    objective: ObjectiveSettings,
    *,
    mask_id: int,
    vocab_size: int,
    seed: int,
    step: int,
    rate: float,
    device: torch.device,
) -> Targets:
    """Move a batch to the device and draw there what is to be predicted.

    rate  the share of the pieces that is hidden at this step

    Masked tokens are a function of (seed, step, row, place): the same whichever rank or micro-batch holds the row.
    """
    token_ids, segment_ids, position_ids, sequence_ids, word_ids, pair_labels, rows = (
        torch.from_numpy(array).to(device, non_blocking=True)
        for array in (
            batch.token_ids,
            batch.segment_ids,
            batch.position_ids,
            batch.sequence_ids,
            batch.word_ids,
            batch.pair_labels,
            batch.rows,
        )
    )
    pairs = pair_labels if bool((batch.pair_labels != IGNORED).any()) else None
    if objective.target == "next":
        labels = torch.full_like(token_ids, IGNORED)
        follows = (sequence_ids[:, 1:] == sequence_ids[:, :-1]) & (sequence_ids[:, 1:] >= 0)
        labels[:, :-1] = torch.where(follows, token_ids[:, 1:], labels[:, :-1])
        return Targets(token_ids, segment_ids, position_ids, sequence_ids, None, labels, pairs)
    mask = generate_random_mask(
        token_ids,
        word_ids >= 0,
        mask_id=mask_id,
        vocab_size=vocab_size,
        rate=rate,
        seed=seed,
        step=step,
        rows=rows,
        word_ids=word_ids if objective.units == "words" else None,
        span_length=objective.span_length if objective.units == "spans" else None,
        mask_share=objective.mask_share,
        random_share=objective.random_share,
    )
    return Targets(mask.token_ids, segment_ids, position_ids, sequence_ids, mask.positions, mask.labels, pairs)


def mask_rate(fraction: float, objective: ObjectiveSettings) -> float:
    """Return the share of pieces to hide when `fraction` of the run has passed."""
    if objective.mask_rate_end is None:
        return objective.mask_rate
    return objective.mask_rate + min(1.0, fraction) * (objective.mask_rate_end - objective.mask_rate)


class PretrainLoss(nn.Module):
    """The model and its loss as one module, so that data-parallel training can wrap it."""

    def __init__(self, model: Bert) -> None:
        super().__init__()
        self.model = model

    def forward(self, targets: Targets, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of some rows, and sums to report.

        counts   (2,) or longer: tokens and pairs predicted in the whole batch, what the summed losses are divided by,
                 so that micro-batches and ranks add up to the loss of the batch
        returns  the scalar loss, and (4,) float32 of these rows: summed token loss, right tokens, summed pair loss,
                 right pairs
        """
        output = self.model(
            targets.token_ids,
            None,
            targets.segment_ids,
            targets.position_ids,
            sequence_ids=targets.sequence_ids,
        )
        states = output.last_hidden_state
        token_sum, right = self.model.token_loss(TOKEN_HEAD, states, targets.labels, targets.positions)
        loss = _divided(token_sum, counts[0])
        pair_sum = right_pairs = token_sum.new_zeros(())
        if targets.pair_labels is not None:
            pair_logits = self.model.head_logits(PAIR_HEAD, states, None)
            pair_sum = mlm_loss(pair_logits, targets.pair_labels, counts.new_ones(()))
            loss = loss + _divided(pair_sum, counts[1])
            right_pairs = (pair_logits.argmax(dim=-1) == targets.pair_labels).sum()
        sums = torch.stack([token_sum.detach().float(), right, pair_sum.detach().float(), right_pairs.float()])
        return loss, sums


def _divided(summed: Tensor, count: Tensor) -> Tensor:
    # Nothing counted: the sum is 0, and so are its gradients.
    return summed / torch.where(count > 0, count, torch.ones_like(count))
