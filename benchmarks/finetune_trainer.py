"""The peer of the fine-tuning benchmark: transformers' Trainer on the same rows, with the same hyperparameters.

As its users set it up: batches padded to their longest row by the collators of transformers, fused AdamW, a linear
schedule with warm-up, an evaluation and a checkpoint each epoch, the best one by the dev score loaded at the end. Its
logits are decoded and scored by our task.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.data import atomic_file
from anaume.errors import SettingsError
from anaume.tasks.features import IGNORED, Features, Ragged
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.settings import FinetuneSettings
from benchmarks.hf_trainer import last_checkpoint, watched

_MODELS = {
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "multiple-choice": "AutoModelForMultipleChoice",
}
_COLLATORS = {"token-classification": "DataCollatorForTokenClassification",
              "multiple-choice": "DataCollatorForMultipleChoice"}  # fmt: skip
_TARGETS = {
    "labels": "labels",
    "values": "labels",
    "label": "labels",
    "start": "start_positions",
    "end": "end_positions",
}
_KNOWN = {
    "model": {"max_length"},
    "task": {"metric"},
    "optimizer": {"learning_rate", "beta1", "beta2", "eps", "weight_decay", "clip"},
    "schedule": {"warmup"},
    "run": {"epochs", "steps", "batch_rows", "precision", "seed", "threads", "keep_checkpoints", "evaluations",
            "log_seconds"},
}  # fmt: skip
"""Settings that mean the same to both; any other must be at its default."""
_WORST = -1e9  # of a score that is not defined: the Trainer compares numbers


@dataclass(frozen=True)
class Peer:
    """What the Trainer trains: rows of the task, and a directory with encoder, head and tokenizer to start from."""

    start: Path
    task: AnyTask
    """With the labels as they are: nothing is scaled."""
    features: Features
    dev_examples: Sequence[Any]
    dev_features: Features

    @property
    def kind(self) -> str:
        """The head's."""
        return self.task.kind


def learned(features: Features) -> list[int]:
    """Return the units that can be learned: transformers takes an ignored span for "no answer"."""
    start = features.targets.get("start")
    return [unit for unit in range(len(features)) if start is None or start[unit] != IGNORED]


def train(
    peer: Peer, folder: Path, settings: FinetuneSettings, *, each_step: Callable[[int], None] | None = None
) -> dict[str, Any] | None:
    """Train, or go on training; return steps, seconds, best_step, curve, losses and logits; None if asked to stop.

    settings   its length is run.epochs, with an evaluation each, or run.steps without any
    each_step  is told each step that is done

    The logits are of the best model on the dev rows, in float32. Raises SettingsError for settings it has no like of.
    """
    _check(settings)
    transformers = _transformers()
    finished = folder / "finished.json"
    if not finished.exists():
        watch = watched(transformers, folder / "seconds.json", each_step)
        trainer = build(peer, folder, settings, callbacks=[watch])
        with watch.signals():
            trainer.train(resume_from_checkpoint=last_checkpoint(folder / "checkpoints"))
        if trainer.state.global_step < trainer.state.max_steps:
            return None
        told = {"steps": trainer.state.global_step, "seconds": watch.seconds, **_told(trainer)}
        trainer.save_model(folder / "model")
        with atomic_file(finished) as file:
            file.write(json.dumps(told).encode())
    model = getattr(transformers, _MODELS[peer.kind]).from_pretrained(folder / "model")
    return {**json.loads(finished.read_text(encoding="utf-8")), "logits": _logits(peer, model)}


