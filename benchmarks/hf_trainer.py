"""The peer of the pretraining studies: transformers' Trainer doing the same masked language modelling on the same rows.

Rows of the corpus's train split as our stream packs them, shuffled anew each epoch; the collator's 15 % masks; AdamW
(fused), a linear schedule with warm-up. It saves about once a minute and goes on from there, as our runs do.
"""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anaume.data import atomic_file
from anaume.data.corpus import open_corpus
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from anaume.training import PretrainSettings

SECONDS_BETWEEN_SAVES = 60.0
_LAST = 0.95  # the loss told is the mean over the run from here on
_KNOWN = {
    "model": {"size", "hidden_size", "num_hidden_layers", "dropout"},
    "data": {"seq_len"},
    "objective": {"mask_rate"},
    "optimizer": {"learning_rate", "beta1", "beta2", "eps", "weight_decay", "clip"},
    "schedule": {"warmup"},
    "run": {"steps", "batch_rows", "precision", "seed", "threads", "keep_checkpoints", "evaluations"},
}
"""Settings that mean the same to both (it never evaluates while it trains); any other must be at its default."""


def train(
    corpus: Path, folder: Path, settings: PretrainSettings, *, each_step: Callable[[int], None] | None = None
) -> dict[str, Any] | None:
    """Train, or go on training; return bundle, seconds and the mean loss of the last steps, None if stopped.

    each_step  is told each step that is done

    Raises SettingsError for settings the Trainer has no like of.
    """
    _check(settings)
    assert settings.run.steps is not None
    out, finished = folder / "bundle", folder / "finished.json"
    if not finished.exists():
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = Tokenizer.from_directory(open_corpus(corpus).tokenizer_directory)
        tokenizer.save(folder / "tokenizer")
        transformers = importlib.import_module("transformers")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(settings.run.threads or torch.get_num_threads())
        torch.manual_seed(settings.run.seed)
        watch = watched(transformers, folder / "seconds.json", each_step)
        trainer = transformers.Trainer(
            model=transformers.BertForMaskedLM(_config(transformers, tokenizer, settings)),
            args=_arguments(transformers, folder / "checkpoints", settings),
            train_dataset=_Rows(corpus, tokenizer, settings),
            data_collator=transformers.DataCollatorForLanguageModeling(
                transformers.AutoTokenizer.from_pretrained(folder / "tokenizer"),
                mlm_probability=settings.objective.mask_rate,
            ),
            callbacks=[watch],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        with watch.signals():
            trainer.train(resume_from_checkpoint=last_checkpoint(folder / "checkpoints"))
        if trainer.state.global_step < settings.run.steps:
            return None
        tokenizer.save(out)
        trainer.model.save_pretrained(out)
        losses = [(row["step"], row["loss"]) for row in trainer.state.log_history if "loss" in row]
        last = [loss for step, loss in losses if step > _LAST * settings.run.steps] or [losses[-1][1]]
        told = {"seconds": watch.seconds, "loss": sum(last) / len(last)}
        with atomic_file(finished) as file:
            file.write(json.dumps(told).encode())
    return {"bundle": out, **json.loads(finished.read_text(encoding="utf-8"))}


def _check(settings: PretrainSettings) -> None:
    default = PretrainSettings().model_dump()
    for section, values in settings.model_dump().items():
        for key, value in values.items():
            if value != default[section][key] and key not in _KNOWN[section]:
                raise SettingsError(f"the Trainer has no {section}.{key}; got {value!r}: leave it at its default")
    if settings.run.steps is None:
        raise SettingsError("the Trainer's length is given in steps (run.steps)")


def _config(transformers: Any, tokenizer: Tokenizer, settings: PretrainSettings) -> Any:
    model = settings.model
    dropout = 0.1 if model.dropout is None else model.dropout
    assert model.hidden_size is not None
    return transformers.BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=model.hidden_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=max(1, model.hidden_size // 64),
        intermediate_size=4 * model.hidden_size,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        pad_token_id=tokenizer.pad_id,
    )


def _arguments(transformers: Any, folder: Path, settings: PretrainSettings) -> Any:
    run, optimizer = settings.run, settings.optimizer
    assert run.steps is not None
    return transformers.TrainingArguments(
        output_dir=folder,
        max_steps=run.steps,
        per_device_train_batch_size=run.batch_rows,
        learning_rate=optimizer.peak,
        adam_beta1=optimizer.beta1,
        adam_beta2=optimizer.beta2,
        adam_epsilon=optimizer.eps,
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.clip,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.schedule.warmup * run.steps),
        optim="adamw_torch_fused",
        bf16=run.precision == "bfloat16",
        seed=run.seed,
        logging_steps=max(1, run.steps // 100),
        save_strategy="no",  # the callback asks for it by the clock
        save_total_limit=run.keep_checkpoints,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )


class _Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """An epoch of our rows, with what is special in them known, so that the collator need not find it out."""

    def __init__(self, corpus: Path, tokenizer: Tokenizer, settings: PretrainSettings) -> None:
        specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
        stream = RowStream(open_corpus(corpus).split("train"), specials, seq_len=settings.data.seq_len)
        rows = stream.rows_in_epoch()
        shape = (rows, settings.data.seq_len)
        self._token_ids = np.empty(shape, np.int32)
        self._special, self._real = np.empty(shape, bool), np.empty(shape, bool)
        for start in range(0, rows, 4096):
            batch = stream.next_batch(min(4096, rows - start))
            own = slice(start, start + len(batch.token_ids))
            self._token_ids[own] = batch.token_ids
            self._special[own] = batch.word_ids < 0
            self._real[own] = batch.sequence_ids >= 0

    def __len__(self) -> int:
        return len(self._token_ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "input_ids": torch.from_numpy(self._token_ids[index].astype(np.int64)),
            "attention_mask": torch.from_numpy(self._real[index].astype(np.int64)),
            "special_tokens_mask": torch.from_numpy(self._special[index].astype(np.int64)),
        }


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest whole checkpoint; its state is written last. What a kill left half written is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    while found and not (found[-1] / "trainer_state.json").exists():
        shutil.rmtree(found.pop())
    return str(found[-1]) if found else None


def watched(transformers: Any, kept: Path, each_step: Callable[[int], None] | None) -> Any:
    """Return a callback that saves by the clock, counts seconds over all sittings, and stops when it is asked to."""

    class Watch(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            self._before = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else 0.0
            self._begun = self._saved = time.monotonic()
            self._asked = False

        @property
        def seconds(self) -> float:
            return self._before + time.monotonic() - self._begun

        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self._begun = self._saved = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if each_step is not None:
                each_step(state.global_step)
            control.should_training_stop |= self._asked
            control.should_save = self._asked or time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self._asked:  # a stop in the midst of an epoch is not its end
                control.should_evaluate = control.should_save = False

        def on_save(self, *_: Any, **__: Any) -> None:
            self._saved = time.monotonic()
            with atomic_file(kept) as file:
                file.write(json.dumps(self.seconds).encode())

        @contextmanager
        def signals(self) -> Iterator[None]:
            def ask(number: int, frame: object) -> None:
                if self._asked:
                    raise KeyboardInterrupt
                self._asked = True

            before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    return Watch()
