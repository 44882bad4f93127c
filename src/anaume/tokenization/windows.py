"""Overlapping windows over the pieces of a long text."""

from __future__ import annotations

from anaume.errors import SettingsError, TokenizerError


def window_spans(count: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Return [start, stop) spans of at most `room` pieces over `count`, neighbours sharing `stride` pieces.

    An empty text gives one empty window; the last window ends at the last piece.
    Raises SettingsError for a negative stride, TokenizerError when no window could move forward.
    """
    if type(stride) is not int or stride < 0:
        raise SettingsError(f"stride, the number of overlapping pieces, must be a whole number from 0; got {stride!r}")
    if count <= room:
        return [(0, count)]
    if room <= stride:
        raise TokenizerError(
            f"a window has room for {max(room, 0)} pieces of the text beside the special tokens and the question, and "
            f"{stride} of them would overlap: no room is left to move forward; raise max_length or lower stride"
        )
    step = room - stride
    starts = range(0, count - stride, step)
    return [(start, min(start + room, count)) for start in starts]
