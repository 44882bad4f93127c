"""CRC-32C (Castagnoli), by which TensorFlow's files tell damage; thousands of pieces of the data at once, in NumPy.

A CRC is linear over GF(2). With the register starting at 0, raw(A + B) = shift(raw(A), len(B)) ^ raw(B), where shift
lets zeros through; so lanes of equal length are run side by side, two bytes a step, and folded pair by pair. Zeros in
front change nothing, which makes all lanes equally long.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = np.uint32(0x82F63B78)  # reflected
_ONES = np.uint32(0xFFFFFFFF)
_LANES = 1 << 14

Words = npt.NDArray[np.uint32]


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of some bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    size = len(data)
    lanes = 1
    while lanes < _LANES and lanes * 64 < size:
        lanes *= 2
    width = -(-size // (2 * lanes)) * 2
    padded = np.zeros(lanes * width, dtype=np.uint8)
    padded[len(padded) - size :] = np.frombuffer(data, dtype=np.uint8)
    crc = _fold(_run(padded.view("<u2").reshape(lanes, width // 2)), width)
    start = _shifted(np.array([_ONES]), size)[0]  # the register starts at all ones
    return int(crc ^ start ^ _ONES)


def unmasked(stored: int) -> int:
    """Return the CRC that TensorFlow stored rotated and moved: a CRC over a CRC would be weak."""
    rotated = (stored - 0xA282EAD8) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def _run(rows: npt.NDArray[np.uint16]) -> Words:
    """Return the raw CRC of each row, (lanes,)."""
    table = _two_bytes()
    crc = np.zeros(len(rows), dtype=np.uint32)
    for place in range(rows.shape[1]):
        crc = table[(crc ^ rows[:, place]) & np.uint32(0xFFFF)] ^ (crc >> np.uint32(16))
    return crc


def _fold(crc: Words, width: int) -> np.uint32:
    """Return the raw CRC of lanes of `width` bytes, one after the other; their number is a power of two."""
    while len(crc) > 1:
        crc = _shifted(crc[::2], width) ^ crc[1::2]
        width *= 2
    return np.uint32(crc[0])


def _shifted(crc: Words, zeros: int) -> Words:
    """Return what each register holds after so many zero bytes."""
    power = _zero_byte()
    while zeros:
        if zeros & 1:
            crc = _applied(power, crc)
        power = _applied(power, power)
        zeros >>= 1
    return crc


def _applied(operator: Words, crc: Words) -> Words:
    """Return a linear map, given by what it makes of each bit, (32,), of some registers."""
    result = np.zeros_like(crc)
    for bit in range(32):
        result ^= operator[bit] * ((crc >> np.uint32(bit)) & np.uint32(1))
    return result


@cache
def _two_bytes() -> Words:
    """Return what 16 bits at the register's end become, (65536,)."""
    return _eight(_eight(np.arange(1 << 16, dtype=np.uint32)))


@cache
def _zero_byte() -> Words:
    """Return one zero byte as a linear map, (32,)."""
    return _eight(np.uint32(1) << np.arange(32, dtype=np.uint32))


def _eight(crc: Words) -> Words:
    """Let eight zero bits through."""
    for _ in range(8):
        crc = (crc >> np.uint32(1)) ^ (_POLYNOMIAL * (crc & np.uint32(1)))
    return crc
