"""MaxSim of token vectors without padding: each text brings its own rows, so nothing has to be hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_AT_ONCE = 1 << 22
"""Products held at once: 16 MiB of float32."""


def max_sim_scores(
    query: npt.NDArray[np.float32], passages: Sequence[npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """Return, for each passage, the sum over the query's tokens of the best dot product with one of its tokens.

    query     (tokens, size)
    passages  (tokens, size) each, of any number of tokens from 1
    returns   (passages,) float32 (ColBERT, Khattab and Zaharia 2020, section 3.3)
    """
    scores = np.zeros(len(passages), dtype=np.float32)
    lengths = np.array([len(own) for own in passages], dtype=np.int64)
    taken, most = 0, max(1, _AT_ONCE // max(1, len(query)))
    while taken < len(passages):
        fit = int(np.searchsorted(lengths[taken:].cumsum(), most, side="right"))
        stop = taken + max(1, fit)
        products = query @ np.concatenate(passages[taken:stop]).T
        starts = np.concatenate([[0], lengths[taken : stop - 1].cumsum()])
        scores[taken:stop] = np.maximum.reduceat(products, starts, axis=1).sum(axis=0)
        taken = stop
    return scores
