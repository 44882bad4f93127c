"""What a run's speed is read beside: the share of the machine's matrix rate its useful work amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from anaume.config import EncoderConfig
from anaume.engines import matrix_rate, share_of_machine
from anaume.model import training_flops
from anaume.training.pretraining.objective import mask_rate
from anaume.training.pretraining.settings import PretrainSettings


@dataclass(frozen=True)
class Beginning:
    """What a run is, told before its first step: nothing is left open any more."""

    settings: PretrainSettings
    config: EncoderConfig
    device: torch.device
    ranks: int
    """Processes that train it together."""


@dataclass(frozen=True)
class Ceiling:
    """The rate of the matrix products that a run could reach at most; it is shown, and decides nothing."""

    beginning: Beginning
    rate: float
    """GFLOP/s of all processes."""

    @classmethod
    def measured(cls, beginning: Beginning) -> Ceiling | None:
        """Measure the processor in the run's precision with the threads torch has now, about half a second.

        With several processes this one's rate is taken for each of them. None on a GPU, whose rate is not measured.
        """
        precision = beginning.settings.run.precision
        if beginning.device.type != "cpu" or precision == "auto":
            return None
        return cls(beginning, matrix_rate(precision) * beginning.ranks)

    def share(self, row: dict[str, Any]) -> float:
        """Return the share of it that the steps of a row of metrics used, 0 to about 1 (`training_flops`).

        The predicted places are taken as mask rate x tokens: special tokens count too, a hair too many.
        """
        settings, tokens = self.beginning.settings, float(row["tokens_per_second"])
        data, seq_len = settings.data, settings.data.seq_len
        if data.long_seq_len is not None and row["fraction"] >= 1.0 - data.long_share:
            seq_len = data.long_seq_len
        predicted = 1.0 if settings.objective.target == "next" else mask_rate(row["fraction"], settings.objective)
        config = self.beginning.config
        flops = training_flops(config, tokens=tokens, places=predicted * tokens, seq_len=seq_len)
        return share_of_machine(flops, 1.0, self.rate)

    def line(self) -> str:
        """Say it."""
        run, ranks = self.beginning.settings.run, self.beginning.ranks
        threads = f"{run.threads} thread{'' if run.threads == 1 else 's'}"
        threads = threads if ranks == 1 else f"{ranks} processes of {threads}"
        return (
            f"matrices are multiplied here at {self.rate:,.0f} GFLOP/s ({run.precision}, {threads}): the rate a run's "
            "useful work is held against"
        )
