"""What a few real steps decide, size and batch of a run by the clock, and what they foretell."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import nn

from anaume.bundle import Bundle
from anaume.config import EncoderConfig
from anaume.data.corpus import open_corpus
from anaume.engines import free_memory, pick_device
from anaume.logs import get_logger
from anaume.model import training_flops
from anaume.tokenization import Tokenizer
from anaume.training.optimizer import build_optimizer
from anaume.training.pretraining.forecast import STATE_BYTES, Forecast
from anaume.training.pretraining.proposal import SIZES, Proposal, Tried, batches_of, propose
from anaume.training.pretraining.settings import OptimizerSettings, PretrainSettings
from anaume.training.pretraining.start import BATCH_ROWS, SIZE, drawn_config, is_open, resolve, with_start
from anaume.training.pretraining.trial import WARM_UP, NoRoom, matrices, measure
from anaume.training.pretraining.trial_text import TrialText
from anaume.training.ranks import Ranks

log = get_logger(__name__)

SECONDS, LEAST = 4.0, 3
"""A forecast measures about so long, and so many steps at least."""
VOCAB_SIZE = 30_522
"""Of made-up rows: as large as the published English vocabulary."""

BUDGET_SHARE = 0.03
"""Of a run's time, the most that choosing size and batch may take."""
TOO_SHORT = 0.5
"""Seconds in which nothing worth knowing can be measured: then the smallest is taken."""
_EACH_SECONDS, _EACH_LEAST = 1.0, 2
_ROOM = 0.5  # of the free memory: what a step needs is only known roughly before it is done


def forecast_run(
    settings: PretrainSettings,
    corpus: str | Path | None = None,
    *,
    vocab_size: int = VOCAB_SIZE,
    device: str = "auto",
) -> Forecast:
    """Train a few steps of a run that starts afresh, keep nothing of them, and return what they told.

    corpus      a folder that `prepare_corpus` made; None = made-up rows of the same shape
    vocab_size  of made-up rows

    Size and batch that a run by the clock leaves open are chosen as it would choose them. Random generators, threads
    and folders stay as they were. Raises SettingsError for settings that don't go together and for a model that does
    not fit into the memory, DataError for a corpus that can't be used.
    """
    target = pick_device(device)
    settings = resolve(settings, target, None, None)
    if corpus is None:
        text = TrialText.made_up(vocab_size)
    else:
        opened = open_corpus(corpus)
        text = TrialText.of_corpus(opened, Tokenizer.from_directory(opened.tokenizer_directory))
    if settings.run.minutes is None:
        settings = with_start(settings, None, SIZE, BATCH_ROWS)
    elif is_open(settings, None):
        settings, _ = settle(settings, text, target, Ranks())
    return measure(settings, text, target, seconds=SECONDS, least=LEAST)


def settle(
    settings: PretrainSettings,
    text: TrialText,
    device: torch.device,
    ranks: Ranks,
    *,
    bundle: Bundle | None = None,
    new_heads: bool = False,
) -> tuple[PretrainSettings, Proposal | None]:
    """Return the settings of a run by the clock (resolved) with size and batch chosen, and why; it is logged.

    One process measures, and takes at most about BUDGET_SHARE of the budget; many measure nothing and take the defaults
    (proposal None). Raises SettingsError for settings that don't go together.
    """
    if ranks.world > 1:
        if ranks.first:
            size = SIZE if bundle is None else "as the bundle's"
            log.info(
                "with %d processes nothing is measured: where they are not given, size %s and %d rows a step",
                ranks.world,
                size,
                BATCH_ROWS,
            )
        return with_start(settings, bundle, SIZE, BATCH_ROWS), None
    minutes = settings.run.minutes
    assert minutes is not None
    # torch brings half of its compiler in with the first optimizer: every run waits for that before its clock starts.
    build_optimizer(nn.LayerNorm(1), OptimizerSettings(learning_rate=1.0))
    begun = time.monotonic()
    given_size, given_rows = settings.model.size, settings.run.batch_rows
    sizes = SIZES if bundle is None and given_size is None else (given_size,)
    batches = batches_of(settings.data.seq_len) if given_rows is None else (given_rows,)
    chosen, tried = propose(sizes, batches, _Trials(settings, text, device, bundle, new_heads))
    proposal = Proposal(chosen, tried, sizes, batches, minutes, round(time.monotonic() - begun, 3))
    for line in proposal.lines():
        log.info("%s", line)
    return with_start(settings, bundle, proposal.size, proposal.rows), proposal


class _Trials:
    """Measures one candidate after the other, while there is time and memory for the next."""

    def __init__(
        self,
        settings: PretrainSettings,
        text: TrialText,
        device: torch.device,
        bundle: Bundle | None,
        new_heads: bool,
    ) -> None:
        assert settings.run.minutes is not None
        self._budget = 60.0 * settings.run.minutes
        self._end = time.monotonic() + BUDGET_SHARE * self._budget
        # Rows of one length, and no compiling: candidates are held against each other.
        self._settings = settings.model_copy(
            update={
                "data": settings.data.model_copy(update={"long_seq_len": None}),
                "run": settings.run.model_copy(update={"compile": False}),
            }
        )
        self._text, self._device, self._bundle, self._new_heads = text, device, bundle, new_heads
        self._seconds_a_flop: float | None = None

    def __call__(self, size: str | None, rows: int) -> Tried | None:
        candidate = with_start(self._settings, self._bundle, size, rows)
        bundle, left = self._bundle, self._end - time.monotonic()
        config = drawn_config(candidate, self._text.vocab_size) if bundle is None else bundle.config
        tokens, seq_len = rows * candidate.data.seq_len, candidate.data.seq_len
        places = tokens if candidate.objective.target == "next" else candidate.objective.mask_rate * tokens
        flops = training_flops(config, tokens=tokens, places=places, seq_len=seq_len)
        needed = TOO_SHORT  # a larger model is no slower a FLOP than a smaller one
        if self._seconds_a_flop is not None:
            needed = (WARM_UP + _EACH_LEAST) * self._seconds_a_flop * flops
        if left < needed or not self._has_room(candidate, config, places):
            return None
        try:
            told = measure(
                candidate,
                self._text,
                self._device,
                bundle=bundle,
                new_heads=self._new_heads,
                seconds=min(_EACH_SECONDS, left / 4),
                least=_EACH_LEAST,
            )
        except NoRoom:
            return None
        self._seconds_a_flop = told.seconds_for(1) / flops
        steps = told.steps_in(self._budget)
        return Tried(size, rows, steps, told.tokens_per_second, told.epochs(steps))

    def _has_room(self, candidate: PretrainSettings, config: EncoderConfig, places: float) -> bool:
        free = free_memory(self._device)
        if free is None:
            return True
        rows = candidate.run.batch_rows
        assert rows is not None
        share = min(rows, candidate.run.micro_rows or rows) / rows
        needed = STATE_BYTES * matrices(config) + share * activation_bytes(config, rows, candidate.data.seq_len, places)
        return needed < _ROOM * free


def activation_bytes(config: EncoderConfig, rows: int, seq_len: int, places: float) -> float:
    """Return roughly what a step keeps for its backward pass, in bytes.

    A layer keeps 34 D + 5 A T bytes a token in half precision (Korthikanti et al. 2022, section 4.1; D = width,
    A = heads, T = seq_len), taken twice, for float32; and the logits, their softmax and their gradients are float32.
    """
    layer = 2 * (34 * config.hidden_size + 5 * config.num_attention_heads * seq_len)
    return rows * seq_len * config.num_hidden_layers * layer + 12.0 * places * config.vocab_size
