"""A sorted string table, the file format of TensorFlow's checkpoint index (LevelDB's table_format.md), read whole.

block ... block, index block, footer     a block: entries, restart points, then type (1 byte) and masked CRC (4)
entry: shared, unshared, length          varints; then the key's unshared end and the value
footer (48 bytes)                        handles of meta index and index: offset and size as varints; magic number
"""

from __future__ import annotations

from collections.abc import Iterator

from anaume.exporting.crc32c import crc32c, unmasked
from anaume.exporting.wire import varint

_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57


class Damaged(ValueError):
    """The bytes are no such table, or were changed; the message says what is wrong, not where."""


def read_table(data: bytes) -> dict[bytes, bytes]:
    """Return every key and its value, in the order of the keys. Raises Damaged, also for a CRC that differs."""
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise Damaged("its last bytes are not those of a checkpoint's index")
    footer = data[-_FOOTER:]
    try:
        _, place = _handle(footer, 0)
        index, _ = _handle(footer, place)
        entries: dict[bytes, bytes] = {}
        for _, handle in _entries(_block(data, *index)):
            entries.update(_entries(_block(data, *_handle(handle, 0)[0])))
    except IndexError:
        raise Damaged("it ends in the middle of an entry") from None
    return entries


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    offset, place = varint(data, place)
    size, place = varint(data, place)
    return (offset, size), place


def _block(data: bytes, offset: int, size: int) -> bytes:
    end = offset + size
    if end + 5 > len(data):
        raise Damaged("a block lies beyond its end: truncated")
    if unmasked(int.from_bytes(data[end + 1 : end + 5], "little")) != crc32c(data[offset : end + 1]):
        raise Damaged(f"the checksum of the block at byte {offset} differs")
    if data[end] != 0:
        raise Damaged(f"the block at byte {offset} is compressed (type {data[end]}), which checkpoints never are")
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    place, key = 0, b""
    while place < end:
        shared, place = varint(block, place)
        unshared, place = varint(block, place)
        length, place = varint(block, place)
        value = place + unshared
        if shared > len(key) or value + length > end:
            raise Damaged("an entry goes beyond its block")
        key = key[:shared] + block[place:value]
        place = value + length
        yield key, block[value:place]
