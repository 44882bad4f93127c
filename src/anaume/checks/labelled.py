"""What labelled files hold, before anything is learned from them: labels, baselines, copies, leaks, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from anaume.checks.labelled_part import NO_ANSWER, LabelledPart, PartCounter
from anaume.data.labelled import Example, read_labelled
from anaume.errors import DataError, SettingsError
from anaume.tasks.registry import ALIASES
from anaume.tokenization import Tokenizer

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

    Blank texts are counted; all else that the reader refuses is an error with file and row. Raises SettingsError,
    DataError.
    """
    if max_length < 3:
        raise SettingsError(f"max_length must be at least 3; came {max_length}")
    task = ALIASES.get(task, task)
    tell = progress or (lambda what, done, total: None)
    together = task == "ranking"
    learned, held_out = PartCounter(tokenizer, max_length, together=together), None
    _count(learned, "train", task, train, reading, tell)
    if dev is not None:
        held_out = PartCounter(tokenizer, max_length, together=together)
        _count(held_out, "dev", task, dev, reading, tell)
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
    )
    return replace(check, notes=tuple(_notes(check)))


def _count(
    counter: PartCounter,
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


def _notes(check: LabelledCheck) -> Iterator[str]:
    """Say what may spoil a training or its score."""
    parts = {"train": check.train} | ({} if check.dev is None else {"dev": check.dev})
    if check.train.numbers is not None and check.train.numbers.lowest == check.train.numbers.highest:
        yield f"all targets of train are {check.train.numbers.lowest:g}: there is nothing to learn"
    elif check.train.numbers is None and len(check.train.labels) < 2 and check.task in _SINGLE:
        yield f"train has one label only, {next(iter(check.train.labels))!r}: there is nothing to learn"
    elif check.task in ("ner", "multi-label") and not check.train.labels:
        yield "train has no entities" if check.task == "ner" else "train has no labels at all"
    if check.dev_only_labels:
        yield f"labels of dev that train does not have: {', '.join(map(repr, check.dev_only_labels))}"
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
        if part.blank:
            yield f"{name}: blank texts, which training refuses: {part.blank:,}; give them a text or leave them out"
        if part.split_entities:
            yield (
                f"{name}: entities that begin or end inside a token: {part.split_entities:,}; they can't be found "
                "exactly, and a vocabulary made for this text has finer pieces"
            )
    if check.task in _SINGLE[:2]:
        rare = [label for label, count in check.train.labels.items() if count < _FEW]
        if rare and len(check.train.labels) > 1:
            yield f"labels with fewer than {_FEW} examples in train: {', '.join(map(repr, rare[:10]))}"
