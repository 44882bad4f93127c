"""What labelled files hold, before anything is learned from them: labels, baselines, copies, leaks, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from anaume.bundle.embedding import UNKNOWN_LIMIT
from anaume.checks.labelled_part import NO_ANSWER, LabelledPart, PartCounter
from anaume.checks.refusals import Witnesses, refusal
from anaume.data.labelled import Example, read_labelled
from anaume.errors import DataError, SettingsError
from anaume.tasks.registry import task_named
from anaume.tokenization import Tokenizer
from anaume.training.finetuning.probing import FEATURES, probed_files

Paths = str | Path | Sequence[str | Path]

_AT_ONCE = 1024  # examples read and tokenised together
_TEXT_TASKS = ("classification", "pair-classification", "multi-label", "regression")
_SINGLE = ("classification", "pair-classification", "multiple-choice")  # one label an example
_FEW = 8  # examples of a label


@dataclass(frozen=True, kw_only=True)
class Majority:
    """What always saying the most frequent label of train is worth."""

    label: str
    accuracy: float
    """0 to 1: of dev's examples if there is a dev, of words for tags."""


@dataclass(frozen=True, kw_only=True)
class LabelledCheck:
    """What `check_labelled` found."""

    task: str
    """Of `features` the one whose labels are learned."""
    max_length: int
    train: LabelledPart
    dev: LabelledPart | None
    majority: Majority | None
    """None for numbers, for several labels, and for questions that all have an answer."""
    overlap: int | None
    """Dev examples whose content, normalised, occurs in train (of a question: whose context does); None without dev."""
    overlap_conflicts: int | None
    """Those of them that never occur there with their own label."""
    dev_only_labels: tuple[str, ...]
    notes: tuple[str, ...]
    """What should be looked at, in words."""
    refusals: tuple[str, ...]
    """What a fine-tuning would refuse the files for, in words."""


def check_labelled(
    task: str,
    train: Paths,
    *,
    dev: Paths | None = None,
    tokenizer: Tokenizer | None = None,
    max_length: int = 512,
    progress: Callable[[str, int, int | None], None] | None = None,
    **reading: Any,
) -> LabelledCheck:
    """Look at labelled files as a task would learn from them. One pass, in bounded memory.

    tokenizer: counts what does not fit into max_length tokens, and entities whose bounds lie inside tokens.
    reading: columns and format, as the task's reader takes them.

    Blank texts are counted; all else that the reader refuses is an error with file and row. What a fine-tuning would
    refuse, by its own word, is in `refusals`. Raises SettingsError, DataError.
    """
    if max_length < 3:
        raise SettingsError(f"max_length must be at least 3; came {max_length}")
    task = (probed_files(None, train, **reading) if task == FEATURES else task_named(task)).name
    tell = progress or (lambda what, done, total: None)
    together = task == "ranking"
    learned, held_out = PartCounter(tokenizer, max_length, together=together), None
    of_train, of_dev = Witnesses(), None
    _count(learned, of_train, "train", task, train, reading, tell)
    if dev is not None:
        held_out, of_dev = PartCounter(tokenizer, max_length, together=together), Witnesses()
        _count(held_out, of_dev, "dev", task, dev, reading, tell)
    refused, warned = refusal(task, of_train, of_dev)
    first, second = learned.part(), None if held_out is None else held_out.part()
    overlap, conflicts = (None, None) if held_out is None else held_out.shared.shared_with(learned.shared)
    check = LabelledCheck(
        task=task,
        max_length=max_length,
        train=first,
        dev=second,
        majority=_majority(task, learned, held_out or learned),
        overlap=overlap,
        overlap_conflicts=conflicts,
        dev_only_labels=() if second is None else tuple(sorted(second.labels.keys() - first.labels.keys())),
        notes=(),
        refusals=tuple(_refusals(first, second, refused)),
    )
    return replace(check, notes=(*warned, *_notes(check)))


def _count(
    counter: PartCounter,
    witnesses: Witnesses,
    name: str,
    task: str,
    paths: Paths,
    reading: dict[str, Any],
    tell: Callable[[str, int, int | None], None],
) -> None:
    blank = {"keep_blank": True} if task in _TEXT_TASKS else {}
    examples: Iterator[Example] = read_labelled(task, paths, **reading, **blank)
    while chunk := list(islice(examples, _AT_ONCE)):
        counter.add(chunk)
        witnesses.add(chunk)
        tell(f"reading {name}", counter.examples, None)
    if not counter.examples:
        shown = [paths] if isinstance(paths, str | Path) else paths
        raise DataError(f"{', '.join(map(str, shown))}: no examples in it")


def _majority(task: str, learned: PartCounter, scored: PartCounter) -> Majority | None:
    if task == "ner":
        learned_counts, counts = learned.tags, scored.tags
    elif task in _SINGLE:
        learned_counts, counts = learned.labels, scored.labels
    elif task == "question-answering" and learned.labels[NO_ANSWER]:
        return Majority(label=NO_ANSWER, accuracy=scored.labels[NO_ANSWER] / scored.examples)
    else:
        return None
    label = min(learned_counts, key=lambda name: (-learned_counts[name], name))
    return Majority(label=label, accuracy=counts[label] / counts.total())


def _refusals(train: LabelledPart, dev: LabelledPart | None, refused: str | None) -> Iterator[str]:
    for part in (train, dev):
        if part is not None and part.blank:
            yield f"{part.first_blank}: a blank text, one of {part.blank:,}; give them a text or leave them out"
    if refused is not None:
        yield refused


def _notes(check: LabelledCheck) -> Iterator[str]:
    """Say what may spoil a training or its score."""
    parts = {"train": check.train} | ({} if check.dev is None else {"dev": check.dev})
    if check.task == "question-answering" and NO_ANSWER in check.dev_only_labels:
        yield "dev has questions without an answer, and train has none: the model will always give one"
    if check.overlap and check.dev is not None:
        what = "contexts" if check.task == "question-answering" else "contents"
        yield (
            f"{check.overlap:,} of {check.dev.examples:,} dev examples have {what} that train has too: a score on them "
            "is a score on what was seen"
        )
    for name, part in parts.items():
        if part.copies.conflict is not None:
            first, second = part.copies.conflict
            yield (
                f"{name}: contents that occur with different labels: {part.copies.conflicts:,}, such as {first} and "
                f"{second}"
            )
        if (part.unknown_share or 0.0) > UNKNOWN_LIMIT:
            yield f"{name}: {part.unknown_share:.1%} of the tokens are unknown to the vocabulary; was it made for them?"
        if part.voiced:
            yield f"{name}: the tokenizer strips the voicing marks of {part.voiced:,} kana (バス becomes ハス)"
        if part.split_entities:
            yield (
                f"{name}: entities that begin or end inside a token: {part.split_entities:,}; they can't be found "
                "exactly, and a vocabulary made for this text has finer pieces"
            )
    if check.task in _SINGLE[:2]:
        rare = [label for label, count in check.train.labels.items() if count < _FEW]
        if rare and len(check.train.labels) > 1:
            yield f"labels with fewer than {_FEW} examples in train: {', '.join(map(repr, rare[:10]))}"
