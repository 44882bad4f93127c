"""From a corpus to a trained bundle: sets a run up or takes it up again, trains, saves."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch

import anaume.data.shards as shards
from anaume.bundle import Bundle
from anaume.bundle.record import TrainingStage
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.data import atomic_file
from anaume.data.stream import Position, RowStream, SpecialIds
from anaume.engines import has_bfloat16, pick_device
from anaume.errors import SettingsError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.tokenization import Tokenizer
from anaume.training.clock import Clock, Replay, StepClock, WallClock
from anaume.training.evaluation import Evaluator
from anaume.training.loop import Run, train
from anaume.training.objective import PAIR_HEAD, TOKEN_HEAD, PretrainLoss
from anaume.training.optimizer import build_optimizer
from anaume.training.ranks import joined
from anaume.training.records import read_lines
from anaume.training.settings import PretrainSettings
from anaume.training.state import Progress, checkpoints, load_checkpoint

log = get_logger(__name__)

SETTINGS, SOURCE, BUNDLE = "settings.toml", "run.json", "bundle"


@dataclass(frozen=True)
class PretrainResult:
    """How a run ended."""

    folder: Path
    finished: bool
    """False: it was asked to stop, saved, and goes on when the same call comes again."""
    steps: int
    seconds: float
    tokens: int
    skipped: int
    scores: dict[str, float]
    """Of the last evaluation; empty without held-out text."""


def pretrain(
    corpus: str | Path,
    out: str | Path,
    settings: PretrainSettings,
    *,
    bundle: Bundle | None = None,
    device: str = "auto",
    replay: str | Path | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> PretrainResult:
    """Train an encoder on a prepared corpus; `out`/bundle is the result.

    corpus    a folder that `prepare_corpus` made
    out       the run's folder; where it holds a run of the same settings, that run goes on
    bundle    continue from its weights (its tokenizer must be the corpus's); None = freshly drawn ones
    replay    the journal.jsonl of a timed run: the same run again, by its journal instead of the clock
    report    gets each row of metrics.jsonl

    Raises SettingsError for settings that don't fit or differ from the run's in `out` (naming each), DataError for a
    corpus that can't be used or a full disk (the last checkpoint is then intact).
    """
    folder = Path(out)
    target = pick_device(device)
    opened = shards.open_corpus(corpus)
    tokenizer = Tokenizer.from_directory(opened.tokenizer_directory) if bundle is None else bundle.tokenizer
    if tokenizer.fingerprint != opened.tokenizer_fingerprint:
        raise SettingsError(
            f"the bundle's tokenizer ({tokenizer.fingerprint[:12]}) is not the one the corpus was made with "
            f"({opened.tokenizer_fingerprint[:12]}): prepare the corpus with --bundle, or train without one"
        )
    if settings.run.steps is None and settings.run.minutes is None:
        raise SettingsError("how long? give run.steps or run.minutes")
    source = {"corpus": _corpus_hash(opened), "bundle": None if bundle is None else bundle.fingerprint}
    with joined(target) as ranks:
        settings = _resolved(settings, target)
        if ranks.first:
            _open_folder(folder, settings, source)
        torch.set_num_threads(settings.run.threads or torch.get_num_threads())
        model = _model(settings, tokenizer, bundle).to(target)
        optimizer = build_optimizer(model, settings.optimizer)
        torch.manual_seed(settings.run.seed + ranks.rank)  # dropout: ranks must not draw alike
        saved = checkpoints(folder / "checkpoints")
        progress = load_checkpoint(saved[-1], model, optimizer, target) if saved else Progress()
        split = opened.split("train")
        specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)

        def stream(of: shards.CorpusSplit, seq_len: int, seed: int, position: Position) -> RowStream:
            pairing = settings.data.pairing
            return RowStream(of, specials, seq_len=seq_len, pairing=pairing, seed=seed, position=position)

        data, start = settings.data, Position()
        with _stop_signals() as asked:
            run = Run(
                settings=settings,
                folder=folder,
                model=model,
                loss=ranks.wrap(PretrainLoss(model)),
                optimizer=optimizer,
                stream=stream(split, data.seq_len, settings.run.seed, start if progress.long else progress.position),
                long_stream=None
                if data.long_seq_len is None
                else stream(split, data.long_seq_len, settings.run.seed, progress.position if progress.long else start),
                evaluator=_evaluator(opened, settings, stream, tokenizer, target),
                clock=_clock(settings, progress, replay),
                progress=progress,
                device=target,
                dtype=torch.bfloat16 if settings.run.precision == "bfloat16" else torch.float32,
                ranks=ranks,
                mask_id=tokenizer.mask_id,
                stop_asked=asked,
                report=report or (lambda row: None),
            )
            if settings.run.compile:
                run.loss = torch.compile(run.loss)  # type: ignore[assignment]
            finished = train(run)
        scores = _last_scores(folder) if ranks.first else {}
        if ranks.first:
            _save_bundle(run, tokenizer, bundle, opened, scores)
        return PretrainResult(
            folder, finished, progress.step, progress.seconds, progress.tokens, progress.skipped, scores
        )


def _resolved(settings: PretrainSettings, device: torch.device) -> PretrainSettings:
    """Write down what depends on the machine, so that a resume never asks the machine again."""
    precision = settings.run.precision
    if precision == "auto":
        precision = "bfloat16" if has_bfloat16(device) else "float32"
    threads = settings.run.threads or torch.get_num_threads()
    run = settings.run.model_copy(update={"precision": precision, "threads": threads})
    return settings.model_copy(update={"run": run})


def _open_folder(folder: Path, settings: PretrainSettings, source: dict[str, Any]) -> None:
    """Make the run's folder, or check that it holds this very run."""
    told = folder / SETTINGS
    if told.exists():
        differences = settings.differences(PretrainSettings.read(told))
        there = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
        differences += [
            f"{name}: {source[name]}, there {there.get(name)}" for name in source if source[name] != there.get(name)
        ]
        if differences:
            raise SettingsError(
                f"{folder} holds a run with other settings: {'; '.join(differences)}. Give the same ones to go on, or "
                "another folder"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder} is not empty and holds no run ({SETTINGS}): give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / SOURCE) as file:
        file.write((json.dumps(source, indent=1) + "\n").encode())
    with atomic_file(folder / SETTINGS) as file:  # last: with it the folder is a run
        file.write(settings.to_toml().encode())


