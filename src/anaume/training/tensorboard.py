"""A run's metrics as TensorBoard events, RUN/tensorboard: asked for by run.tensorboard (extra `tensorboard`)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from anaume.errors import MissingExtra
from anaume.logs import get_logger

log = get_logger(__name__)

TENSORBOARD = "tensorboard"

TAGS = {
    "token_loss": "loss/training",
    "held_out_loss": "loss/held-out",
    "accuracy": "top-1/training",
    "held_out_accuracy": "top-1/held-out",
    "pair_accuracy": "pairs/training",
    "held_out_pair_accuracy": "pairs/held-out",
    "learning_rate": "run/learning_rate",
    "gradient": "run/gradient",
    "tokens_per_second": "run/tokens_per_second",
}
"""Our name of a value in metrics.jsonl -> the name of its chart."""


def require_tensorboard() -> None:
    """Raise MissingExtra where the package is not installed, or not whole."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtra("run.tensorboard", "tensorboard") from None


class EventsFile:
    """Writes each row of the metrics as events, readable at once. What keeps it from that is said, and stops nothing.

    step  where the run goes on: events of later steps, written before a kill, are purged; None = from the beginning
    """

    def __init__(self, folder: Path, step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Purged is what stands at this step or later; a first sitting has nothing to purge, but may follow a kill.
        self._writer: Any = SummaryWriter(folder / TENSORBOARD, purge_step=0 if step is None else step + 1)

    def __enter__(self) -> EventsFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            with suppress(Exception):  # each row was flushed: what could not be written was told then
                self._writer.close()

    def __call__(self, row: dict[str, Any]) -> None:
        """Write a row; values that were not finite have no event."""
        if self._writer is None:
            return
        try:
            for key, tag in TAGS.items():
                if row.get(key) is not None:
                    self._writer.add_scalar(tag, row[key], row["step"])
            self._writer.flush()
        except Exception as error:  # whatever a library for charts comes up with must not end a run of days
            log.warning("no more TensorBoard events from step %s on: %s", f"{row['step']:,}", error)
            self._writer = None
