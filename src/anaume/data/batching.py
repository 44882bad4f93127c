"""Rows into batches: by a budget of tokens, and padded.

The cost of a batch is its rows times its longest row, so rows of like length belong together and the budget counts
padded places. Batches hold indices, so whoever runs them puts results back in input order: `out[indices] = result`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anaume.errors import SettingsError

_ENOUGH, _ALIKE = 0.25, 0.95
"""Close batches: from a quarter of the budget on they end where a row is 5 % shorter than their longest. Measured: a
batch costs an engine what 5 to 17 tokens cost, so twice as many batches are cheaper than 3 % of padding."""
_ROWS = 8
"""From twice as many rows on, close batches have a multiple of so many. OpenVINO keeps 0.3 MB for each shape that it
has seen, and short texts come in half as many then."""


def token_budget_batches(
    lengths: Sequence[int] | NDArray[np.integer], max_tokens: int, *, max_rows: int = 1024, close: bool = False
) -> list[NDArray[np.int64]]:
    """Cut rows into batches whose rows x longest row is at most max_tokens, longest rows first.

    Longest first, because the largest memory need then shows in the first batch and not after an hour, and later,
    smaller batches fit into what was set aside for it. A row longer than the budget is a batch of its own. Equal
    lengths keep their input order, so the same lengths always give the same batches.

    lengths: tokens of each row; close: end a batch before it is full where the next row would bring much padding.
    Returns int64 arrays of row indices; every index occurs exactly once.

    Raises:
        SettingsError: a budget or row limit below 1, or a negative length.
    """
    if max_tokens < 1 or max_rows < 1:
        raise SettingsError(f"max_tokens and max_rows must be at least 1, came {max_tokens} and {max_rows}")
    sizes = np.asarray(lengths, dtype=np.int64)
    if sizes.size and sizes.min() < 0:
        raise SettingsError(f"row {int(sizes.argmin())} has a negative length, {int(sizes.min())}")
    order = np.argsort(-sizes, kind="stable").astype(np.int64)
    negative = -sizes[order]  # in rising order, to be searched
    batches, start = [], 0
    while start < len(order):
        longest = max(int(sizes[order[start]]), 1)
        stop = start + min(max(max_tokens // longest, 1), max_rows)
        if close:
            alike = int(np.searchsorted(negative, -_ALIKE * longest, side="right"))
            rows = max(alike - start, math.ceil(_ENOUGH * max_tokens / longest))
            if rows >= 2 * _ROWS:
                rows = _ROWS * math.ceil(rows / _ROWS)
            stop = min(stop, start + rows)
        batches.append(order[start:stop])
        start = stop
    return batches


def pad(
    sequences: Sequence[Sequence[int]], pad_id: int, *, seq_len: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Put sequences of token IDs side by side, filled up on the right with pad_id.

    Returns (token_ids int64 (batch, seq_len), attention_mask bool (batch, seq_len), True = real token); seq_len is the
    longest sequence unless given. The mask comes from the lengths, so a real token whose ID is pad_id stays real.

    Raises:
        SettingsError: a sequence longer than seq_len (padding never cuts).
    """
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    longest = int(lengths.max(initial=0))
    width = longest if seq_len is None else seq_len
    if longest > width:
        raise SettingsError(f"sequence {int(lengths.argmax())} has {longest} tokens, more than seq_len {width}")
    attention_mask = np.arange(width) < lengths[:, None]
    token_ids = np.full((len(sequences), width), pad_id, dtype=np.int64)
    for row, sequence in enumerate(sequences):
        token_ids[row, : len(sequence)] = sequence
    return token_ids, attention_mask


def pad_to(
    token_ids: NDArray[np.int64], attention_mask: NDArray[np.bool_], seq_len: int, pad_id: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Widen a padded batch to seq_len; what is real stays what the mask says, however often this is done.

    token_ids int64 (batch, old_len), attention_mask bool (batch, old_len); returns both as (batch, seq_len).

    Raises:
        SettingsError: shapes that differ, a mask that is not bool, or a seq_len below the present one.
    """
    if token_ids.ndim != 2 or token_ids.shape != attention_mask.shape or attention_mask.dtype != np.bool_:
        raise SettingsError(
            "expected token_ids (batch, seq_len) and a bool attention_mask of the same shape, came "
            f"{token_ids.shape} and {attention_mask.dtype} {attention_mask.shape}"
        )
    more = seq_len - token_ids.shape[1]
    if more < 0:
        raise SettingsError(f"the batch is {token_ids.shape[1]} wide, more than seq_len {seq_len}; padding never cuts")
    sides = ((0, 0), (0, more))
    return np.pad(token_ids, sides, constant_values=pad_id), np.pad(attention_mask, sides, constant_values=False)


def padding_share(lengths: Sequence[int] | NDArray[np.integer], batches: Sequence[NDArray[np.int64]]) -> float:
    """Return the share of places in these batches that is padding, 0.0 (none) to below 1.0; 0.0 without any batch."""
    sizes = np.asarray(lengths, dtype=np.int64)
    places = sum(len(batch) * int(sizes[batch].max()) for batch in batches)
    real = sum(int(sizes[batch].sum()) for batch in batches)
    return 1.0 - real / places if places else 0.0
