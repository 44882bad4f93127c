"""A few real steps of a run, trained to be measured and thrown away."""

from __future__ import annotations

import statistics
import time
import warnings
from pathlib import Path

import torch

from anaume.bundle import Bundle
from anaume.config import EncoderConfig
from anaume.engines import free_memory, is_out_of_memory
from anaume.engines.hardware import forget_peak_memory, peak_memory
from anaume.errors import AnaumeWarning, SettingsError
from anaume.training.clock import StepClock, Stopwatch
from anaume.training.loop import Run, train_step
from anaume.training.optimizer import build_optimizer
from anaume.training.pretraining.corpus_work import CorpusWork
from anaume.training.pretraining.forecast import STATE_BYTES, Forecast, Pace
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import build_loss, build_model, compiling, drawn_config
from anaume.training.pretraining.trial_text import TrialText
from anaume.training.ranks import Ranks
from anaume.training.records import Records
from anaume.training.state import Progress
from anaume.training.surroundings import computing

WARM_UP = 2
"""Steps that are dropped: the first ones pick kernels and touch memory."""

_NO_ROOM = "the run does not fit into the memory (a smaller model.size, or fewer rows at once with run.micro_rows, may)"
_NO_STEP = 1e-12  # of a learning rate: a trial must not run away


class NoRoom(SettingsError):
    """The run does not fit into the memory."""


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

    Random generators, threads and folders stay as they were. Raises SettingsError for what does not go together, NoRoom
    for what does not fit.
    """
    with computing(settings, device), compiling(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # of heads drawn or left out: the run itself says it
        if bundle is None:
            _require_room(matrices(drawn_config(settings, text.vocab_size)), device)
        forget_peak_memory(device)
        try:
            run = _trial(settings, text, device, bundle, new_heads)
            fractions = _fractions(settings)
            paces = tuple(_pace(run, fraction, seconds / len(fractions), least) for fraction in fractions)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise NoRoom(f"{_NO_ROOM}: {str(error).splitlines()[0] if str(error) else 'out of memory'}") from error
            raise
        parameters = sum(parameter.numel() for parameter in run.model.parameters())
        return Forecast(settings, run.model.config, parameters, peak_memory(device), paces, text.tokens)


def matrices(config: EncoderConfig) -> int:
    """Return the parameters of table and layers, vectors and heads apart: known without making a model."""
    width = config.hidden_size
    return width * (config.vocab_size + config.num_hidden_layers * (4 * width + 2 * config.intermediate_size))


def _require_room(parameters: int, device: torch.device) -> None:
    """Raise NoRoom where weights, gradients and moments alone are more than what is free."""
    free, needed = free_memory(device), STATE_BYTES * parameters
    if free is not None and needed > free:
        raise NoRoom(
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
        work=CorpusWork(
            settings=settings,
            loss=build_loss(model, settings, ranks),
            stream=text.stream(settings, data.seq_len),
            long_stream=None if data.long_seq_len is None else text.stream(settings, data.long_seq_len),
            evaluator=None,
            evaluate_first=False,
            device=device,
            mask_id=text.mask_id,
            vocab_size=text.vocab_size,
        ),
        optimizer=build_optimizer(model, gently.optimizer),
        clock=StepClock(1),
        stopwatch=Stopwatch(0.0),
        progress=Progress(),
        records=Records(None, metrics_size=0, journal_size=0, timed=False),
        device=device,
        dtype=torch.bfloat16 if settings.run.precision == "bfloat16" else torch.float32,
        ranks=ranks,
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
        batch = run.work.next_batch(run.progress, run.ranks, fraction)
        done = train_step(run, batch, fraction)
        times.append(time.perf_counter() - begun)
        run.progress.step += 1
        tokens += done.tokens
        pieces += int((batch.word_ids >= 0).sum())
    count, (rows, seq_len) = len(times), batch.token_ids.shape
    kept = times[WARM_UP:]
    return Pace(rows, seq_len, statistics.median(kept), tokens / count, pieces / count, len(kept))
