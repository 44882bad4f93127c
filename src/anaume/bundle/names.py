"""The table of foreign names: left theirs (Hugging Face), right ours, reversible. The model never learns theirs.

"#" stands for the number of a layer. Three names on the left are joined along the first axis into one tensor of ours
(the fused query, key and value projection), and split again on the way out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anaume.bundle.files import some
from anaume.config import HeadKind
from anaume.errors import BundleError

EMBEDDINGS = (
    ("embeddings.word_embeddings", "embeddings.token_embeddings", ("weight",)),
    ("embeddings.position_embeddings", "embeddings.position_embeddings", ("weight",)),
    ("embeddings.token_type_embeddings", "embeddings.segment_embeddings", ("weight",)),
    ("embeddings.LayerNorm", "embeddings.layer_norm", ("weight", "bias")),
)
LAYER = (
    (
        "encoder.layer.#.attention.self.query encoder.layer.#.attention.self.key encoder.layer.#.attention.self.value",
        "encoder.layers.#.attention.qkv",
        ("weight", "bias"),
    ),
    ("encoder.layer.#.attention.output.dense", "encoder.layers.#.attention.output", ("weight", "bias")),
    ("encoder.layer.#.attention.output.LayerNorm", "encoder.layers.#.attention_norm", ("weight", "bias")),
    ("encoder.layer.#.intermediate.dense", "encoder.layers.#.feed_forward.expand", ("weight", "bias")),
    ("encoder.layer.#.output.dense", "encoder.layers.#.feed_forward.contract", ("weight", "bias")),
    ("encoder.layer.#.output.LayerNorm", "encoder.layers.#.feed_forward_norm", ("weight", "bias")),
)
POOLER = (("pooler.dense", "pooler.dense", ("weight", "bias")),)
# On the right, names inside `heads.NAME.`
_CLASSIFIER = (("classifier", "dense", ("weight", "bias")),)
HEADS: Mapping[HeadKind, Sequence[tuple[str, str, tuple[str, ...]]]] = {
    "mlm": (
        ("cls.predictions.transform.dense", "dense", ("weight", "bias")),
        ("cls.predictions.transform.LayerNorm", "layer_norm", ("weight", "bias")),
        ("cls.predictions", "", ("bias",)),
    ),
    "nsp": (("cls.seq_relationship", "dense", ("weight", "bias")),),
    "classification": _CLASSIFIER,
    "multi-label": _CLASSIFIER,
    "regression": _CLASSIFIER,
    "token-classification": _CLASSIFIER,
    "multiple-choice": _CLASSIFIER,
    "span": (("qa_outputs", "dense", ("weight", "bias")),),
}

# One tensor under two names: (the name in the table above, its twin). Ours always holds one copy.
TIED = (
    ("embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    ("cls.predictions.bias", "cls.predictions.decoder.bias"),
)
# Buffers that old versions stored; they hold 0, 1, 2, ... and zeros, whatever the weights.
IGNORED = {
    "embeddings.position_ids": "a stored constant (0, 1, 2, ...)",
    "embeddings.token_type_ids": "a stored constant (zeros)",
}
# What wrappers and frameworks put before every name ("" last: it fits everything).
_WRAPPERS = ("module.model.", "module.", "model.", "")
_ENCODER_PARTS = ("embeddings.", "encoder.layer.")


@dataclass(frozen=True)
class Entry:
    """One tensor of ours and the tensor, or the tensors to join, it is made of."""

    ours: str
    theirs: tuple[str, ...]


def encoder_entries(num_layers: int) -> list[Entry]:
    """Return the entries of the input embeddings and of every layer."""
    entries = _expand(EMBEDDINGS)
    for layer in range(num_layers):
        entries += _expand(LAYER, layer=layer)
    return entries


def pooler_entries() -> list[Entry]:
    """Return the entries of the pooler."""
    return _expand(POOLER)


def head_entries(kind: HeadKind, name: str) -> list[Entry]:
    """Return the entries of the published head of a kind; `name` is what our model calls it."""
    return _expand(HEADS[kind], before=f"heads.{name}.")


def _expand(
    rows: Iterable[tuple[str, str, tuple[str, ...]]], *, layer: int | None = None, before: str = ""
) -> list[Entry]:
    entries = []
    for theirs, ours, suffixes in rows:
        for suffix in suffixes:
            ours_full = before + (f"{ours}.{suffix}" if ours else suffix)
            names = tuple(f"{name}.{suffix}" for name in theirs.split())
            if layer is not None:
                ours_full = ours_full.replace("#", str(layer))
                names = tuple(name.replace("#", str(layer)) for name in names)
            entries.append(Entry(ours_full, names))
    return entries


def canonical_names(names: Iterable[str]) -> dict[str, str]:
    """Return raw name -> the name in the left column: wrapper prefixes, "bert." and old spellings taken off.

    Old spellings: a last component exactly gamma or beta under LayerNorm, and the component dense_act. A name that is
    none of ours stays as it is (less its wrapper), for the caller to report.

    Raises BundleError when nothing looks like an encoder, or when two names turn out to be one.
    """
    raw = list(names)
    prefix = _encoder_prefix(raw)
    wrapper = prefix.removesuffix("bert.")
    result: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name in raw:
        short = name.removeprefix(prefix) if name.startswith(prefix) else name.removeprefix(wrapper)
        parts = ["dense" if part == "dense_act" else part for part in short.split(".")]
        if len(parts) > 1 and parts[-2] == "LayerNorm":
            parts[-1] = {"gamma": "weight", "beta": "bias"}.get(parts[-1], parts[-1])
        short = ".".join(parts)
        if short in taken:
            raise BundleError(f"the weights hold one tensor under two names, {taken[short]!r} and {name!r}: keep one")
        taken[short] = name
        result[name] = short
    return result


def _encoder_prefix(names: Sequence[str]) -> str:
    """Return the prefix most encoder tensors carry: wrapper + "bert." or the wrapper alone."""
    best, most = "", 0
    for wrapper in _WRAPPERS:
        for prefix in (f"{wrapper}bert.", wrapper):
            count = sum(name.startswith(tuple(prefix + part for part in _ENCODER_PARTS)) for name in names)
            if count > most:
                best, most = prefix, count
    if not most:
        expected = encoder_entries(1)[0].theirs[0]
        raise BundleError(
            f"no encoder tensor matched: unknown are {some(sorted(names), 3)}; "
            f"missing are {expected}, encoder.layer.0.attention.self.query.weight ... (with or without the prefix "
            "bert., module., model.): is this a BERT checkpoint?"
        )
    return best


def settle_tied(tensors: dict[str, Tensor]) -> tuple[str, ...]:
    """Fold the second names of tied tensors into the first, in place; return the second names that were there.

    Raises BundleError when the two hold different values: our output matrix is the embedding table itself.
    """
    folded = []
    for kept, twin in TIED:
        if twin not in tensors:
            continue
        other = tensors.pop(twin)
        if kept in tensors and not torch.equal(tensors[kept], other):
            raise BundleError(
                f"{twin} {tuple(other.shape)} and {kept} {tuple(tensors[kept].shape)} hold different values: anaume's "
                "MLM head uses the embedding table itself (tied weights), an untied one can't be read"
            )
        tensors[kept] = other
        folded.append(twin)
    return tuple(folded)


def join(tensors: Mapping[str, Tensor], entries: Iterable[Entry]) -> dict[str, Tensor]:
    """Return the tensors of `entries` by our names; all must be there and fit (see `checkpoint.read_checkpoint`)."""
    ours: dict[str, Tensor] = {}
    for entry in entries:
        parts = [tensors[name] for name in entry.theirs]
        ours[entry.ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
    return ours


def split(state: Mapping[str, Tensor], entries: Iterable[Entry], *, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of `entries` by their names: the way back from `join`. `prefix` goes before every name."""
    theirs: dict[str, Tensor] = {}
    for entry in entries:
        parts = state[entry.ours].chunk(len(entry.theirs))
        theirs.update({prefix + name: part for name, part in zip(entry.theirs, parts, strict=True)})
    return theirs


def natural_order(name: str) -> tuple[str | int, ...]:
    """Return a sort key that puts layer.2 before layer.10."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))
