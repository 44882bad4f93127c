"""A held-out part taken from labelled examples: seeded, by class, and never with a copy on both sides."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from anaume.data.labelled.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from anaume.errors import DataError, SettingsError

E = TypeVar("E", bound=Example)


def class_of(example: Example) -> Hashable:
    """Return what a split keeps in proportion: a class, or whether a question has an answer; else None."""
    if isinstance(example, TextExample | SimilarityExample):
        return example.label if isinstance(example.label, str) else None
    return bool(example.answers) if isinstance(example, QuestionExample) else None


def content_of(example: Example) -> Hashable:
    """Return what must not be on both sides: the text or texts, or the context that several questions share."""
    if isinstance(example, TextExample):
        return (example.text, example.pair)
    if isinstance(example, TaggedExample | SimilarityExample):
        return example.text
    if isinstance(example, QuestionExample):
        return example.title or example.context
    return (example.question, example.options) if isinstance(example, ChoiceExample) else example.place


def count_seen(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Return how many dev examples train has too, as they stand; of a question, how many contexts."""

    def content(example: Example) -> Hashable:
        if isinstance(example, SimilarityExample):
            return (example.text, example.positives, example.negatives)
        return example.context if isinstance(example, QuestionExample) else content_of(example)

    seen = {content(example) for example in train}
    return sum(content(example) in seen for example in dev)


def split_examples(
    examples: Sequence[E],
    share: float,
    seed: int,
    stratify: Callable[[E], Hashable] = class_of,
    group: Callable[[E], Hashable] = content_of,
) -> tuple[list[E], list[E]]:
    """Return (train, dev), each in input order; dev gets about that share of the examples.

    stratify: each of its values has its share in dev, as near as whole groups allow; a value that has one group only
        stays in train.
    group: examples of one value stay together (copies; questions about one article).

    The same examples, share and seed give the same split on every machine.

    Raises:
        SettingsError: a share that is not between 0 and 1.
        DataError: fewer than two groups, so there is nothing to split.
    """
    if not 0.0 < share < 1.0:
        raise SettingsError(f"the share held out must be between 0 and 1, both excluded; came {share}")
    groups: dict[Hashable, list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(group(example), []).append(number)
    if len(groups) < 2:
        raise DataError(f"{len(examples)} examples with {len(groups)} different contents can't be split in two")
    strata: dict[Hashable, list[list[int]]] = {}
    for numbers in groups.values():  # a group of several classes goes by its first
        strata.setdefault(stratify(examples[numbers[0]]), []).append(numbers)
    wanted = _quotas([sum(map(len, stratum)) for stratum in strata.values()], share)
    dev: set[int] = set()
    for stratum, quota in zip(strata.values(), wanted, strict=True):
        dev.update(_draw(stratum, quota, seed))
    if not dev:  # tiny: one example is better than none
        biggest = max(strata.values(), key=len)
        dev.update(_ordered(biggest if len(biggest) > 1 else list(groups.values()), seed)[0])
    train = [example for number, example in enumerate(examples) if number not in dev]
    return train, [examples[number] for number in sorted(dev)]


def _quotas(sizes: Sequence[int], share: float) -> list[int]:
    """Return how many of each size make up the share of all, whole numbers: by the largest remainders."""
    exact = [size * share for size in sizes]
    quotas = [math.floor(part) for part in exact]
    left = max(1, round(sum(sizes) * share)) - sum(quotas)
    by_remainder = sorted(range(len(sizes)), key=lambda place: (quotas[place] - exact[place], place))
    for place in by_remainder[:left]:
        quotas[place] += 1
    return quotas


def _draw(stratum: list[list[int]], quota: int, seed: int) -> list[int]:
    """Return the examples of some groups, as near to `quota` of them as groups allow; one group always stays."""
    drawn: list[int] = []
    taken = 0
    for numbers in _ordered(stratum, seed):
        if taken + 1 == len(stratum):
            break
        if abs(len(drawn) + len(numbers) - quota) < quota - len(drawn):
            drawn += numbers
            taken += 1
    return drawn


def _ordered(groups: list[list[int]], seed: int) -> list[list[int]]:
    """Return groups in the order of a seed, the same on every machine and in every version of Python."""

    def key(numbers: list[int]) -> bytes:
        return hashlib.blake2b(f"{seed}/{numbers[0]}".encode(), digest_size=8).digest()

    return sorted(groups, key=key)
