"""A start that knows what every text teaches first: how frequent tokens are, and what stands beside what.

BERT draws all weights from one normal distribution (google-research/bert). A small encoder then spends most of a short
run on a plateau, where it predicts frequencies alone. Two things keep it there. The output bias has to travel several
nats at a learning rate's pace, so frequency goes into the token vectors instead and blurs them; and attention, even at
first, has to find out that the neighbours matter before it can learn what they say. Both can simply be given. Weights
that a run begins with are no part of the architecture: the model is an ordinary BERT, and free to unlearn them.
Measured in docs/log.md, "a start that skips the plateau".
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from anaume.errors import SettingsError
from anaume.model.bert import Bert

POSITION_COLUMNS = 32
"""Columns of the embeddings that begin with positions alone: half as many wavelengths, a sine and a cosine each."""
LAYERS = 2
"""Layers whose heads look nearby, the first ones; those above look for themselves what matters."""
WAVELENGTHS = (2.5, 64.0)
"""Tokens. The shortest tells neighbours apart; none divides another, so that no far place looks like a near one."""
PEAK = 10.0
"""What a neighbour's attention score begins with; a place three tokens off has about 0."""


@torch.no_grad()
def know_frequencies(bias: Tensor, token_counts: Tensor) -> None:
    """Set an output bias to the log of how frequent each token is, one added to every count.

    bias, token_counts  (vocab_size,)
    """
    if bias.shape != token_counts.shape:
        raise SettingsError(f"the bias has {len(bias)} entries and there are counts of {len(token_counts)} tokens")
    counts = token_counts.double() + 1.0
    bias.copy_(torch.log(counts / counts.sum()))


@torch.no_grad()
def see_neighbours(model: Bert) -> None:
    """Let the heads of the first layers look at the tokens nearby: one before, one after, two before, and so on.

    A few columns of the embeddings are given to positions: sines and cosines (Vaswani et al. 2017, section 3.5), for
    which "so many tokens further" is a rotation. Queries are rotated keys, so a head's score is highest where the
    distance is its own. A causal model's heads look one before, two before, and so on.
    """
    config, embeddings = model.config, model.embeddings
    columns = min(POSITION_COLUMNS, config.head_size // 2 * 2)
    if columns < 2:
        return  # a head of one number has no room for an angle
    positions, tokens = embeddings.position_embeddings.weight, embeddings.token_embeddings.weight
    shortest, longest = (math.log2(wavelength) for wavelength in WAVELENGTHS)
    wavelengths = torch.logspace(shortest, longest, columns // 2, base=2.0, dtype=torch.float64)
    frequencies = 2.0 * math.pi / wavelengths
    # As long as what a token has in as many columns: each keeps its share after the layer norm.
    amplitude = math.sqrt(2.0) * float(tokens.std())
    positions.zero_()
    positions[:, :columns] = amplitude * _waves(torch.arange(len(positions), dtype=torch.float64), frequencies)
    tokens[:, :columns] = 0.0
    embeddings.segment_embeddings.weight[:, :columns] = 0.0
    others = float(tokens.square().mean()) + float(embeddings.segment_embeddings.weight.square().mean())
    pair = amplitude**2 / (others + float(positions.square().mean()))  # squared length of a wave after the layer norm
    # The score of the right distance: size^2 x pair x waves / sqrt(head size).
    size = math.sqrt(PEAK * math.sqrt(config.head_size) / (pair * (columns // 2)))
    heads = itertools.count()
    layer: Any
    for layer in model.encoder.layers[:LAYERS]:
        weight = layer.attention.qkv.weight.view(3, config.num_attention_heads, config.head_size, config.hidden_size)
        for queries, keys, _ in zip(*weight, strict=True):
            number = next(heads)
            further = -(number + 1) if config.causal else (number // 2 + 1) * (1 if number % 2 else -1)
            queries[:columns, :columns] = size * _rotation(further * frequencies)
            keys[:columns, :columns] = size * torch.eye(columns)


def _waves(places: Tensor, frequencies: Tensor) -> Tensor:
    """Return (places, 2 x frequencies): cosine and sine of each frequency in turn."""
    angles = places[:, None] * frequencies
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1).float()


def _rotation(angles: Tensor) -> Tensor:
    """Return the matrix that turns each pair of columns by its angle, (2 x angles, 2 x angles)."""
    turned = torch.zeros(2 * len(angles), 2 * len(angles))
    first = torch.arange(0, len(turned), 2)
    turned[first, first] = turned[first + 1, first + 1] = angles.cos().float()
    turned[first + 1, first] = angles.sin().float()
    turned[first, first + 1] = -angles.sin().float()
    return turned
