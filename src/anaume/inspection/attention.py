"""Where attention goes: the weights of the bundle's very model, as numbers. Attention is not explanation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anaume.bundle import Bundle
from anaume.errors import DataError, SettingsError, nearest
from anaume.inspection.path import encode_row, inspection_engine


@dataclass(frozen=True)
class AttentionReport:
    """Attention weights of one text or pair."""

    tokens: tuple[str, ...]
    weights: npt.NDArray[np.float32]
    """(layers, heads, tokens, tokens): row = who looks, column = at whom; each row sums to 1."""
    source: int | None
    """The place of the token whose looks are reported; None = the mean over all tokens."""

    def looks(self) -> npt.NDArray[np.float32]:
        """Return (layers, tokens): how much of the attention goes to each token, averaged over heads (and tokens)."""
        by_layer = self.weights.mean(axis=1)
        shares: npt.NDArray[np.float32] = by_layer.mean(axis=1) if self.source is None else by_layer[:, self.source]
        return shares


def trace_attention(
    bundle: Bundle, text: str, pair: str | None = None, *, source: str | int | None = None
) -> AttentionReport:
    """Return the attention weights of a text or pair.

    source  a token ("[CLS]", "dog"; its first occurrence) or a place in the row whose looks are wanted

    Raises DataError or SettingsError (ValueErrors) when there is no such token or place.
    """
    batch, tokens, _ = encode_row(bundle, text, pair)
    place = _place(tokens, source)
    attentions = inspection_engine(bundle).hidden_states(batch, keep_attentions=True).attentions
    assert attentions is not None
    return AttentionReport(tuple(tokens), np.stack([weights[0].numpy() for weights in attentions]), place)


def _place(tokens: list[str], source: str | int | None) -> int | None:
    if source is None:
        return None
    if isinstance(source, int):
        if not 0 <= source < len(tokens):
            raise SettingsError(f"place {source} is not in the row of {len(tokens)} tokens (0 .. {len(tokens) - 1})")
        return source
    for name in (source, source.lower()):
        if name in tokens:
            return tokens.index(name)
    raise DataError(f"no token of the text is {source!r}{nearest(source, tokens)}; they are: {' '.join(tokens)}")