def build(peer: Peer, folder: Path, settings: FinetuneSettings, *, callbacks: Sequence[Any] = ()) -> Any:
    """Return a Trainer that is ready to train or evaluate."""
    transformers = _transformers()
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(settings.run.threads or torch.get_num_threads())
    torch.manual_seed(settings.run.seed)
    units = learned(peer.features)
    trainer = transformers.Trainer(
        model=getattr(transformers, _MODELS[peer.kind]).from_pretrained(peer.start),
        args=_arguments(transformers, folder / "checkpoints", settings, len(units)),
        train_dataset=Rows(peer.features, units),
        eval_dataset=Rows(peer.dev_features),
        data_collator=_collator(transformers, peer),
        compute_metrics=lambda given: {"main": _main(peer, given.predictions)},
        callbacks=list(callbacks),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """Units, all unless said, as a collator of transformers takes them."""

    def __init__(self, features: Features, units: Sequence[int] | None = None) -> None:
        self._features, self._units = features, range(len(features)) if units is None else units

    def __len__(self) -> int:
        return len(self._units)

    def __getitem__(self, index: int) -> dict[str, Any]:
        features, unit = self._features, self._units[index]
        rows, _ = features.rows_of([unit])
        item: dict[str, Any] = {
            "input_ids": [features.token_ids[row].tolist() for row in rows],
            "token_type_ids": [features.segment_ids[row].tolist() for row in rows],
            "attention_mask": [[1] * len(features.token_ids[row]) for row in rows],
        }
        if "label" not in features.targets:  # multiple choice has a list of rows, the others have a row
            item = {name: own[0] for name, own in item.items()}
        for name, target in features.targets.items():
            value = target[rows[0]] if isinstance(target, Ragged) else target[unit]
            item[_TARGETS.get(name, "labels")] = value.tolist()
        return item


def _check(settings: FinetuneSettings) -> None:
    default = FinetuneSettings().model_dump()
    for section, values in settings.model_dump().items():
        for key, value in values.items():
            if value != default[section][key] and key not in _KNOWN.get(section, ()):
                raise SettingsError(f"the Trainer has no {section}.{key}; got {value!r}: leave it at its default")
    if settings.run.epochs is not None and settings.run.epochs != settings.run.evaluations:
        raise SettingsError("the Trainer evaluates once an epoch: run.evaluations is run.epochs")


def _arguments(transformers: Any, folder: Path, settings: FinetuneSettings, units: int) -> Any:
    run, optimizer = settings.run, settings.optimizer
    assert run.batch_rows is not None
    if run.epochs is not None:
        steps = round(run.epochs) * -(-units // run.batch_rows)
        length: dict[str, Any] = {
            "num_train_epochs": run.epochs,
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "load_best_model_at_end": True,
            "metric_for_best_model": "main",
            "greater_is_better": True,
        }
    else:
        assert run.steps is not None
        steps = run.steps
        length = {"max_steps": steps, "save_strategy": "no"}
    return transformers.TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=run.batch_rows,
        per_device_eval_batch_size=run.batch_rows,
        learning_rate=optimizer.learning_rate,
        adam_beta1=optimizer.beta1,
        adam_beta2=optimizer.beta2,
        adam_epsilon=optimizer.eps,
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.clip,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.schedule.warmup * steps),
        bf16=run.precision == "bfloat16",
        seed=run.seed,
        logging_steps=max(1, steps // 20),
        save_total_limit=run.keep_checkpoints,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
        **length,
    )


def _collator(transformers: Any, peer: Peer) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(peer.start)
    return getattr(transformers, _COLLATORS.get(peer.kind, "DataCollatorWithPadding"))(tokenizer)


def _told(trainer: Any) -> dict[str, Any]:
    """Return the best step, the dev score at each evaluation, and the mean training loss between log entries."""
    history, state = trainer.state.log_history, trainer.state
    curve = [{"step": row["step"], "main": row["eval_main"]} for row in history if "eval_main" in row]
    losses = [{"step": row["step"], "loss": row["loss"]} for row in history if "loss" in row]
    return {"best_step": state.best_global_step, "curve": curve, "losses": losses}


def _main(peer: Peer, predictions: Any) -> float:
    logits = row_logits(predictions, peer.dev_features.token_ids.lengths)
    answers = peer.task.decode(logits, peer.dev_features, peer.dev_examples)
    score = peer.task.score(answers, peer.dev_examples)[peer.task.main]
    return _WORST if score is None else float(score)


def row_logits(outputs: Any, lengths: Sequence[int] | NDArray[np.int64]) -> list[NDArray[np.float32]]:
    """Return what a model of transformers says of each row, as `Task.decode` takes it.

    outputs  (rows, labels); (rows, seq_len, labels); a pair of (rows, seq_len); or (questions, options)
    """
    if isinstance(outputs, tuple):
        outputs = np.stack(outputs, axis=-1)
    values = np.asarray(outputs, dtype=np.float32)
    if values.ndim == 3:
        return [own[:length] for own, length in zip(values, lengths, strict=True)]
    return list(values) if len(values) == len(lengths) else list(values.reshape(-1))


def _logits(peer: Peer, model: Any) -> list[NDArray[np.float32]]:
    rows = Rows(peer.dev_features)
    collate = _collator(_transformers(), peer)
    lengths, found = peer.dev_features.token_ids.lengths, list[NDArray[np.float32]]()
    model.eval()
    with torch.no_grad():
        for batch in torch.utils.data.DataLoader(rows, batch_size=32, collate_fn=collate):
            said = model(**batch)
            spans = (said.start_logits, said.end_logits) if peer.kind == "span" else None
            outputs = said.logits.numpy() if spans is None else tuple(one.numpy() for one in spans)
            count = int(batch["input_ids"].shape[:-1].numel())
            found += row_logits(outputs, lengths[len(found) : len(found) + count])
    return found


def seconds_a_step(peer: Peer, folder: Path, settings: FinetuneSettings, *, leave_out: int) -> float:
    """Train run.steps steps and return the mean seconds of one, the first ones left out."""
    ends: list[float] = []
    if train(peer, folder, settings, each_step=lambda step: ends.append(time.perf_counter())) is None:
        raise KeyboardInterrupt  # it was asked for, and what trains made an orderly end of it
    return (ends[-1] - ends[leave_out - 1]) / (len(ends) - leave_out)


def _transformers() -> Any:
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers
