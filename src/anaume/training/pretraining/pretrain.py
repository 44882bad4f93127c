"""From a corpus to a trained bundle: sets a run up or takes it up again, trains, saves."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch

from anaume import __version__
from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts
from anaume.bundle.record import TrainingRecord, TrainingStage
from anaume.config import EmbeddingConfig
from anaume.data.corpus import Corpus, CorpusSplit, open_corpus
from anaume.data.corpus.stream import SpecialIds
from anaume.engines import pick_device
from anaume.errors import AnaumeWarning, SettingsError
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer
from anaume.training.agreement import require_one_run, require_one_step
from anaume.training.clock import Clock, Replay, StepClock, Stopwatch, WallClock
from anaume.training.folder import BUNDLE, SETTINGS, begin_folder, check_folder, locked, read_source
from anaume.training.loop import Run, train
from anaume.training.optimizer import build_optimizer
from anaume.training.pretraining.ceiling import Beginning
from anaume.training.pretraining.corpus_work import CorpusWork
from anaume.training.pretraining.curves import CurvesFile
from anaume.training.pretraining.evaluation import Evaluator
from anaume.training.pretraining.measuring import settle
from anaume.training.pretraining.progress import Landmarks
from anaume.training.pretraining.result import PretrainResult, read_result, stored_settings, write_result
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import (
    build_loss,
    build_model,
    build_stream,
    compiling,
    inform,
    is_open,
    longest_row,
    resolve,
)
from anaume.training.pretraining.trial_text import TrialText
from anaume.training.ranks import Ranks, joined
from anaume.training.records import METRICS, Records, read_journal, read_lines
from anaume.training.state import CHECKPOINTS, Progress, checkpoints, load_checkpoint
from anaume.training.surroundings import computing, stop_signals
from anaume.training.tensorboard import EventsFile, require_tensorboard

log = get_logger(__name__)

_MANY_ALONE = 0.5  # of the documents; below, true pairs make up for the forced random ones


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
    if not isinstance(settings, PretrainSettings):
        raise SettingsError(
            f"settings must be PretrainSettings (from_dict makes them of a dict, read of a file); got "
            f"{type(settings).__name__}"
        )
    if bundle is not None and not isinstance(bundle, Bundle):
        raise SettingsError(f"expected a Bundle to go on from; got {bundle!r:.60}; anaume.load opens one")
    folder = Path(out)
    opened = open_corpus(corpus)
    tokenizer = Tokenizer.from_directory(opened.tokenizer_directory) if bundle is None else bundle.tokenizer
    if tokenizer.fingerprint != opened.tokenizer_fingerprint:
        raise SettingsError(
            f"the bundle's tokenizer ({tokenizer.fingerprint[:12]}) is not the one the corpus was made with "
            f"({opened.tokenizer_fingerprint[:12]}): prepare the corpus with --bundle, or train without one"
        )
    if settings.run.tensorboard:
        require_tensorboard()
    fractions = None if replay is None else read_journal(Path(replay))
    if settings.run.steps is not None and fractions is not None:
        raise SettingsError("a replay takes its journal's steps: leave run.steps (--steps) out")
    if settings.run.steps is None and settings.run.minutes is None and fractions is None:
        raise SettingsError("how long? give run.steps or run.minutes (--steps, --minutes)")
    with joined(pick_device(device)) as (ranks, target):
        stored = stored_settings(folder)
        again = stored_settings(Path(replay).parent) if stored is None and replay is not None else None
        settings = resolve(settings, target, bundle, stored or again)
        source: dict[str, Any] = {
            "corpus": _corpus_hash(opened),
            "bundle": None if bundle is None else bundle.fingerprint,
            "new_heads": new_heads,
            "replay": None if fractions is None else hashlib.sha256(repr(fractions).encode()).hexdigest()[:16],
            "ranks": ranks.world,
            "device": target.type,
            "corpus_path": str(Path(corpus).absolute()),
            "bundle_path": None if bundle is None or not bundle.parts.source else bundle.parts.source,
            "landmarks": asdict(Landmarks.of_corpus(opened)),
        }
        require_one_run(folder, settings, source, ranks, target)
        check_folder(folder, settings, source)
        already = read_result(folder)
        if already is not None:
            return already
        source["proposal"] = read_source(folder).get("proposal") if stored else None
        if is_open(settings, bundle):
            if fractions is not None:
                raise SettingsError(
                    "a replay measures nothing: give model.size and run.batch_rows as its run had them, or leave the "
                    f"journal in its run's folder, beside {SETTINGS}"
                )
            text = TrialText.of_corpus(opened, tokenizer)
            settings, proposal = settle(settings, text, target, ranks, bundle=bundle, new_heads=new_heads)
            source["proposal"] = None if proposal is None else proposal.record()
        assert settings.run.batch_rows is not None
        if settings.run.batch_rows < ranks.world:
            raise SettingsError(f"run.batch_rows is {settings.run.batch_rows}, fewer than the {ranks.world} processes")
        with computing(settings, target), stop_signals() as asked:
            # Everything that may be refused comes before the folder is made.
            model = build_model(settings, tokenizer.vocab_size, bundle, new_heads=new_heads)
            if bundle is None and settings.model.start == "informed":
                inform(model, opened.split("train"))
            model = model.to(target)
            optimizer = build_optimizer(model, settings.optimizer)
            data, seed = settings.data, settings.run.seed
            split, specials = opened.split("train"), _specials(tokenizer)
            if data.pairing == "nsp" and ranks.first:
                _warn_of_lone_sentences(split)
            stream = build_stream(split, specials, settings, data.seq_len, seed)
            long_stream = None
            if data.long_seq_len is not None:
                long_stream = build_stream(split, specials, settings, data.long_seq_len, seed)
            evaluator = _evaluator(opened.split("held-out"), tokenizer, settings, target) if ranks.first else None
            work = CorpusWork(
                settings=settings,
                loss=build_loss(model, settings, ranks),
                stream=stream,
                long_stream=long_stream,
                evaluator=evaluator,
                evaluate_first=bundle is not None,
                device=target,
                mask_id=tokenizer.mask_id,
                vocab_size=tokenizer.vocab_size,
            )
            ranks.wait()  # all have looked at the folder before the first one writes
            with _first_alone(folder, settings, source, ranks):
                saved = checkpoints(folder / CHECKPOINTS)
                progress = load_checkpoint(saved[-1], model, optimizer, target) if saved else _beginning(source)
                require_one_step(progress, ranks, target)
                work.take_up(progress)
                if stored is not None and ranks.first:
                    _tell_where_it_goes_on(folder, progress.step if saved else None)
                if begins is not None and ranks.first:
                    begins(Beginning(settings, model.config, target, ranks.world))
                picture = CurvesFile(folder) if settings.run.curves else None
                events = None
                if settings.run.tensorboard and ranks.first:
                    events = EventsFile(folder, progress.step if saved else None)
                stopwatch = Stopwatch(progress.seconds)
                with (
                    events or nullcontext(),
                    Records(
                        folder if ranks.first else None,
                        metrics_size=progress.metrics_size,
                        journal_size=progress.journal_size,
                        timed=settings.run.steps is None,
                        reports=[each for each in (report, picture, events) if each is not None],
                    ) as records,
                ):
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
                result = _result(run)
                if ranks.first:
                    _save_bundle(run, settings, tokenizer, bundle, opened, result)
                    if picture is not None:
                        picture.draw()
                    if result.finished:
                        write_result(result)
                return result


def _beginning(source: dict[str, Any]) -> Progress:
    """Return the progress of a run without a checkpoint: what choosing its size and batch took is spent."""
    proposal = source["proposal"]
    return Progress() if proposal is None else Progress(seconds=float(proposal["seconds"]))


def _specials(tokenizer: Tokenizer) -> SpecialIds:
    return SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)


def _tell_where_it_goes_on(folder: Path, step: int | None) -> None:
    if step is None:
        log.info("%s was stopped before its first checkpoint: it begins again", folder)
    else:
        log.info("%s goes on after step %s, where it was saved last", folder, f"{step:,}")


def _warn_of_lone_sentences(split: CorpusSplit) -> None:
    alone = sum(int((np.diff(shard.document_starts) == 1).sum()) for shard in split.shards)
    if alone > _MANY_ALONE * split.documents:
        warnings.warn(
            f"{alone / split.documents:.0%} of the documents have one sentence: nothing follows it, so most pairs are "
            "random and the labels are not half and half. Do blank lines between sentences end documents?",
            AnaumeWarning,
            stacklevel=3,
        )


def _evaluator(
    held_out: CorpusSplit, tokenizer: Tokenizer, settings: PretrainSettings, device: torch.device
) -> Evaluator | None:
    if settings.run.evaluations == 0:
        return None
    if held_out.documents < (2 if settings.data.pairing == "nsp" else 1):
        log.info(
            "held out are too few documents to measure a loss on (%d): only that of the training rows is told; prepare "
            "the corpus with a larger --held-out",
            held_out.documents,
        )
        return None
    # Seed 0: the same rows whatever the run's seed.
    rows = build_stream(held_out, _specials(tokenizer), settings, settings.data.seq_len, 0)
    return Evaluator(rows, settings, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size, device=device)


def _clock(settings: PretrainSettings, stopwatch: Stopwatch, fractions: list[float] | None) -> Clock:
    if fractions is not None:
        return Replay(fractions)
    if settings.run.steps is not None:
        return StepClock(settings.run.steps)
    assert settings.run.minutes is not None
    return WallClock(60.0 * settings.run.minutes, stopwatch)


def _result(run: Run) -> PretrainResult:
    progress, numbers = run.progress, []
    if run.ranks.first:
        rows = [row for row in read_lines(run.folder / METRICS) if "held_out_loss" in row]
        numbers = [{key: value for key, value in row.items() if key.startswith("held_out")} for row in rows]
    return PretrainResult(
        folder=run.folder,
        finished=progress.finished,
        steps=progress.step,
        seconds=progress.seconds,
        tokens=progress.tokens,
        skipped=progress.skipped,
        scores=numbers[-1] if numbers else {},
        scores_before=numbers[0] if run.work.evaluate_first and numbers else {},
    )


def _save_bundle(
    run: Run,
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    start: Bundle | None,
    corpus: Corpus,
    result: PretrainResult,
) -> None:
    objectives = ["clm" if settings.objective.target == "next" else "mlm"]
    if settings.data.pairing != "none":
        objectives.append(settings.data.pairing)
    sources = corpus.record["made_from"]["sources"]
    stage = TrainingStage(
        objectives=tuple(objectives),
        data=tuple({**source, "name": Path(str(source["name"])).name} for source in sources),
        settings={**settings.model_dump(exclude_none=True), "steps_done": result.steps, "finished": result.finished},
        scores=result.scores,
        versions={"anaume": __version__, "torch": str(torch.__version__), "tokenizers": tokenizers.__version__},
    )
    model = run.model.cpu().eval()
    if start is None:
        # Places beyond the longest row were never trained.
        embedding = EmbeddingConfig(max_length=longest_row(settings))
        parts = BundleParts(tokenizer=tokenizer, model=model, embedding=embedding, record=TrainingRecord().then(stage))
    else:
        embedding, longest = start.embedding, longest_row(settings)
        if embedding.pooling is None and longest > embedding.max_length:  # one of vectors keeps what they were made for
            embedding = replace(embedding, max_length=longest)
        parts = BundleParts(
            tokenizer=tokenizer,
            model=model,
            embedding=embedding,
            record=start.parts.record.then(stage),
            card=start.parts.card,
        )
    Bundle(parts, device="cpu").save(run.folder / BUNDLE)


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
