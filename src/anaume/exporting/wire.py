"""The wire format of protocol buffers, as far as a checkpoint's index needs it."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place after it. Raises IndexError where the data ends within it.

    >>> varint(bytes([0xAC, 0x02, 7]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Go through a message: (number of a field, its value), a whole number or bytes.

    Raises IndexError where the message ends within a field, ValueError for a wire type of no field.
    """
    place = 0
    while place < len(message):
        tag, place = varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, place = varint(message, place)
            yield number, value
            continue
        if kind == _BYTES:
            size, place = varint(message, place)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        end = place + size
        if end > len(message):
            raise IndexError(place)
        content = message[place:end]
        yield number, content if kind == _BYTES else int.from_bytes(content, "little")
        place = end
