"""Graphs at work: what runs one is behind a small call, what goes in and comes out is the same for every library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from anaume.config import EncoderConfig
from anaume.engines.graph_names import EMBED, MASK, POOLING_MASK, SEGMENT_IDS, TOKEN_IDS
from anaume.engines.protocol import Batch, Engine, Precision, Vectors
from anaume.engines.runners import Plan
from anaume.errors import SettingsError
from anaume.model import EncoderOutput

BATCH_TOKENS: dict[Plan, int] = {"alone": 1024, "many": 512}
"""Tokens of a batch on a CPU: see torch_engine.CPU_BATCH_TOKENS. Side by side, smaller ones end nearer together."""
MANY_TOKENS = 8192
"""Tokens of one call from which the plan for many batches wins more than compiling it costs, the first time already."""


class Runner(Protocol):
    """One graph, ready to run from any number of threads."""

    inputs: frozenset[str]
    """The names it is fed."""
    at_once: int
    """How many batches it runs side by side."""

    def __call__(self, feeds: Mapping[str, npt.NDArray[np.int64]]) -> Vectors:
        """Return its one output, float32."""
        ...


class GraphEngine:
    """Runs batches through graphs on the CPU.

    runner  a graph's name (`EMBED` or a head's), a plan -> what runs it; asked once a batch, so it keeps what it made
    config  of the encoder: rows and IDs are checked against it, since a graph would not say what was wrong
    states  what gives hidden states, which no graph hands out; None = they are refused
    plans   whether there is a plan for many batches beside that for one
    """

    device = "cpu"

    def __init__(
        self,
        name: str,
        precision: Precision,
        config: EncoderConfig,
        runner: Callable[[str, Plan], Runner],
        *,
        states: Engine | None = None,
        plans: bool = False,
    ) -> None:
        self.name = name
        self.precision: Precision = precision
        self._config = config
        self._runner = runner
        self._states = states
        self._plan: Plan = "alone"
        self.max_batch_tokens = BATCH_TOKENS["alone"]
        self._many: GraphEngine | None = None
        if plans:
            self._many = copy.copy(self)
            self._many._plan = "many"
            self._many.max_batch_tokens = BATCH_TOKENS["many"]

    def for_tokens(self, tokens: int) -> Engine:
        """Return the engine of the plan for many batches where there is one, and enough to do; itself otherwise."""
        return self._many if self._many is not None and tokens >= MANY_TOKENS else self

    def at_once(self, head: str | None = None) -> int:
        """Return how many batches its library runs side by side. Raises SettingsError without that graph."""
        return self._runner(EMBED if head is None else head, self._plan).at_once

    def embed(self, batch: Batch) -> Vectors:
        """Return one vector a row, (batch, embedding_size) float32: encoder, pooling, normalisation."""
        return self._run(EMBED, batch)

    def head_logits(self, batch: Batch, head: str) -> Vectors:
        """Return the logits of a head, float32, shaped as heads have them. Raises SettingsError without that head."""
        return self._run(head, batch)

    def token_log_probabilities(self, batch: Batch, positions: Sequence[int], head: str) -> Vectors:
        """Return what an mlm head thinks of one place a row, (batch,): (batch, vocab_size) float32."""
        logits = self._run(head, batch)[np.arange(len(batch.token_ids)), np.asarray(positions)]
        shifted = logits - logits.max(axis=1, keepdims=True)
        found: Vectors = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return found

    def hidden_states(self, batch: Batch, *, keep_attentions: bool = False) -> EncoderOutput:
        """Return every layer, as `states` gives them. Raises SettingsError where there is none."""
        if self._states is None:
            self._refuse("hidden states")
        return self._states.hidden_states(batch, keep_attentions=keep_attentions)

    def _run(self, name: str, batch: Batch) -> Vectors:
        self._check(batch)
        runner = self._runner(name, self._plan)
        segments = np.zeros_like(batch.token_ids) if batch.segment_ids is None else batch.segment_ids
        counted = batch.attention_mask if batch.pooling_mask is None else batch.pooling_mask
        given = {TOKEN_IDS: batch.token_ids, MASK: batch.attention_mask, SEGMENT_IDS: segments, POOLING_MASK: counted}
        if batch.pooling_mask is not None and POOLING_MASK not in runner.inputs:
            self._refuse("a pooling_mask")
        # A graph takes int64 and nothing else, in memory without gaps.
        return runner({key: np.ascontiguousarray(given[key], dtype=np.int64) for key in sorted(runner.inputs)})

    def _check(self, batch: Batch) -> None:
        longest = self._config.max_position_embeddings
        if batch.token_ids.shape[1] > longest:
            raise SettingsError(
                f"a row of {batch.token_ids.shape[1]} tokens is longer than the position table, {longest} "
                "(max_position_embeddings): cut the text or split it into windows"
            )
        tables = (
            ("token", batch.token_ids, self._config.vocab_size, "vocab_size"),
            ("segment", batch.segment_ids, self._config.segment_vocab_size, "segment_vocab_size"),
        )
        for kind, ids, rows, setting in tables:
            if ids is not None and ids.size and (ids.min() < 0 or ids.max() >= rows):
                row, place = np.argwhere((ids < 0) | (ids >= rows))[0]
                raise SettingsError(
                    f"{kind} ID {ids[row, place]} at row {row}, place {place} is outside its table of {rows} rows "
                    f"({setting}): do tokenizer and model belong together?"
                )

    def _refuse(self, what: str) -> NoReturn:
        raise SettingsError(f"{what}: not in the graphs that {self.name} runs; use the bundle with engine='torch'")
