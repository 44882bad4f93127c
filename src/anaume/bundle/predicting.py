"""From examples to predictions: rows, batches by length, engine, the task's own decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.bundle.embedding import told_of_vocabulary
from anaume.bundle.parts import BundleParts
from anaume.data import pad, token_budget_batches
from anaume.engines import Batch, Engine, side_by_side
from anaume.errors import BundleError, SettingsError
from anaume.tasks.features import Features
from anaume.tasks.registry import AnyTask, restored_task, task_of_head
from anaume.tasks.task import Prediction
from anaume.tokenization import voicing_lost


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Predictions, and what the model saw of the texts."""

    predictions: list[Any]
    """One an example, in order: `Prediction` of the task's own kind."""
    coverage: npt.NDArray[np.float64]
    """(examples,): the share of each text that the model saw, 0 to 1."""
    pieces: int
    """Pieces of all texts, special tokens apart."""
    unknown: int
    """How many of them the vocabulary does not hold."""
    voiced: int = 0
    """Kana of the texts whose voicing marks the tokenizer strips."""

    @property
    def cut(self) -> int:
        """How many texts the model did not see whole."""
        return int((self.coverage < 1.0).sum())

    def messages(self, max_length: int) -> tuple[str, ...]:
        """Return what a user must be told, with counts; () when the model saw all and knew it."""
        seen = Seen()
        seen.add(self)
        return seen.messages(max_length)


@dataclass
class Seen:
    """What the model saw of one chunk of texts after the other."""

    texts: int = 0
    coverage: float = 0.0
    """The sum of the texts' coverages."""
    cut: int = 0
    coverage_of_cut: float = 0.0
    """The sum of the coverages of those that were cut."""
    pieces: int = 0
    unknown: int = 0
    voiced: int = 0

    def add(self, predicted: Predicted) -> None:
        """Count one more chunk."""
        cut = predicted.coverage < 1.0
        self.texts += len(cut)
        self.coverage += float(predicted.coverage.sum())
        self.cut += int(cut.sum())
        self.coverage_of_cut += float(predicted.coverage[cut].sum())
        self.pieces += predicted.pieces
        self.unknown += predicted.unknown
        self.voiced += predicted.voiced

    @property
    def unknown_share(self) -> float:
        """The share of the pieces that the vocabulary does not hold, 0 to 1."""
        return self.unknown / self.pieces if self.pieces else 0.0

    def messages(self, max_length: int) -> tuple[str, ...]:
        """Return what a user must be told of these texts, with counts; () when the model saw all and knew it."""
        said = []
        if self.cut:
            said.append(
                f"{self.cut:,} of {self.texts:,} texts were longer than {max_length} tokens and were cut (the model "
                f"saw {self.coverage_of_cut / self.cut:.0%} of them on average)"
            )
        return (*said, *told_of_vocabulary(self.unknown, self.pieces, self.voiced))


def predictor(parts: BundleParts) -> tuple[AnyTask, int]:
    """Return the task of a bundle and the longest row it was trained on. Raises SettingsError when it has none."""
    for name, head in parts.model.head_configs.items():
        told = parts.tasks.get(name)
        if told is not None:
            return restored_task(told.task, head, told.settings), told.max_length
        task = task_of_head(head, {})
        if task is not None:
            return task, parts.model.config.max_position_embeddings
    heads = ", ".join(parts.model.head_configs) or "none"
    raise SettingsError(f"predicting needs a head trained for a task, this bundle has: {heads}; see anaume finetune")


def predict_examples(
    examples: Sequence[Any], task: AnyTask, parts: BundleParts, engine: Engine, max_length: int
) -> Predicted:
    """Return the task's predictions for examples; they don't depend on how rows are batched.

    Raises DataError for an example that does not fit, BundleError when the weights give no finite numbers.
    """
    features = task.features(examples, parts.tokenizer, max_length, learn=False)
    logits = row_logits(features, task.kind, engine, parts.tokenizer.pad_id)
    for row, own in enumerate(logits):
        if not np.isfinite(own).all():
            place = examples[_owner(features, row)].place
            raise BundleError(f"{place}: the model gives NaN or infinite numbers: its weights are unusable")
    predictions: list[Prediction] = task.decode(logits, features, examples)
    return Predicted(
        predictions=predictions,
        coverage=features.coverage,
        pieces=features.pieces,
        unknown=features.unknown,
        voiced=voicing_lost(parts.tokenizer, (text for example in examples for text in example.texts)),
    )


def _owner(features: Features, row: int) -> int:
    """Return the number of the example a row belongs to."""
    return int(features.examples[np.searchsorted(features.unit_starts, row, side="right") - 1])


def row_logits(features: Features, head: str, engine: Engine, pad_id: int) -> list[npt.NDArray[np.float32]]:
    """Return what a head says of each row, real tokens only."""
    lengths = features.token_ids.lengths
    found: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * features.rows
    engine = engine.for_tokens(int(lengths.sum()))
    batches = token_budget_batches(lengths, engine.max_batch_tokens, close=True)

    def of_batch(batch: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        token_ids, attention_mask = pad([features.token_ids[row].tolist() for row in batch], pad_id)
        segments, _ = pad([features.segment_ids[row].tolist() for row in batch], 0)
        return engine.head_logits(Batch(token_ids, attention_mask, segments), head)

    at_once = engine.at_once(head) if len(batches) > 1 else 1
    for batch, logits in zip(batches, side_by_side(of_batch, batches, at_once), strict=True):
        per_token = logits.ndim == 3
        for row, own in zip(batch.tolist(), logits, strict=True):
            found[row] = own[: lengths[row]] if per_token else own
    return found
