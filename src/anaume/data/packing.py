"""Short rows side by side in longer ones, so that hardly any padding is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PACKED = 128
"""Tokens of a packed row, where no single row is longer: attention costs tokens x this, and it is little up to here."""
_STEP = 32
"""Widths are a multiple of this: kernels are half as fast on odd ones (docs/log.md)."""


@dataclass(frozen=True)
class Packed:
    """Rows packed into longer ones: arrays (packed rows, width) int64, and the way back."""

    token_ids: NDArray[np.int64]
    segment_ids: NDArray[np.int64]
    position_ids: NDArray[np.int64]
    """Restart with each row."""
    sequence_ids: NDArray[np.int64]
    """Which row a token belongs to, counted within its packed row; -1 = padding."""
    places: NDArray[np.int64]
    """(rows, longest): where each token of each row lies in the flattened packed rows; 0 beyond its end."""
    attention_mask: NDArray[np.bool_]
    """(rows, longest), True = real token."""

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return int(self.attention_mask.sum())


def pack(token_ids: Sequence[NDArray[np.integer]], segment_ids: Sequence[NDArray[np.integer]], pad_id: int) -> Packed:
    """Pack rows, the longest first, each into the first packed row that has room."""
    lengths = np.array([len(row) for row in token_ids], dtype=np.int64)
    longest = int(lengths.max(initial=1))
    width = _STEP * -(-min(max(longest, PACKED), max(int(lengths.sum()), 1)) // _STEP)
    placed, used = _first_fit(lengths, width)
    shape = (len(used), width)
    tokens = np.full(shape, pad_id, dtype=np.int64)
    segments, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    sequences = np.full(shape, -1, dtype=np.int64)
    places = np.zeros((len(lengths), longest), dtype=np.int64)
    counts = [0] * len(used)
    for number, (row, start) in enumerate(placed):
        length = int(lengths[number])
        own = slice(start, start + length)
        tokens[row, own] = token_ids[number]
        segments[row, own] = segment_ids[number]
        positions[row, own] = np.arange(length)
        sequences[row, own] = counts[row]
        places[number, :length] = row * width + np.arange(start, start + length)
        counts[row] += 1
    return Packed(tokens, segments, positions, sequences, places, np.arange(longest) < lengths[:, None])


def _first_fit(lengths: NDArray[np.int64], width: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return (packed row, first place) of each row, and the places used of each packed row."""
    used: list[int] = []
    placed: list[tuple[int, int]] = [(0, 0)] * len(lengths)
    for number in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[number])
        row = next((row for row, taken in enumerate(used) if taken + length <= width), len(used))
        if row == len(used):
            used.append(0)
        placed[number] = (row, used[row])
        used[row] += length
    return placed, used or [0]
