"""How many floating-point operations a model needs: functions of its shape, 2 FLOP a multiply-add.

Only what is useful counts: no padding, nothing computed twice. Normalisation, softmax, GELU, lookups, pooling and the
two outputs of a pair head are left out: together they are about one operation in a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable

from anaume.config import EncoderConfig


def encoder_flops(config: EncoderConfig, lengths: Iterable[int]) -> float:
    """Return what the encoder needs for rows of these lengths.

    A row of T tokens costs, in each of L layers,

        T * 2 * (4 D^2 + 2 D F)     query, key, value and output projections; the two feed-forward matrices
        T * 4 * T * D               scores QK^T and weights x V, 2 T D multiply-adds a token

    with D = hidden_size and F = intermediate_size.
    """
    tokens = squares = 0
    for length in lengths:
        tokens += length
        squares += length * length
    return 2.0 * _body(config) * tokens + 4.0 * config.num_hidden_layers * config.hidden_size * squares


def training_flops(config: EncoderConfig, *, tokens: float, places: float, seq_len: int) -> float:
    """Return what it takes to train on `tokens` real tokens in rows of `seq_len`, of which `places` are predicted.

    Backward takes each product twice more, once for its input and once for its weight, so three times forward:

        tokens * 6 * L (4 D^2 + 2 D F)     6 x the weights of the body a token
        tokens * 12 * T * D * L            attention, 12 x row length x width a token and layer
        places * 6 * (D^2 + D V)           6 x the weights of the token head a predicted place

    with T = seq_len, V = vocab_size, D and F as above. Texts packed into one row count as a row.
    """
    width = config.hidden_size
    attention = 12.0 * seq_len * width * config.num_hidden_layers
    head = width * width + width * config.vocab_size
    return tokens * (6.0 * _body(config) + attention) + places * 6.0 * head


def _body(config: EncoderConfig) -> int:
    """Return the weights of the encoder's matrices, biases and tables apart."""
    return config.num_hidden_layers * (4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size)
