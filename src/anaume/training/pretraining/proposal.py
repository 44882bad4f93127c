"""Which size and which batch a time budget is given: a rule over measured steps, and no measuring here.

The rule:

1. Size: the largest of tiny, mini, small that makes about 3,000 steps or more in the budget at the smallest batch; when
   none does, the smallest size.
2. Batch: the smallest of 16, 32, 64 rows of 128 tokens (or as many tokens in other rows) whose tokens a second are at
   least 80 % of the best measured, as long as about 3,000 steps remain; else the smallest.

Where it comes from: in short budgets the number of steps decides. In a minute of one core only the smallest model with
the smallest batch, and so the most steps, left the loss of a unigram well behind (docs/log.md, "what learns in a minute
of one core"), and published time-boxed runs of decoders found the same: docs/decisions/0012-size-and-batch.md, which
also says what is not known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

ENOUGH_STEPS = 3000
"""About so many optimizer steps are wanted before anything is spent on a larger model or a larger batch."""
GOOD_RATE = 0.8
"""A smaller batch may cost so much of the best rate, for the steps it gives."""
SIZES = ("tiny", "mini", "small")
BATCH_TOKENS = (2048, 4096, 8192)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Tried:
    """A size and a batch, and what its measured steps make of the budget."""

    size: str | None
    """None: the bundle's."""
    rows: int
    steps: float
    tokens_per_second: float
    epochs: float | None
    """How often the corpus would be gone through."""


@dataclass(frozen=True)
class Proposal:
    """What was chosen, and why."""

    chosen: Tried | None
    """None: nothing could be measured; then it is the smallest of everything."""
    tried: tuple[Tried, ...]
    sizes: tuple[str | None, ...]
    """Those there were to choose from, the smallest first; one: it was given."""
    batches: tuple[int, ...]
    """Rows, likewise."""
    minutes: float
    seconds: float
    """What the measuring took: it is counted into the budget."""

    @property
    def size(self) -> str | None:
        """The size to train; None = the bundle's."""
        return self.sizes[0] if self.chosen is None else self.chosen.size

    @property
    def rows(self) -> int:
        """The rows of a step."""
        return self.batches[0] if self.chosen is None else self.chosen.rows

    def lines(self) -> list[str]:
        """Say what was chosen, and why."""
        what = f"proposed for {self.minutes:g} min: {self._name(self.size, self.rows)}"
        if self.chosen is None:
            return [f"{what}: the smallest, as neither time nor memory was enough to measure any"]
        told = self.chosen
        epochs = "" if told.epochs is None else f", {told.epochs:.2g} times through the corpus"
        what += f": about {told.steps:,.0f} steps{epochs}, at {told.tokens_per_second:,.0f} tokens/s"
        others = [
            f"{self._name(other.size, other.rows)} would make {other.steps:,.0f} steps at "
            f"{other.tokens_per_second:,.0f} tokens/s"
            for other in self.tried
            if other != told
        ]
        why = f"why: enough steps (about {ENOUGH_STEPS:,}) come first, then a large model, then speed"
        return [what, "; ".join([why, *others, f"measured in {self.seconds:.1f} s of the budget"])]

    def record(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return dataclasses.asdict(self)

    def _name(self, size: str | None, rows: int) -> str:
        named = f"size {size}, " if len(self.sizes) > 1 else ""
        return f"{named}{rows} rows a step"


Measure = Callable[[str | None, int], Tried | None]
"""Measures a size and a number of rows; None: there is no time or no memory for it."""


def propose(
    sizes: Sequence[str | None], batches: Sequence[int], measure: Measure
) -> tuple[Tried | None, tuple[Tried, ...]]:
    """Return the size and batch to train, and all that were measured on the way.

    sizes, batches  what there is to choose from, the smallest first; one where it was given
    measure         is asked for what the rule needs only: steps fall with size and batch, so that it stops early

    (None, ()) when not even the smallest could be measured.
    """
    at_smallest = _fall(lambda size: measure(size, batches[0]), sizes)
    if not at_smallest:
        return None, ()
    enough = [told for told in at_smallest if told.steps >= ENOUGH_STEPS]
    chosen = enough[-1] if enough else at_smallest[0]
    further = _fall(lambda rows: measure(chosen.size, rows), batches[1:]) if enough else []
    alike = [chosen, *further]
    good = GOOD_RATE * max(told.tokens_per_second for told in alike)
    fitting = [told for told in alike if told.steps >= ENOUGH_STEPS and told.tokens_per_second >= good]
    return (fitting[0] if fitting else chosen), (*at_smallest, *further)


def batches_of(seq_len: int) -> tuple[int, ...]:
    """Return the batches to choose from in rows of that many tokens, the smallest first.

    >>> batches_of(128), batches_of(512), batches_of(5000)
    ((16, 32, 64), (4, 8, 16), (1,))
    """
    return tuple(dict.fromkeys(max(1, tokens // seq_len) for tokens in BATCH_TOKENS))


def _fall(measure: Callable[[_T], Tried | None], candidates: Sequence[_T]) -> list[Tried]:
    """Measure one after the other, up to the first whose steps are not enough, or that can't be measured."""
    measured: list[Tried] = []
    for candidate in candidates:
        told = measure(candidate)
        if told is None:
            break
        measured.append(told)
        if told.steps < ENOUGH_STEPS:
            break
    return measured
