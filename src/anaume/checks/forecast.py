"""A forecast of a training run in the doctor's words."""

from __future__ import annotations

from pathlib import Path

from anaume.checks.doctor import NOT_TOLD, Finding, counted, free_disk, looked, size
from anaume.training.pretraining.forecast import Forecast
from anaume.training.pretraining.progress import duration


def describe_forecast(told: Forecast, out: str | Path = ".") -> tuple[Finding, ...]:
    """Return what a forecast says; `out` is where the run would go."""
    return (
        _model(told),
        _step(told),
        Finding("tokens a second", f"{told.tokens_per_second:,.0f}", "ok", "real ones, padding apart"),
        looked("memory", lambda: _needed_memory(told)),
        looked("disk", lambda: _needed_disk(told, Path(out))),
        _length(told),
    )


def _model(told: Forecast) -> Finding:
    config = told.config
    shape = f"{config.num_hidden_layers} layers x {config.hidden_size}, vocabulary {config.vocab_size:,}"
    return Finding("model", f"{told.settings.model.size}: {shape}, {told.parameters / 1e6:.1f} M parameters", "ok")


def _step(told: Forecast) -> Finding:
    run = told.settings.run
    rows = " and ".join(f"{pace.rows} rows of {pace.seq_len} in {pace.seconds:.3g} s" for pace in told.paces)
    kind = "made-up rows; a corpus (SHARDS) gives its own" if told.corpus_tokens is None else "rows of the corpus"
    found = f"{rows}, {run.precision}, {counted(run.threads or 1, 'thread')}"
    return Finding("a step", found, "ok", f"median of {sum(pace.steps for pace in told.paces)} real steps on {kind}")


def _needed_memory(told: Forecast) -> Finding:
    states = f"{size(told.state_bytes)} of weights, gradients and AdamW's moments"
    if told.peak_bytes is None:
        return Finding("memory", f"{states}; with activations: {NOT_TOLD}", "not told")
    return Finding("memory", f"{states}; {size(told.peak_bytes)} in use at most", "ok", "measured: it fitted")


def _needed_disk(told: Forecast, out: Path) -> Finding:
    kept = told.settings.run.keep_checkpoints
    # A new checkpoint and a new bundle are whole before the old ones go.
    needed = (kept + 1) * told.checkpoint_bytes + 2 * 4 * told.parameters
    free = free_disk(out)
    found = f"{size(needed)} at most: {kept} checkpoints of {size(told.checkpoint_bytes)}, the bundle"
    if needed > free:
        return Finding("disk", found, "note", f"more than the {size(free)} free at {out.absolute()}")
    return Finding("disk", found, "ok", f"{size(free)} free at {out.absolute()}")


def _length(told: Forecast) -> Finding:
    run = told.settings.run
    if run.steps is not None:
        steps = float(run.steps)
        found = f"{run.steps:,} steps take about {duration(told.seconds_for(run.steps))}"
    elif run.minutes is not None:
        steps = told.steps_in(60.0 * run.minutes)
        found = f"{duration(60.0 * run.minutes)} are about {steps:,.0f} steps"
    else:
        whole = told.epochs(1.0)
        hour = f"an hour is about {told.steps_in(3600.0):,.0f} steps"
        once = "" if whole is None else f", once through the corpus about {duration(told.seconds_for(1) / whole)}"
        return Finding("time", hour + once, "ok", "--steps or --minutes say how long")
    epochs = told.epochs(steps)
    through = "" if epochs is None else f", {epochs:.2g} times through the corpus"
    return Finding("time", found + through, "ok", "steps alone; held-out scores and saving come on top")
