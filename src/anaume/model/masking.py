"""Which places are hidden from the model, and behind what: the masks of masked-word pretraining.

BERT is GPT with these masks instead of the causal one. They are drawn fresh for each batch, on the device where the
batch lives, in fixed shapes and without waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anaume.errors import SettingsError

IGNORED = -100
"""The label of a place whose prediction does not count."""


@dataclass(frozen=True)
class RandomMask:
    """A batch with words hidden, and what was hidden."""

    token_ids: Tensor
    """(batch, seq_len): the input with the chosen places replaced."""
    positions: Tensor
    """(batch, places) int64: the chosen places of each row; unused slots point anywhere."""
    labels: Tensor
    """(batch, places) int64: the token that stood there; -100 in unused slots."""


def generate_random_mask(
    token_ids: Tensor,
    maskable: Tensor,
    *,
    mask_id: int,
    vocab_size: int,
    rate: float = 0.15,
    generator: torch.Generator | None = None,
) -> RandomMask:
    """Choose places and replace them as published: 80 % [MASK], 10 % a random token, 10 % unchanged (section 3.1).

    token_ids  (batch, seq_len) int64
    maskable   (batch, seq_len) bool: True where a place may be chosen (never [CLS], [SEP], [PAD])
    rate       share of the maskable places of each row that is chosen: exactly max(1, round(rate x n)) of n
    generator  of the device token_ids lie on; None = that device's own

    The n places of the highest random scores are taken by top-k into round(rate x seq_len) slots a row, so every shape
    is known beforehand. Raises SettingsError (a ValueError) for a wrong rate or shapes that differ.
    """
    if not 0.0 < rate < 1.0:
        raise SettingsError(f"rate must lie between 0 and 1; got {rate!r}")
    if maskable.shape != token_ids.shape or token_ids.dim() != 2 or maskable.dtype != torch.bool:
        raise SettingsError(
            f"token_ids and maskable (bool) must both be (batch, seq_len); got {tuple(token_ids.shape)} and "
            f"{tuple(maskable.shape)} {maskable.dtype}"
        )
    batch, seq_len = token_ids.shape
    device = token_ids.device
    slots = max(1, round(rate * seq_len))

    scores = torch.rand(batch, seq_len, device=device, generator=generator).masked_fill(~maskable, -1.0)
    positions = scores.topk(min(slots, seq_len), dim=1).indices
    available = maskable.sum(dim=1, keepdim=True)
    exact = torch.float32 if device.type == "mps" else torch.float64  # float32 rounds some of rate x n another way
    wanted = torch.minimum((rate * available.to(exact)).round().long().clamp(min=1), available)
    used = torch.arange(positions.shape[1], device=device)[None, :] < wanted

    originals = token_ids.gather(1, positions)
    dice = torch.rand(positions.shape, device=device, generator=generator)
    random_ids = torch.randint(vocab_size, positions.shape, device=device, generator=generator)
    replaced = torch.where(dice < 0.8, torch.full_like(originals, mask_id), originals)
    replaced = torch.where((dice >= 0.8) & (dice < 0.9), random_ids, replaced)
    return RandomMask(
        token_ids=token_ids.scatter(1, positions, torch.where(used, replaced, originals)),
        positions=positions,
        labels=originals.masked_fill(~used, IGNORED),
    )