def _model(settings: PretrainSettings, tokenizer: Tokenizer, bundle: Bundle | None) -> Bert:
    heads = {TOKEN_HEAD: HeadConfig(kind="mlm")}
    if settings.data.pairing != "none":
        heads[PAIR_HEAD] = HeadConfig(kind="nsp")
    longest = max(settings.data.seq_len, settings.data.long_seq_len or 0)
    if bundle is not None:
        missing = [name for name in heads if name not in bundle.model.heads]
        if missing:
            raise SettingsError(
                f"the bundle has no head called {', '.join(missing)}, and training needs it: ask for a new one with "
                "--new-heads"
            )
        if longest > bundle.config.max_position_embeddings:
            raise SettingsError(f"rows of {longest} tokens; the bundle takes {bundle.config.max_position_embeddings}")
        return bundle.model
    chosen = settings.model
    common: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "max_position_embeddings": max(chosen.max_position_embeddings, longest),
        "hidden_dropout": chosen.dropout,
        "attention_dropout": chosen.dropout,
        "causal": chosen.causal,
        "num_attention_heads": chosen.num_attention_heads or 0,
        "intermediate_size": chosen.intermediate_size or 0,
    }
    if chosen.size == "custom":
        if chosen.hidden_size is None or chosen.num_hidden_layers is None:
            raise SettingsError('model.size = "custom" needs model.hidden_size and model.num_hidden_layers')
        config = EncoderConfig(hidden_size=chosen.hidden_size, num_hidden_layers=chosen.num_hidden_layers, **common)
    else:
        if chosen.hidden_size is not None or chosen.num_hidden_layers is not None:
            raise SettingsError('model.hidden_size and model.num_hidden_layers go with model.size = "custom"')
        config = EncoderConfig.named(chosen.size, **common)
    model = Bert(config, heads, seed=settings.run.seed)
    model.encoder.gradient_checkpointing = settings.run.gradient_checkpointing
    return model


def _evaluator(
    corpus: shards.Corpus,
    settings: PretrainSettings,
    stream: Callable[[shards.CorpusSplit, int, int, Position], RowStream],
    tokenizer: Tokenizer,
    device: torch.device,
) -> Evaluator | None:
    held_out = corpus.split("held-out")
    needed = 2 if settings.data.pairing == "nsp" else 1
    if held_out.documents < needed or settings.run.evaluations == 0:
        return None
    rows = stream(held_out, settings.data.seq_len, 0, Position())  # seed 0: the same rows whatever the run's seed
    return Evaluator(rows, settings, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size, device=device)


def _clock(settings: PretrainSettings, progress: Progress, replay: str | Path | None) -> Clock:
    if replay is not None:
        return Replay([row["fraction"] for row in read_lines(Path(replay))])
    if settings.run.steps is not None:
        return StepClock(settings.run.steps)
    assert settings.run.minutes is not None
    return WallClock(60.0 * settings.run.minutes, progress.seconds)


def _last_scores(folder: Path) -> dict[str, float]:
    rows = [row for row in read_lines(folder / "metrics.jsonl") if "held_out_loss" in row]
    return {key: value for key, value in rows[-1].items() if key.startswith("held_out")} if rows else {}


def _save_bundle(
    run: Run, tokenizer: Tokenizer, start: Bundle | None, corpus: shards.Corpus, scores: dict[str, float]
) -> None:
    import dataclasses

    from anaume import __version__
    from anaume.bundle.parts import BundleParts
    from anaume.bundle.record import TrainingRecord

    settings = run.settings
    objectives = ["clm" if settings.objective.target == "next" else "mlm"]
    if settings.data.pairing != "none":
        objectives.append(settings.data.pairing)
    stage = TrainingStage(
        objectives=tuple(objectives),
        data=tuple(corpus.record.get("sources", ())),
        settings={**settings.model_dump(exclude_none=True), "steps_done": run.progress.step},
        scores=scores,
        versions={"anaume": __version__, "torch": str(torch.__version__), "tokenizers": tokenizers.__version__},
    )
    if start is None:
        embedding = EmbeddingConfig(max_length=run.model.config.max_position_embeddings)
        record = TrainingRecord().then(stage)
        parts = BundleParts(tokenizer=tokenizer, model=run.model.cpu(), embedding=embedding, record=record)
    else:
        parts = dataclasses.replace(start.parts, model=run.model.cpu(), record=start.parts.record.then(stage))
    Bundle(parts, device="cpu").save(run.folder / BUNDLE)


def _corpus_hash(corpus: shards.Corpus) -> str:
    import hashlib

    text = json.dumps(corpus.record, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and SIGTERM into a question the loop asks between steps; a second one ends at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def stop(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
