"""A bundle with more vocabulary entries: tokenizer, input table and output bias grow together.

The row of a new entry starts as the mean of the rows of its old pieces, and so does its output bias. There is no output
matrix of its own to grow: the masked-word head uses the input table. All else stays bit for bit what it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import tokenizers
import torch
from torch import Tensor

from anaume import __version__
from anaume.bundle.bundle import Bundle
from anaume.bundle.checkpoint import build_model
from anaume.bundle.record import TrainingStage
from anaume.model import Bert
from anaume.tokenization import VocabularyExtension, extend_tokenizer

_TABLE = "embeddings.token_embeddings.weight"


def extend_vocabulary(
    bundle: Bundle,
    texts: Iterable[str] = (),
    *,
    add: int = 0,
    words: Iterable[str] = (),
    min_frequency: int = 2,
) -> tuple[Bundle, VocabularyExtension]:
    """Return a bundle that knows more words, and what they are and change; the given one stays as it is.

    texts          text of the domain: words are learned from it, and the fit is measured on it
    add            learn up to so many words, those that save most pieces
    words          entries you want, each one word under the tokenizer's rules
    min_frequency  how often a learned word must stand in the texts

    A new row is the mean of its old pieces' rows; of a word that was unknown, the mean over the whole vocabulary. Until
    the bundle is trained on (`pretrain` with bundle=), that is all it knows of them. Texts in which no word begins with
    a new entry keep their token IDs and vectors. Vectors of texts from before and after are not mixed: their
    fingerprints differ.

    Raises SettingsError for wrong arguments, DataError when there is nothing to add; warns (AnaumeWarning) of given
    words that can't be entries and of words that became unknown.
    """
    report = extend_tokenizer(bundle.tokenizer, texts, add=add, words=words, min_frequency=min_frequency)
    parts = dataclasses.replace(
        bundle.parts,
        tokenizer=report.tokenizer,
        model=_grown(bundle.model, bundle.tokenizer.vocab_size, report),
        record=bundle.parts.record.then(_stage(bundle, report, min_frequency)),
        source="",
        notes=report.tokenizer.notes,
        report=None,
        fingerprints=None,
    )
    return Bundle(parts, precision=bundle.precision, device=bundle.device), report


def _grown(model: Bert, entries: int, report: VocabularyExtension) -> Bert:
    """Return a copy of the model with rows for the new entries; `entries` are the old ones.

    A table that was padded has rows beyond its entries: they are used first.
    """
    rows = max(model.config.vocab_size, report.tokenizer.vocab_size)
    biases = [f"heads.{name}.bias" for name, head in model.head_configs.items() if head.kind == "mlm"]
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    for name in (_TABLE, *biases):
        state[name] = _with_rows(state[name], rows, entries, report)
    config = dataclasses.replace(model.config, vocab_size=rows)
    return build_model(config, model.head_configs, state, "the extended bundle")


def _with_rows(old: Tensor, rows: int, entries: int, report: VocabularyExtension) -> Tensor:
    """(old rows, ...) -> (rows, ...)."""
    new = torch.cat([old, old.new_zeros(rows - len(old), *old.shape[1:])])
    everything = old[:entries].mean(dim=0)
    for entry in report.entries:
        pieces = list(entry.old_pieces)
        new[entry.token_id] = old[pieces].mean(dim=0) if pieces else everything
    return new


def _stage(bundle: Bundle, report: VocabularyExtension, min_frequency: int) -> TrainingStage:
    before, after = report.before, report.after
    scores = {
        "pieces_per_word_before": before.pieces_per_word,
        "pieces_per_word": after.pieces_per_word,
        "unknown_share_before": before.unknown_share,
        "unknown_share": after.unknown_share,
    }
    return TrainingStage(
        objectives=(),
        data=({"texts": report.texts, "words": before.words, "sha256": report.sha256},) if report.texts else (),
        settings={
            "vocab_size_before": bundle.tokenizer.vocab_size,
            "vocab_size": report.tokenizer.vocab_size,
            "given": len(report.given.tokens),
            "add": report.asked,
            "min_frequency": min_frequency,
            "new_rows": "mean of the old pieces",
        },
        scores=scores if before.words else {},
        versions={"anaume": __version__, "torch": str(torch.__version__), "tokenizers": tokenizers.__version__},
    )
