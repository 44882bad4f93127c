"""The held-out loss: always the same rows under the same masks, whatever the step or the batch size."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anaume.data.stream import RowStream
from anaume.model import Bert
from anaume.training.objective import PretrainLoss, Targets, make_targets
from anaume.training.settings import PretrainSettings

_ROWS_AT_ONCE = 32
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
        rows = settings.run.evaluation_rows
        self._device = device
        self._batches: list[Targets] = []
        for index, start in enumerate(range(0, rows, _ROWS_AT_ONCE)):
            self._batches.append(
                make_targets(
                    stream.next_batch(min(_ROWS_AT_ONCE, rows - start)),
                    settings.objective,
                    mask_id=mask_id,
                    vocab_size=vocab_size,
                    seed=_SEED,
                    step=index,
                    rate=settings.objective.mask_rate,
                    device=device,
                )
            )

    def score(self, model: Bert, dtype: torch.dtype) -> HeldOut:
        """Score `model` in eval mode; its mode and every random generator are left as they were."""
        was_training = model.training
        model.eval()
        loss = PretrainLoss(model)
        sums = torch.zeros(4, dtype=torch.float64, device=self._device)
        counts = torch.zeros(2, dtype=torch.float64, device=self._device)
        with torch.no_grad(), torch.autocast(self._device.type, dtype, enabled=dtype != torch.float32):
            for targets in self._batches:
                predicted = targets.counts()
                sums += loss(targets, predicted)[1]
                counts += predicted
        model.train(was_training)
        token_loss, right, _, right_pairs = sums.tolist()
        tokens, pairs = counts.tolist()
        return HeldOut(
            loss=token_loss / max(tokens, 1),
            accuracy=right / max(tokens, 1),
            pair_accuracy=right_pairs / pairs if pairs else None,
            tokens=int(tokens),
        )
