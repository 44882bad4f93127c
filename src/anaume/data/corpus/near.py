"""Near-duplicate documents, found by MinHash (Broder 1997) with the rensa library (extra `dedup`).

A document is the set of its runs of five units; two are near when those sets overlap by the threshold or more (Jaccard,
estimated from 128 hashes). Candidates share one of 16 bands of 8 hashes. The first of near ones stays, and later ones
are compared with those that stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.documents import Document
from anaume.data.corpus.units import units
from anaume.errors import MissingExtra
from anaume.logs import get_logger

log = get_logger(__name__)

BYTES_A_DOCUMENT = 2_400
"""Memory for each document that stays: its hashes, and its places in the bands."""

_PERMUTATIONS, _BANDS, _RUN = 128, 16, 5


def near_copies(
    documents: Iterable[Document],
    copies: NDArray[np.uint8],
    *,
    threshold: float,
    seed: int,
    tell: Callable[[int], Any],
) -> int:
    """Mark near-duplicates in packed bits of documents to leave out; return how many.

    copies: packed bits, changed in place; documents already marked are not looked at. tell: is told the characters.
    Raises MissingExtra without rensa.
    """
    require_rensa()
    from rensa import RMinHash, RMinHashLSH

    index = RMinHashLSH(threshold, _PERMUTATIONS, _BANDS)
    stayed: dict[int, Any] = {}
    found = characters = 0
    for number, document in enumerate(documents):
        characters += len(document.text)
        tell(characters)
        if copies[number // 8] & 128 >> number % 8:
            continue
        hashes = RMinHash(_PERMUTATIONS, seed)
        hashes.update(_runs(document.text))
        if any(hashes.jaccard(stayed[other]) >= threshold for other in index.query(hashes)):
            copies[number // 8] |= 128 >> number % 8
            found += 1
            continue
        index.insert(number, hashes)
        stayed[number] = hashes
    return found


def require_rensa() -> None:
    """Raise MissingExtra when the library is not there."""
    try:
        import rensa  # noqa: F401
    except ImportError as error:
        raise MissingExtra("near_duplicates", "dedup") from error


def _runs(text: str) -> list[str]:
    """Return the runs of five units; of a shorter text, all of it."""
    found = units(text)
    return list({" ".join(found[start : start + _RUN]) for start in range(max(len(found) - _RUN + 1, 1))})
