"""What the frequencies of tokens alone are worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def unigram_entropy(token_counts: NDArray[np.int64]) -> float:
    """Return -sum p ln p in nats over how often each token occurs, int64 (vocab_size,); 0 for no token.

    A model that reads no context can't have a lower loss, so a loss that stays there has learned nothing else.
    """
    counts = token_counts[token_counts > 0].astype(np.float64)
    total = counts.sum()
    return float((counts / total * np.log(total / counts)).sum()) if total else 0.0
