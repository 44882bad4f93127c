"""What a run will take, as a few of its own steps told it: memory, tokens a second, time."""

from __future__ import annotations

from dataclasses import dataclass

from anaume.config import EncoderConfig
from anaume.training.pretraining.settings import PretrainSettings

STATE_BYTES = 16
"""Of a parameter: weight, gradient and the two moments of AdamW, in float32."""


@dataclass(frozen=True)
class Pace:
    """Steps of one row length, measured."""

    rows: int
    """Of a step."""
    seq_len: int
    seconds: float
    """A step took, the median."""
    tokens: float
    """Real tokens of a step, special ones included, padding apart."""
    pieces: float
    """Those of them that come from the text."""
    steps: int
    """How many were measured."""


@dataclass(frozen=True)
class Forecast:
    """What a few real steps told; held-out scores and checkpoints are not in it."""

    settings: PretrainSettings
    """Those of the run, with nothing left open."""
    config: EncoderConfig
    parameters: int
    peak_bytes: int | None
    """The most that was in use at once: of the process, or on a GPU of its tensors. None = not told."""
    paces: tuple[Pace, ...]
    """Of the run's rows, and of the longer ones of its last part where it has them."""
    corpus_tokens: int | None
    """Tokens of the training part; None = made-up rows."""

    @property
    def state_bytes(self) -> int:
        """Of weights, gradients and both AdamW moments: activations come on top."""
        return STATE_BYTES * self.parameters

    @property
    def checkpoint_bytes(self) -> int:
        """Of one checkpoint: weights and moments."""
        return 12 * self.parameters

    @property
    def tokens_per_second(self) -> float:
        """Real tokens a second over a run of given steps."""
        tokens = sum(share * pace.tokens for share, pace in self._parts())
        return tokens / self.seconds_for(1)

    def seconds_for(self, steps: int) -> float:
        """Return the time of that many steps."""
        return steps * sum(share * pace.seconds for share, pace in self._parts())

    def steps_in(self, seconds: float) -> float:
        """Return how many steps a run of given time has."""
        return seconds * sum(share / pace.seconds for share, pace in self._parts())

    def epochs(self, steps: float) -> float | None:
        """Return how often that many steps go through the corpus; None without one."""
        if self.corpus_tokens is None:
            return None
        return steps * sum(share * pace.pieces for share, pace in self._parts()) / self.corpus_tokens

    def _parts(self) -> list[tuple[float, Pace]]:
        """Return the share of the run each pace holds for."""
        last = self.settings.data.long_share if len(self.paces) > 1 else 0.0
        return list(zip((1.0 - last, last), self.paces, strict=False))
