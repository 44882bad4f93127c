"""Parts -> a directory: a Hugging Face (and sentence-transformers) model directory with anaume.json beside."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from anaume import __version__
from anaume.bundle import sentence_transformers
from anaume.bundle.card import write_card
from anaume.bundle.checkpoint import published_tensors
from anaume.bundle.directory import save_directory
from anaume.bundle.files import json_text, some, write_text
from anaume.bundle.fingerprint import vector_fingerprint, weights_fingerprint
from anaume.bundle.format import CARD, FILE, HEADS_FILE, Manifest, describe_files, vocab_checks
from anaume.bundle.huggingface import published_class, write_config
from anaume.bundle.parts import BundleParts, Fingerprints
from anaume.bundle.weights import SAFETENSORS, not_finite, write_safetensors
from anaume.errors import AnaumeWarning, BundleError, SettingsError
from anaume.logs import get_logger

logger = get_logger(__name__)


def write_bundle(parts: BundleParts, path: str | Path) -> None:
    """Save the parts as a bundle directory; what stood there is replaced whole or stays whole (see directory.py).

    Warns (AnaumeWarning) when heads had to go where only anaume finds them. Raises BundleError as `save_directory`
    does, and for parts that do not belong together.
    """
    _check(parts)
    model = parts.model
    architecture = published_class(model.config, model.head_configs)
    theirs, rest = published_tensors(model, architecture)
    bad = not_finite({**theirs, **rest})
    if bad:
        raise BundleError(
            f"{path}: nothing was saved: these weights hold NaN or infinite values, and no load would take them: "
            f"{some(bad)}; go back to a sound checkpoint (the training diverged?)"
        )
    weights = weights_fingerprint(model)
    fingerprints = Fingerprints(
        tokenizer=parts.tokenizer.fingerprint,
        weights=weights,
        vector=vector_fingerprint(parts.tokenizer, weights, parts.embedding),
    )
    limits = _limits(parts, architecture, rest)

    def write(directory: Path) -> None:
        names = parts.tokenizer.save(directory, max_length=parts.embedding.max_length)
        config = write_config(model.config, model.head_configs, architecture, parts.tokenizer.pad_id)
        write_text(directory / "config.json", json_text(config))
        write_safetensors(directory / SAFETENSORS, theirs)
        names += ["config.json", SAFETENSORS]
        if rest:
            write_safetensors(directory / HEADS_FILE, rest)
            names.append(HEADS_FILE)
        if parts.embedding.pooling is not None:
            names += sentence_transformers.write_settings(directory, parts.embedding, model.config.hidden_size)
        write_text(directory / CARD, write_card(parts, fingerprints, architecture, limits))
        names.append(CARD)
        manifest = Manifest(
            anaume_version=__version__,
            fingerprints=fingerprints,
            files=describe_files(directory, names),
            rules=parts.tokenizer.rules,
            vocab_size=parts.tokenizer.vocab_size,
            vocab_checks=vocab_checks(parts.tokenizer.vocab),
            encoder=model.config,
            heads=model.head_configs,
            embedding=parts.embedding,
            training=parts.record,
            tasks=dict(parts.tasks),
        )
        write_text(directory / FILE, json_text(manifest.to_dict()))
        logger.debug("wrote %d tensors as %s, %d apart", len(theirs), architecture, len(rest))

    save_directory(path, write)
    apart = sorted(name for name in model.head_configs if any(key.startswith(f"heads.{name}.") for key in rest))
    if apart:
        warnings.warn(
            f"{path}: no Hugging Face class holds these heads as they are: {', '.join(apart)}; they are in "
            f"{HEADS_FILE}, which anaume reads, and transformers will see the encoder alone (BertModel)",
            AnaumeWarning,
            stacklevel=2,
        )


def _check(parts: BundleParts) -> None:
    if parts.exported is not None:
        raise SettingsError(
            f"an export ({parts.exported.form}) holds no weights to save: copy its directory, or export its bundle anew"
        )
    rows, entries = parts.model.config.vocab_size, parts.tokenizer.vocab_size
    if entries > rows:
        raise BundleError(
            f"the tokenizer has {entries} entries and the embedding table {rows} rows: they do not belong together"
        )
    longest = parts.model.config.max_position_embeddings
    if parts.embedding.max_length > longest:
        raise BundleError(f"max_length is {parts.embedding.max_length}, and the position table has {longest} rows")


def _limits(parts: BundleParts, architecture: str, rest: Mapping[str, Tensor]) -> list[str]:
    config = parts.model.config
    limits = [
        f"At most {config.max_position_embeddings} tokens at once; longer texts are cut or windowed, with a warning."
    ]
    if architecture == "BertModel" and parts.model.pooler is None:
        limits.append(
            "The weights hold no pooler: transformers' AutoModel reports it missing and draws one; don't use it."
        )
    if rest:
        limits.append(
            f"`{HEADS_FILE}` holds what only anaume reads: {', '.join(sorted({_part(name) for name in rest}))}."
        )
    limits += [finding.sentence for finding in parts.tokenizer.self_check.findings]
    return limits


def _part(name: str) -> str:
    return name.split(".")[1] if name.startswith("heads.") else "the pooler"
