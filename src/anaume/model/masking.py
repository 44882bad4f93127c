"""Which words are hidden from the model, and behind what: the masks of masked-word pretraining.

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

MOST_PLACES = 1 << 16
"""Places are packed into 16 bits of a sorting key."""

_CHOOSE, _REPLACE, _RANDOM_TOKEN, _SPAN = range(4)
# A word that does not fit is skipped; each pass tries the next ones. What is left shrinks with each, so that more
# passes than the longest word has pieces change nothing.
_PASSES = 8


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
    seed: int = 0,
    step: int | Tensor = 0,
    rows: Tensor | None = None,
    word_ids: Tensor | None = None,
    span_length: float | None = None,
    mask_share: float = 0.8,
    random_share: float = 0.1,
) -> RandomMask:
    """Choose places and replace them as published: 80 % [MASK], 10 % a random token, 10 % unchanged (section 3.1).

    token_ids     (batch, seq_len) int64
    maskable      (batch, seq_len) bool: True where a place may be chosen (never [CLS], [SEP], [PAD])
    rate          share of the maskable places of each row: exactly max(1, round(rate x n)) of n are chosen
    seed, step    with the row and the place they decide everything: the same whichever batch or rank holds the row;
                  under torch.compile step must be a tensor (a number would be compiled anew at each step)
    rows          (batch,) int64: the number of each row in the global batch; None = 0, 1, 2, ...
    word_ids      (batch, seq_len) int64: whole words are chosen, at most as many places; a word that would pass that
                  number is skipped. None = single pieces
    span_length   runs of about this mean length (geometric) are chosen instead, by the same rule
    mask_share, random_share   shares of chosen places that become [MASK] or a random token; the rest stays

    Every shape is known beforehand: round(rate x seq_len) slots a row, unused ones labelled -100. Raises SettingsError
    (a ValueError) for shares out of range or shapes that differ.
    """
    _check(token_ids, maskable, rate, word_ids, span_length, mask_share, random_share)
    if torch.compiler.is_compiling() and not isinstance(step, Tensor):
        # Its arithmetic would be done on indices, which do not wrap around as 64-bit numbers do.
        raise SettingsError("under torch.compile, step must be a tensor")
    batch, seq_len = token_ids.shape
    device = token_ids.device
    places = torch.arange(seq_len, device=device)
    row_keys = torch.arange(batch, device=device) if rows is None else rows
    seed_key = _signed(seed * _ODD[1] % (1 << 64))
    # A number is filled in on the device: copying it there would wait.
    now = step if isinstance(step, Tensor) else torch.full((), step, dtype=torch.int64, device=device)
    key = (now * _ODD[0] + seed_key) ^ (row_keys[:, None] * _ODD[2])

    if word_ids is not None:
        begins = torch.ones_like(maskable)
        begins[:, 1:] = word_ids[:, 1:] != word_ids[:, :-1]
    elif span_length is not None:
        begins = _uniform(key, places, _SPAN) < 1.0 / span_length
        begins[:, 1:] |= maskable[:, 1:] != maskable[:, :-1]
        begins[:, 0] = True
    else:
        begins = torch.ones_like(maskable)
    # The unit (piece, word or span) of a place is named by the place where it begins.
    unit = torch.where(begins, places, torch.zeros_like(places)).cummax(dim=1).values

    # Units in random order, each with its places in order: 31 random bits, then the unit, then the place.
    random_bits = (_bits(key, unit, _CHOOSE) >> 32) & 0x7FFFFFFF
    order = (random_bits << 32) | (unit << 16) | (MOST_PLACES - 1 - places)
    order = order.masked_fill(~maskable, -1).argsort(dim=1, descending=True)
    available = maskable.sum(dim=1, keepdim=True)
    exact = torch.float32 if device.type == "mps" else torch.float64  # float32 rounds some of rate x n another way
    budget = torch.minimum((rate * available.to(exact)).round().long().clamp(min=1), available)
    slots = min(max(1, round(rate * seq_len)), seq_len)
    if word_ids is None and span_length is None:
        positions = order[:, :slots]
        used = torch.arange(slots, device=device)[None, :] < budget
    else:
        taken = _whole_units(unit.gather(1, order), maskable.gather(1, order), budget)
        first = (~taken).long().argsort(dim=1, stable=True)[:, :slots]
        positions, used = order.gather(1, first), taken.gather(1, first)

    originals = token_ids.gather(1, positions)
    dice = _uniform(key, positions, _REPLACE)
    random_ids = ((_bits(key, positions, _RANDOM_TOKEN) >> 16) & 0x7FFFFFFFFFFF) % vocab_size
    replaced = torch.where(dice < mask_share, torch.full_like(originals, mask_id), originals)
    replaced = torch.where((dice >= mask_share) & (dice < mask_share + random_share), random_ids, replaced)
    return RandomMask(
        token_ids=token_ids.scatter(1, positions, torch.where(used, replaced, originals)),
        positions=positions,
        labels=originals.masked_fill(~used, IGNORED),
    )


def _whole_units(unit: Tensor, maskable: Tensor, budget: Tensor) -> Tensor:
    """Return which places are taken: units in the given order as long as they fit, those that don't are skipped.

    unit, maskable  (batch, seq_len) in random order of units, the places of one side by side
    budget          (batch, 1)
    """
    counts = torch.zeros_like(unit).scatter_add(1, unit, maskable.long())
    size = counts.gather(1, unit)
    places = torch.arange(unit.shape[1], device=unit.device)
    begins = torch.ones_like(maskable)
    begins[:, 1:] = unit[:, 1:] != unit[:, :-1]
    before = places - torch.where(begins, places, torch.zeros_like(places)).cummax(dim=1).values
    active = maskable
    taken = torch.zeros_like(maskable)
    for _ in range(_PASSES):
        last = active.long().cumsum(dim=1) - before + size - 1  # what would be taken after this unit
        taken = active & (last <= budget)
        active = taken | (active & (size <= budget - taken.sum(dim=1, keepdim=True)))
    return taken


# Odd multipliers and the finaliser of SplitMix64 (Steele, Lea and Flood 2014): a counter becomes 64 random bits.
_ODD = (0x1E3779B97F4A7C15, 0x2545F4914F6CDD1D, 0x369DEA0F31A53F85)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_MIX = (_signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB))


def _bits(key: Tensor, places: Tensor, purpose: int) -> Tensor:
    """Return 64 random bits (int64) for each place: a pure function of the key, the place and the purpose."""
    bits = _mixed(key + _signed(purpose * _ODD[1] % (1 << 64)))
    return _mixed(bits ^ (places * _ODD[0]))


def _mixed(bits: Tensor) -> Tensor:
    # int64 shifts keep the sign: the mask makes them logical.
    bits = (bits ^ ((bits >> 30) & 0x3FFFFFFFF)) * _MIX[0]
    bits = (bits ^ ((bits >> 27) & 0x1FFFFFFFFF)) * _MIX[1]
    return bits ^ ((bits >> 31) & 0x1FFFFFFFF)


def _uniform(key: Tensor, places: Tensor, purpose: int) -> Tensor:
    """Return float32 in [0, 1) for each place, on a grid of 2^24."""
    return ((_bits(key, places, purpose) >> 40) & 0xFFFFFF).float() / (1 << 24)


def _check(
    token_ids: Tensor,
    maskable: Tensor,
    rate: float,
    word_ids: Tensor | None,
    span_length: float | None,
    mask_share: float,
    random_share: float,
) -> None:
    if not 0.0 < rate < 1.0:
        raise SettingsError(f"rate must lie between 0 and 1; got {rate!r}")
    if min(mask_share, random_share) < 0.0 or mask_share + random_share > 1.0 + 1e-9:
        raise SettingsError(f"mask_share and random_share must be shares of 1; got {mask_share!r} and {random_share!r}")
    if span_length is not None and (span_length < 1.0 or word_ids is not None):
        raise SettingsError(f"span_length must be at least 1, and goes without word_ids; got {span_length!r}")
    if maskable.shape != token_ids.shape or token_ids.dim() != 2 or maskable.dtype != torch.bool:
        raise SettingsError(
            f"token_ids and maskable (bool) must both be (batch, seq_len); got {tuple(token_ids.shape)} and "
            f"{tuple(maskable.shape)} {maskable.dtype}"
        )
    if token_ids.shape[1] > MOST_PLACES:
        raise SettingsError(f"a row has at most {MOST_PLACES} places; got {token_ids.shape[1]}")
    if word_ids is not None and word_ids.shape != token_ids.shape:
        raise SettingsError(f"word_ids must have the shape of token_ids; got {tuple(word_ids.shape)}")
