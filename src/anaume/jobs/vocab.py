"""Learn a vocabulary from texts and write it as a directory, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer, TrainingReport, VocabularyReport, vocabulary_report

SAMPLE = 1000
"""Texts, the first ones, on which the new vocabulary is measured."""

_FILES = {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}


@dataclass(frozen=True, kw_only=True)
class TrainedVocabulary:
    """A tokenizer that was learned and written."""

    tokenizer: Tokenizer
    report: TrainingReport
    sample: VocabularyReport
    """How it fits the first texts it was learned from."""
    files: tuple[str, ...]
    """Names of the files written."""


def train_vocabulary(
    texts: Iterable[str],
    out: str | Path,
    *,
    vocab_size: int,
    overwrite: bool = False,
    **settings: Any,
) -> TrainedVocabulary:
    """Learn a tokenizer from texts and write it into the directory `out`.

    overwrite  replace the tokenizer that is there; a directory that holds anything else is refused all the same
    settings   as `Tokenizer.train` takes them: min_frequency, limit_alphabet and the fields of TokenizerRules

    Raises SettingsError for wrong settings and a directory that can't be written, DataError and TokenizerError as
    `Tokenizer.train`.
    """
    folder = Path(out)
    _refuse(folder, overwrite)
    sample: list[str] = []

    def read() -> Iterator[str]:
        for text in texts:
            if len(sample) < SAMPLE:
                sample.append(text)
            # A line end is a blank to every rule, and keeps a text that is a file's name from being read as that file.
            yield f"{text}\n"

    tokenizer = Tokenizer.train(read(), vocab_size=vocab_size, **settings)
    report = tokenizer.training_report
    assert report is not None
    fit = vocabulary_report(tokenizer, sample)
    files = _write(tokenizer, folder)
    return TrainedVocabulary(tokenizer=tokenizer, report=report, sample=fit, files=tuple(files))


def _refuse(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is a file; name a directory for the tokenizer")
    if not folder.absolute().parent.is_dir():
        raise SettingsError(f"{folder}: the folder {folder.parent} does not exist; make it first")
    there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in there if name not in _FILES]
    if foreign:
        raise SettingsError(
            f"{folder} holds more than a tokenizer ({', '.join(foreign[:3])}), which a new vocabulary would not fit; "
            "name another directory"
        )
    if there and not overwrite:
        raise SettingsError(f"{folder} holds a tokenizer already; name another, or overwrite=True (--overwrite)")


def _write(tokenizer: Tokenizer, folder: Path) -> list[str]:
    """Write to a temporary sibling, then put it in the place of `folder`: never a mix of two tokenizers."""
    parent = folder.absolute().parent
    temporary = Path(tempfile.mkdtemp(prefix=".anaume-", suffix=".tmp", dir=parent))
    try:
        made = temporary / "new"
        files = tokenizer.save(made)
        old = temporary / "old"
        if folder.exists():
            os.replace(folder, old)
        try:
            os.replace(made, folder)
        except BaseException:
            if old.exists():
                os.replace(old, folder)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return files
