"""From a corpus to a trained bundle: sets a run up or takes it up again, trains, saves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.data.corpus import Corpus, open_corpus
from anaume.engines import pick_device
from anaume.errors import DataError, SettingsError
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer
from anaume.training.agreement import require_one_run, require_one_step, require_rows
from anaume.training.clock import Clock, Replay, StepClock, Stopwatch, WallClock
from anaume.training.folder import SETTINGS, begin_folder, check_folder, locked, read_source
from anaume.training.loop import Run, train
from anaume.training.optimizer import build_optimizer
from anaume.training.pretraining.ceiling import Beginning
from anaume.training.pretraining.corpus_work import build_work
from anaume.training.pretraining.curves import CurvesFile
from anaume.training.pretraining.measuring import settle
from anaume.training.pretraining.progress import Landmarks
from anaume.training.pretraining.result import PretrainResult, read_result, stored_settings, write_result
from anaume.training.pretraining.saving import result_of, save_bundle
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import (
    build_model,
    compiling,
    inform,
    is_open,
    resolve,
)
from anaume.training.pretraining.trial_text import TrialText
from anaume.training.ranks import Ranks, joined
from anaume.training.records import Records, read_journal
from anaume.training.state import CHECKPOINTS, Progress, checkpoints, load_checkpoint
from anaume.training.surroundings import computing, stop_signals
from anaume.training.tensorboard import EventsFile, require_tensorboard

log = get_logger(__name__)


def pretrain(
    corpus: str | Path,
    out: str | Path,
    settings: PretrainSettings,
    *,
    bundle: Bundle | None = None,
    new_heads: bool = False,
    device: str = "auto",
    replay: str | Path | None = None,
    begins: Callable[[Beginning], None] | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> PretrainResult:
    """Train an encoder on a prepared corpus; `out`/bundle is the result.

    corpus     a folder that `prepare_corpus` made
    out        the run's folder; where it holds a run of the same settings, that run goes on
    bundle     continue from its weights (its tokenizer must be the corpus's); None = freshly drawn ones. It is not
               changed
    new_heads  draw heads the run needs and the bundle has not
    replay     the journal.jsonl of a timed run: the same run again, by its journal instead of the clock; run.minutes
               may be given as it was, run.steps may not
    begins     gets what the run is, before its clock starts
    report     gets each row of metrics.jsonl

    Ctrl-C and SIGTERM end the run after the step it is at, saved (`finished` is then False). Under torchrun all
    processes train one run.

    Raises SettingsError for settings that don't fit or differ from the run's in `out` (naming each), MissingExtra for
    run.tensorboard without tensorboard, DataError for a corpus that can't be used, a loss that is not finite or a full
    disk (the last checkpoint is then intact).
    """
    _require_types(settings, bundle)
    folder, opened = Path(out), open_corpus(corpus)
    tokenizer = _tokenizer_of(opened, bundle)
    if settings.run.tensorboard:
        require_tensorboard()
    fractions = None if replay is None else read_journal(Path(replay))
    _require_length(settings, fractions)
    with joined(pick_device(device)) as (ranks, target):
        stored = stored_settings(folder)
        again = stored_settings(Path(replay).parent) if stored is None and replay is not None else None
        settings = resolve(settings, target, bundle, stored or again)
        source = _source(opened, bundle, new_heads, fractions, ranks, target)
        require_one_run(folder, settings, source, ranks, target)
        check_folder(folder, settings, source)
        already = read_result(folder)
        if already is not None:
            return already
        source["proposal"] = read_source(folder).get("proposal") if stored else None
        if is_open(settings, bundle):
            _require_no_replay(fractions)
            text = TrialText.of_corpus(opened, tokenizer)
            settings, proposal = settle(settings, text, target, ranks, bundle=bundle, new_heads=new_heads)
            source["proposal"] = None if proposal is None else proposal.record()
        require_rows(settings.run, ranks)
        with computing(settings, target), stop_signals() as asked:
            # Everything that may be refused comes before the folder is made.
            model = build_model(settings, tokenizer.vocab_size, bundle, new_heads=new_heads)
            if bundle is None and settings.model.start == "informed":
                inform(model, opened.split("train"))
            model = model.to(target)
            optimizer = build_optimizer(model, settings.optimizer)
            work = build_work(settings, model, opened, tokenizer, ranks, target, evaluate_first=bundle is not None)
            ranks.wait()  # all have looked at the folder before the first one writes
            with _first_alone(folder, settings, source, ranks):
                saved = checkpoints(folder / CHECKPOINTS)
                progress = load_checkpoint(saved[-1], model, optimizer, target) if saved else _beginning(source)
                require_one_step(progress, ranks, target)
                work.take_up(progress)
                after = progress.step if saved else None
                if stored is not None and ranks.first:
                    _tell_where_it_goes_on(folder, after)
                if begins is not None and ranks.first:
                    begins(Beginning(settings, model.config, target, ranks.world))
                picture = CurvesFile(folder) if settings.run.curves else None
                stopwatch = Stopwatch(progress.seconds)
                with _recording(folder, settings, progress, after, ranks, [report, picture]) as records:
                    run = Run(
                        settings=settings,
                        folder=folder,
                        model=model,
                        work=work,
                        optimizer=optimizer,
                        clock=_clock(settings, stopwatch, fractions),
                        stopwatch=stopwatch,
                        progress=progress,
                        records=records,
                        device=target,
                        dtype=torch.bfloat16 if settings.run.precision == "bfloat16" else torch.float32,
                        ranks=ranks,
                        stop_asked=asked,
                    )
                    with compiling(settings):
                        train(run)
                result = result_of(run)
                if ranks.first:
                    save_bundle(run, settings, tokenizer, bundle, opened, result)
                    if picture is not None:
                        picture.draw()
                    if result.finished:
                        write_result(result)
                return result


def _require_types(settings: PretrainSettings, bundle: Bundle | None) -> None:
    if not isinstance(settings, PretrainSettings):
        raise SettingsError(
            f"settings must be PretrainSettings (from_dict makes them of a dict, read of a file); got "
            f"{type(settings).__name__}"
        )
    if bundle is not None and not isinstance(bundle, Bundle):
        raise SettingsError(f"expected a Bundle to go on from; got {bundle!r:.60}; anaume.load opens one")


def _tokenizer_of(corpus: Corpus, bundle: Bundle | None) -> Tokenizer:
    """Return the tokenizer the corpus was made with, which must be that of a bundle to go on from."""
    if bundle is None:
        own = Tokenizer.from_directory(corpus.tokenizer_directory)
        if own.fingerprint != corpus.tokenizer_fingerprint:
            raise DataError(
                f"{corpus.tokenizer_directory}: is not the tokenizer the corpus was made with ({own.fingerprint[:12]}, "
                f"not {corpus.tokenizer_fingerprint[:12]}): its tokens would mean something else; make the corpus again"
            )
        return own
    if bundle.tokenizer.fingerprint != corpus.tokenizer_fingerprint:
        raise SettingsError(
            f"the bundle's tokenizer ({bundle.tokenizer.fingerprint[:12]}) is not the one the corpus was made with "
            f"({corpus.tokenizer_fingerprint[:12]}): prepare the corpus with --bundle, or train without one"
        )
    return bundle.tokenizer


def _require_length(settings: PretrainSettings, fractions: list[float] | None) -> None:
    if settings.run.steps is not None and fractions is not None:
        raise SettingsError("a replay takes its journal's steps: leave run.steps (--steps) out")
    if settings.run.steps is None and settings.run.minutes is None and fractions is None:
        raise SettingsError("how long? give run.steps or run.minutes (--steps, --minutes)")


def _require_no_replay(fractions: list[float] | None) -> None:
    if fractions is not None:
        raise SettingsError(
            "a replay measures nothing: give model.size and run.batch_rows as its run had them, or leave the journal "
            f"in its run's folder, beside {SETTINGS}"
        )


def _source(
    corpus: Corpus,
    bundle: Bundle | None,
    new_heads: bool,
    fractions: list[float] | None,
    ranks: Ranks,
    device: torch.device,
) -> dict[str, Any]:
    """Return what a run is made of beside its settings, as run.json says it."""
    return {
        "corpus": _corpus_hash(corpus),
        "bundle": None if bundle is None else bundle.fingerprint,
        "new_heads": new_heads,
        "replay": None if fractions is None else hashlib.sha256(repr(fractions).encode()).hexdigest()[:16],
        "ranks": ranks.world,
        "device": device.type,
        "corpus_path": str(corpus.path.absolute()),
        "bundle_path": None if bundle is None or not bundle.parts.source else bundle.parts.source,
        "landmarks": asdict(Landmarks.of_corpus(corpus)),
    }


@contextmanager
def _recording(
    folder: Path,
    settings: PretrainSettings,
    progress: Progress,
    after: int | None,
    ranks: Ranks,
    reports: Sequence[Callable[[dict[str, Any]], None] | None],
) -> Iterator[Records]:
    """Open what the rows of a run go to: its files, TensorBoard, and whoever asked for them.

    after  the step it goes on after; None = from the beginning
    """
    events = None
    if settings.run.tensorboard and ranks.first:
        events = EventsFile(folder, after)
    with (
        events or nullcontext(),
        Records(
            folder if ranks.first else None,
            metrics_size=progress.metrics_size,
            journal_size=progress.journal_size,
            timed=settings.run.steps is None,
            reports=[each for each in (*reports, events) if each is not None],
        ) as records,
    ):
        yield records


def _beginning(source: dict[str, Any]) -> Progress:
    """Return the progress of a run without a checkpoint: what choosing its size and batch took is spent."""
    proposal = source["proposal"]
    return Progress() if proposal is None else Progress(seconds=float(proposal["seconds"]))


def _tell_where_it_goes_on(folder: Path, step: int | None) -> None:
    if step is None:
        log.info("%s was stopped before its first checkpoint: it begins again", folder)
    else:
        log.info("%s goes on after step %s, where it was saved last", folder, f"{step:,}")


def _clock(settings: PretrainSettings, stopwatch: Stopwatch, fractions: list[float] | None) -> Clock:
    if fractions is not None:
        return Replay(fractions)
    if settings.run.steps is not None:
        return StepClock(settings.run.steps)
    assert settings.run.minutes is not None
    return WallClock(60.0 * settings.run.minutes, stopwatch)


def _corpus_hash(corpus: Corpus) -> str:
    """Return a hash of the token IDs, wherever the corpus lies."""
    shards = [(shard["split"], shard["sha256"]) for shard in corpus.record["shards"]]
    return hashlib.sha256(json.dumps([corpus.tokenizer_fingerprint, shards]).encode()).hexdigest()[:16]


@contextmanager
def _first_alone(folder: Path, settings: PretrainSettings, source: dict[str, Any], ranks: Ranks) -> Iterator[None]:
    """Let the first rank make the folder and keep other runs out of it."""
    if not ranks.first:
        yield
        return
    begin_folder(folder, settings, source)
    with locked(folder):
        yield
