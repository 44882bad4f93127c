"""Which pieces stay when a text is too long: ours, done on pieces, and always visible in the coverage."""

from __future__ import annotations

from typing import Literal, get_args

from anaume.errors import SettingsError, TokenizerError

Truncation = Literal["longest-first", "only-first", "only-second", "error"]
_WAYS: tuple[str, ...] = get_args(Truncation)


def check_max_length(max_length: int | None, texts: int) -> None:
    """Refuse a maximum that can't hold the special tokens of one text (2) or a pair (3). Raises SettingsError."""
    if max_length is None:
        return
    if type(max_length) is not int or max_length < texts + 1:
        raise SettingsError(
            f"max_length must be a whole number from {texts + 1} (the special tokens of "
            f"{'a pair' if texts == 2 else 'one text'}); got {max_length!r}"
        )


def check_truncation(truncation: str) -> None:
    """Refuse an unknown way of truncating. Raises SettingsError."""
    if truncation not in _WAYS:
        raise SettingsError(f"truncation must be one of {', '.join(_WAYS)}; got {truncation!r}")


def kept_counts(counts: tuple[int, ...], budget: int, truncation: Truncation) -> tuple[int, ...]:
    """Return how many pieces of each text stay (its first ones), given the budget without special tokens.

    "longest-first" takes pieces from the longer text until both fit; when they are equally long the second gives first,
    so an odd budget leaves one piece more to the first. Raises TokenizerError when the allowed side can't make room.
    """
    excess = sum(counts) - budget
    if excess <= 0:
        return counts
    if truncation == "error":
        raise TokenizerError(
            f"the text has {_plus(counts)} pieces and only {budget} fit beside the special tokens; shorten it, raise "
            "max_length, or choose another truncation"
        )
    if truncation == "longest-first":
        if len(counts) == 1:
            return (budget,)
        first, second = counts
        first_kept = min(first, max(budget - second, budget - budget // 2))
        return (first_kept, budget - first_kept)
    side = 0 if truncation == "only-first" else 1
    if side >= len(counts):
        raise SettingsError("truncation='only-second' needs a pair; one text was given")
    left = counts[side] - excess
    if left < 0:
        fixed = counts[1 - side]
        raise TokenizerError(
            f"truncation={truncation!r}: the {('second', 'first')[side]} text alone has {fixed} pieces and only "
            f"{budget} fit beside the special tokens; shorten it, raise max_length, or use 'longest-first'"
        )
    return tuple(left if index == side else count for index, count in enumerate(counts))


def _plus(counts: tuple[int, ...]) -> str:
    return " + ".join(map(str, counts))
