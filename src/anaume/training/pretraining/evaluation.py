"""The held-out loss: always the same rows under the same masks, whatever the step or the batch size."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anaume.data.corpus.stream import RowStream
from anaume.model import Bert
from anaume.training.pretraining.objective import PretrainLoss, make_targets
from anaume.training.pretraining.settings import PretrainSettings

ROWS_AT_ONCE = 32
_SEED = 20181011  # of the masks; a training run's seed must not change what is asked


@dataclass(frozen=True)
class HeldOut:
    """Scores on held-out rows."""

    loss: float
    """Mean cross-entropy a predicted token, in nats."""
    accuracy: float
    """Share of tokens whose first guess is right."""
    pair_accuracy: float | None
    """The same for sentence pairs; None without them."""
    tokens: int
    """How many were predicted."""


class Evaluator:
    """Holds the rows once drawn, and scores a model on them."""

    def __init__(
        self, stream: RowStream, settings: PretrainSettings, *, mask_id: int, vocab_size: int, device: torch.device
    ) -> None:
        self._device = device
        self._targets = make_targets(
            stream.next_batch(settings.run.evaluation_rows),
            settings.objective,
            mask_id=mask_id,
            vocab_size=vocab_size,
            seed=_SEED,
            step=0,
            rate=settings.objective.mask_rate,
            device=device,
        )

    def score(self, model: Bert, dtype: torch.dtype) -> HeldOut:
        """Score `model` in eval mode; its mode and every random generator are left as they were."""
        was_training = model.training
        model.eval()
        loss = PretrainLoss(model)
        sums = torch.zeros(4, dtype=torch.float64)
        counts = torch.zeros(3, dtype=torch.float64)
        with torch.no_grad(), torch.autocast(self._device.type, dtype, enabled=dtype != torch.float32):
            for start in range(0, len(self._targets), ROWS_AT_ONCE):
                targets = self._targets.rows(start, start + ROWS_AT_ONCE)
                predicted = targets.counts()
                sums += loss(targets, predicted)[1].cpu().double()
                counts += predicted.cpu().double()
        model.train(was_training)
        token_loss, right, _, right_pairs = sums.tolist()
        tokens, pairs, _ = counts.tolist()
        return HeldOut(
            loss=token_loss / max(tokens, 1),
            accuracy=right / max(tokens, 1),
            pair_accuracy=right_pairs / pairs if pairs else None,
            tokens=int(tokens),
        )
