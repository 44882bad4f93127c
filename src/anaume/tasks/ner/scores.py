"""Scores of entities: an entity is right if its type and both its ends are. Counted over all examples at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from anaume.tasks.ner.schemes import Span

BARE = "entity"
"""What the type of entities with bare tags (B, I, O) is called where it must have a name."""


def entity_scores(gold: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]) -> dict[str, Any]:
    """Return precision, recall and F1 of all entities (micro) and their means over types (macro), with their counts.

    gold, predicted  for each example its entities; the examples in the same order

    "types" has the same for each type, {"PER": {"precision", ..., "tp", "fp", "fn"}}. What is not defined is None
    (a precision where nothing was predicted); in a mean it counts as 0.
    """
    right: Counter[str] = Counter()
    guessed: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for theirs, ours in zip(gold, predicted, strict=True):
        right.update(span.type for span in set(theirs) & set(ours))
        guessed.update(span.type for span in ours)
        wanted.update(span.type for span in theirs)
    types = {type_ or BARE: _rates(right[type_], guessed[type_], wanted[type_]) for type_ in sorted(wanted | guessed)}
    macro = {
        f"macro_{name}": sum(rates[name] or 0.0 for rates in types.values()) / len(types) if types else None
        for name in ("precision", "recall", "f1")
    }
    return {**_rates(right.total(), guessed.total(), wanted.total()), **macro, "types": types}


def f1_of(right: float, guessed: float, wanted: float) -> float | None:
    """Return the harmonic mean of precision and recall, 2 right / (guessed + wanted); None without any entity."""
    return 2 * right / (guessed + wanted) if guessed + wanted else None


def _rates(right: int, guessed: int, wanted: int) -> dict[str, Any]:
    return {
        "precision": right / guessed if guessed else None,
        "recall": right / wanted if wanted else None,
        "f1": f1_of(right, guessed, wanted),
        "tp": right,
        "fp": guessed - right,
        "fn": wanted - right,
    }
