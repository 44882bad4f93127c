"""Foreign tensors -> our model, and back: every tensor is used or the load fails naming it; nothing is made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anaume.bundle.files import one_line, some
from anaume.bundle.huggingface import ARCHITECTURES, TEXT_KINDS, ForeignConfig, head_for
from anaume.bundle.names import (
    IGNORED,
    Entry,
    canonical_names,
    encoder_entries,
    head_entries,
    join,
    natural_order,
    pooler_entries,
    settle_tied,
    split,
)
from anaume.bundle.parts import LoadReport
from anaume.bundle.weights import StoredTensors, require_floats
from anaume.config import EncoderConfig, HeadConfig
from anaume.errors import BundleError
from anaume.model import Bert

_CLASSIFIER_OF = {
    "BertForSequenceClassification": "text",
    "BertForTokenClassification": "token-classification",
    "BertForMultipleChoice": "multiple-choice",
}


@dataclass(frozen=True)
class Checkpoint:
    """What a foreign weights file held, by our names."""

    state: dict[str, Tensor]
    heads: dict[str, HeadConfig]
    report: LoadReport


def read_checkpoint(
    stored: StoredTensors, config: ForeignConfig, where: str, settings: str = "config.json"
) -> Checkpoint:
    """Sort the tensors of a checkpoint into encoder, pooler and heads.

    where, settings  what errors call the weights and the file that `config` came from

    Raises BundleError naming every tensor that is missing from the encoder or from a head that is partly there, that
    is left over, of a wrong shape, not floating point or not finite.
    """
    names = canonical_names(stored.tensors)
    ignored = {raw: IGNORED[name] for raw, name in names.items() if name in IGNORED}
    used = [raw for raw in names if raw not in ignored]
    require_floats(used, stored)
    tensors = {names[raw]: stored.tensors[raw] for raw in used}
    raw_name = {names[raw]: raw for raw in used}
    has_decoder = "cls.predictions.decoder.weight" in tensors
    tied = settle_tied(tensors)

    pooler = any(name.startswith("pooler.") for name in tensors)
    if config.encoder.num_hidden_layers > len(stored.tensors):  # don't list a million missing names
        raise BundleError(
            f"{where}: {settings} says {config.encoder.num_hidden_layers:,} layers, and the weights hold only "
            f"{len(stored.tensors)} tensors"
        )
    encoder = encoder_entries(config.encoder.num_hidden_layers)
    entries = encoder + (pooler_entries() if pooler else [])
    heads: dict[str, HeadConfig] = {}
    for kind, outputs in _heads_in(tensors, config, where):
        head = head_for(kind, config, outputs, where)
        heads[head.kind] = head
        entries = entries + head_entries(head.kind, head.kind)
    _require_all_used(entries, tensors, raw_name, where, settings)
    if "mlm" in heads and not config.tied and not has_decoder:
        raise BundleError(
            f"{where}: tie_word_embeddings is false, but the MLM output matrix (cls.predictions.decoder.weight) is "
            "not in the weights"
        )
    needing = [name for name, head in heads.items() if head.needs_pooler]
    if needing and not pooler:
        raise BundleError(f"{where}: the head {', '.join(needing)} reads the pooler, which is not in the weights")
    _require_shapes(entries, tensors, empty_model(config.encoder, heads, pooler), where, settings)
    expected = sum(len(entry.theirs) for entry in encoder)
    report = LoadReport(
        encoder_loaded=expected,
        encoder_expected=expected,
        heads=(*(("pooler",) if pooler else ()), *heads),
        absent=_absent(config.architecture, heads, pooler),
        ignored=tuple(ignored.items()),
        tied=tied,
        stored_dtype=stored.stored_dtype,
    )
    return Checkpoint(join(tensors, entries), heads, report)


def _heads_in(tensors: Mapping[str, Tensor], config: ForeignConfig, where: str) -> list[tuple[str, int]]:
    """Return (kind, rows of the last matrix) of every head that left a tensor in the file."""
    found: list[tuple[str, int]] = []
    for prefix, kind in (
        ("cls.predictions.", "mlm"),
        ("cls.seq_relationship.", "nsp"),
        ("classifier.", _CLASSIFIER_OF.get(config.architecture, "")),
        ("qa_outputs.", "span"),
    ):
        if not any(name.startswith(prefix) for name in tensors):
            continue
        if not kind:
            raise BundleError(
                f"{where}: the weights hold a classifier, but architectures names {config.architecture or 'no class'}: "
                f"name the one it belongs to, {', '.join(_CLASSIFIER_OF)}"
            )
        last = tensors.get(f"{prefix}weight")
        found.append((kind, last.shape[0] if last is not None and last.dim() == 2 else 0))
    return found


def _require_all_used(
    entries: list[Entry], tensors: Mapping[str, Tensor], raw_name: Mapping[str, str], where: str, settings: str
) -> None:
    wanted = {name for entry in entries for name in entry.theirs}
    missing = sorted(wanted - tensors.keys(), key=natural_order)
    unknown = sorted((raw_name.get(name, name) for name in tensors.keys() - wanted), key=natural_order)
    if missing or unknown:
        raise BundleError(
            f"{where}: the weights do not fit. Missing ({len(missing)}): {some(missing)}. "
            f"Unknown ({len(unknown)}): {some(unknown)}. Nothing is loaded in part: do they belong to this {settings}?"
        )


def _require_shapes(
    entries: list[Entry], tensors: Mapping[str, Tensor], model: Bert, where: str, settings: str
) -> None:
    ours = model.state_dict()
    wrong = []
    for entry in entries:
        rows, *rest = ours[entry.ours].shape
        expected = (rows // len(entry.theirs), *rest)
        wrong += [
            f"{name} is {tuple(tensors[name].shape)}, {settings} says {expected}"
            for name in entry.theirs
            if tensors[name].shape != expected
        ]
    if wrong:
        raise BundleError(
            f"{where}: {len(wrong)} tensors have wrong shapes: {'; '.join(wrong[:3])}: do they belong together?"
        )


def _absent(architecture: str, heads: Mapping[str, HeadConfig], pooler: bool) -> tuple[str, ...]:
    kinds, has_pooler = ARCHITECTURES.get(architecture, ((), False))
    there = {"text" if head.kind in TEXT_KINDS else head.kind for head in heads.values()}
    absent = [f"the {'classification' if kind == 'text' else kind} head" for kind in kinds if kind not in there]
    return (*(["the pooler"] if has_pooler and not pooler else []), *absent)


def empty_model(encoder: EncoderConfig, heads: Mapping[str, HeadConfig], pooler: bool) -> Bert:
    """Return a model without storage: its shapes are known, nothing is drawn. Raises BundleError for absurd sizes."""
    try:
        with torch.device("meta"):
            return Bert(encoder, heads, pooler=pooler)
    except (RuntimeError, TypeError, OverflowError) as error:
        raise BundleError(f"the sizes of config.json are beyond any machine: {one_line(error)}") from error


def build_model(
    encoder: EncoderConfig, heads: Mapping[str, HeadConfig], state: Mapping[str, Tensor], where: str
) -> Bert:
    """Return the model that holds exactly these tensors; nothing is drawn. Raises BundleError for wrong shapes."""
    model = empty_model(encoder, heads, "pooler.dense.weight" in state)
    expected = model.state_dict()
    missing, unknown = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    if missing or unknown:
        raise BundleError(f"{where}: missing tensors: {some(missing)}; unknown tensors: {some(unknown)}")
    wrong = [
        f"{name} is {tuple(state[name].shape)}, the settings say {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if state[name].shape != tensor.shape
    ]
    if wrong:
        raise BundleError(
            f"{where}: {len(wrong)} tensors have wrong shapes: {'; '.join(wrong[:3])}: do they belong together?"
        )
    model.load_state_dict({name: tensor.contiguous() for name, tensor in state.items()}, assign=True)
    return model.eval()


def published_tensors(model: Bert, architecture: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return (tensors of the published class by Hugging Face names, the rest by our names), float32 on the CPU."""
    state = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in model.state_dict().items()}
    kinds, has_pooler = ARCHITECTURES[architecture]
    prefix = "" if architecture == "BertModel" else "bert."
    entries = encoder_entries(model.config.num_hidden_layers)
    if has_pooler and model.pooler is not None:
        entries = entries + pooler_entries()
    theirs = split(state, entries, prefix=prefix)
    used = {entry.ours for entry in entries}
    for name, head in model.head_configs.items():
        if head.kind in kinds or ("text" in kinds and head.kind in TEXT_KINDS):
            rows = head_entries(head.kind, name)
            theirs |= split(state, rows)
            used |= {entry.ours for entry in rows}
    return theirs, {name: tensor for name, tensor in state.items() if name not in used}
