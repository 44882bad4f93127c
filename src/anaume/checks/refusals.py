"""What a fine-tuning would refuse labelled files for: asked of the task itself, with the few examples that decide."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace

from anaume.data.labelled import Example, QuestionExample, SimilarityExample, TaggedExample, TextExample
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.registry import task_named
from anaume.training.finetuning.settings import FinetuneSettings
from anaume.training.finetuning.similarity import can_be_scored
from anaume.training.finetuning.start import fitted_on, hold_out

_FIRST = 1000


class Witnesses:
    """The first examples of a part, and of the later ones those that bring something new: a label, a tag, a number.

    A task settles from them what it would settle from all, and they take bounded memory, whatever the part holds.
    """

    def __init__(self) -> None:
        self.examples: list[Example] = []
        self.whole = True
        """Whether all examples are here."""
        self._known: set[Hashable] = set()

    def add(self, examples: Sequence[Example]) -> None:
        """Keep what brings something new."""
        for example in examples:
            new = self._brings(example) - self._known
            self._known |= new
            if new or len(self.examples) < _FIRST:
                self.examples.append(replace(example, fields={}))
            else:
                self.whole = False

    def _brings(self, example: Example) -> set[Hashable]:
        if isinstance(example, TaggedExample):
            return set(example.tags or ())
        if isinstance(example, QuestionExample):
            return {bool(example.answers)}
        if not isinstance(example, TextExample | SimilarityExample):
            return set()
        label = example.label
        names = label if isinstance(label, tuple) else (label,)
        first = self.examples[0] if self.examples else example
        assert isinstance(first, TextExample | SimilarityExample)
        differs: set[Hashable] = {True} if label != first.label else set()  # of numbers two tell as much as all
        pair: set[Hashable] = {("pair", example.pair is not None)} if isinstance(example, TextExample) else set()
        return differs | pair | {name for name in names if isinstance(name, str)}


def refusal(task: str, train: Witnesses, dev: Witnesses | None) -> tuple[str | None, list[str]]:
    """Return the line with which a fine-tuning would refuse these parts, None for none, and what it would warn of."""
    examples, held_out = list(train.examples), [] if dev is None else list(dev.examples)
    split = dev is None and train.whole and can_be_scored(examples)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", AnaumeWarning)
        try:
            if split:
                examples, held_out = hold_out(examples, FinetuneSettings().data.dev_share)
            fitted_on(task_named(task), examples, held_out, {}, split=split)
        except (DataError, SettingsError) as error:
            return str(error), []
    if not train.whole:  # the counts they tell would be wrong
        return None, []
    return None, [str(one.message) for one in said if issubclass(one.category, AnaumeWarning)]
