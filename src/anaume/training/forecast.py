"""What a run will take, told by a few of its own steps: memory, tokens a second, time."""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from anaume.bundle import Bundle
from anaume.config import EncoderConfig
from anaume.data import open_corpus
from anaume.engines import free_memory, pick_device
from anaume.engines.hardware import forget_peak_memory, peak_memory
from anaume.errors import AnaumeWarning, SettingsError
from anaume.tokenization import Tokenizer
from anaume.training.clock import StepClock, Stopwatch
from anaume.training.loop import Run, next_batch, train_step
from anaume.training.optimizer import build_optimizer
from anaume.training.ranks import Ranks
from anaume.training.records import Records
from anaume.training.settings import PretrainSettings
from anaume.training.start import build_loss, build_model, computing, drawn_config, resolve
from anaume.training.state import Progress
from anaume.training.trial_text import TrialText

SECONDS = 4.0
"""Time a forecast takes, roughly; longer where steps are slow."""
VOCAB_SIZE = 30_522
"""Of made-up rows: as large as the published English vocabulary."""
WARM_UP, LEAST = 2, 3
"""Steps that are dropped, as the first ones pick kernels and touch memory; and how many are kept at least."""

STATE_BYTES = 16
"""Of a parameter: weight, gradient and the two moments of AdamW, in float32."""

_NO_ROOM = "the run does not fit into the memory (a smaller model.size, or fewer rows at once with run.micro_rows, may)"
_NO_STEP = 1e-12  # of a learning rate: a trial must not run away


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


def forecast_run(
    settings: PretrainSettings,
    corpus: str | Path | None = None,
    *,
    vocab_size: int = VOCAB_SIZE,
    device: str = "auto",
    seconds: float | None = None,
) -> Forecast:
    """Train a few steps of a run that starts afresh, keep nothing of them, and return what they told.

    corpus      a folder that `prepare_corpus` made; None = made-up rows of the same shape
    vocab_size  of made-up rows
    seconds     about how long to measure; None = SECONDS

    Random generators, threads and folders stay as they were. Raises SettingsError for settings that don't go together
    and for a model that does not fit into the memory, DataError for a corpus that can't be used.
    """
    target = pick_device(device)
    settings = resolve(settings, target, None, None)
    if corpus is None:
        text = TrialText.made_up(vocab_size)
    else:
        opened = open_corpus(corpus)
        text = TrialText.of_corpus(opened, Tokenizer.from_directory(opened.tokenizer_directory))
    return measure(settings, text, target, seconds=SECONDS if seconds is None else seconds, least=LEAST)


def measure(
    settings: PretrainSettings,
    text: TrialText,
    device: torch.device,
    *,
    bundle: Bundle | None = None,
    new_heads: bool = False,
    seconds: float,
    least: int,
) -> Forecast:
    """Return what a few steps tell of a run with these settings (resolved) in one process.

    least  how many steps are kept, however long they take

    Raises SettingsError for what does not go together or does not fit.
    """
    with computing(settings, device), warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # of heads drawn or left out: the run itself says it
        if bundle is None:
            _require_room(_matrices(drawn_config(settings, text.vocab_size)), device)
        forget_peak_memory(device)
        try:
            run = _trial(settings, text, device, bundle, new_heads)
            fractions = _fractions(settings)
            paces = tuple(_pace(run, fraction, seconds / len(fractions), least) for fraction in fractions)
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(error):
                raise SettingsError(
                    f"{_NO_ROOM}: {str(error).splitlines()[0] if str(error) else 'out of memory'}"
                ) from error
            raise
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        return Forecast(settings, run.model.config, parameters, peak_memory(device), paces, text.tokens)


def _matrices(config: EncoderConfig) -> int:
    """Return the parameters of table and layers, vectors and heads apart: known without making a model."""
    width = config.hidden_size
    return width * (config.vocab_size + config.num_hidden_layers * (4 * width + 2 * config.intermediate_size))


def _require_room(parameters: int, device: torch.device) -> None:
    """Raise SettingsError where weights, gradients and moments alone are more than what is free."""
    free, needed = free_memory(device), STATE_BYTES * parameters
    if free is not None and needed > free:
        raise SettingsError(
            f"{_NO_ROOM}: weights, gradients and AdamW's moments take {needed / 2**30:.1f} GiB, activations come on "
            f"top, and {free / 2**30:.1f} GiB is free on {device.type}"
        )


def _trial(
    settings: PretrainSettings, text: TrialText, device: torch.device, bundle: Bundle | None, new_heads: bool
) -> Run:
    """Return a run that writes nothing and goes nowhere: its rate is next to nothing."""
    model = build_model(settings, text.vocab_size, bundle, new_heads=new_heads).to(device).train()
    data, ranks = settings.data, Ranks()
    gently = settings.model_copy(
        update={"optimizer": settings.optimizer.model_copy(update={"learning_rate": _NO_STEP})}
    )
    return Run(
        settings=gently,
        folder=Path(),
        model=model,
        loss=build_loss(model, settings, ranks),
        optimizer=build_optimizer(model, gently.optimizer),
        stream=text.stream(settings, data.seq_len),
        long_stream=None if data.long_seq_len is None else text.stream(settings, data.long_seq_len),
        evaluator=None,
        evaluate_first=False,
        clock=StepClock(1),
        stopwatch=Stopwatch(0.0),
        progress=Progress(),
        records=Records(None, metrics_size=0, journal_size=0, timed=False),
        device=device,
        dtype=torch.bfloat16 if settings.run.precision == "bfloat16" else torch.float32,
        ranks=ranks,
        mask_id=text.mask_id,
        vocab_size=text.vocab_size,
        stop_asked=lambda: False,
    )


def _fractions(settings: PretrainSettings) -> list[float]:
    """Return how much of the run has passed in the middle of its parts: one, or two of different row lengths."""
    if settings.data.long_seq_len is None:
        return [0.5]
    return [0.5 * (1.0 - settings.data.long_share), 1.0 - 0.5 * settings.data.long_share]


def _pace(run: Run, fraction: float, seconds: float, least: int) -> Pace:
    """Do the loop's own steps for about so long."""
    times: list[float] = []
    tokens = pieces = 0
    end = time.perf_counter() + seconds
    while len(times) < WARM_UP + least or time.perf_counter() < end:
        begun = time.perf_counter()
        batch = next_batch(run, fraction)
        done = train_step(run, batch, fraction)
        times.append(time.perf_counter() - begun)
        run.progress.step += 1
        tokens += done.tokens
        pieces += int((batch.word_ids >= 0).sum())
    count, (rows, seq_len) = len(times), batch.token_ids.shape
    kept = times[WARM_UP:]
    return Pace(rows, seq_len, statistics.median(kept), tokens / count, pieces / count, len(kept))
