"""An encoder distilled into one vector a token: no context, and no forward pass.

Each entry of the vocabulary goes through the encoder alone, [CLS] token [SEP], and gives its last vector. PCA keeps the
directions in which they differ; rare tokens count more, a / (a + probability) (Arora et al. 2017, SIF). The weights are
folded into the table: a text's vector is the plain sum of its rows, scaled to length 1. The recipe is Model2Vec's
(MinishLab, 2024), but for the token's own vector in place of the mean over the three: see decision 21.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.decomposition import PCA

from anaume.bundle import Bundle
from anaume.bundle.exported import LONGEST_STATIC, Exported
from anaume.bundle.exported_files import TABLE, TABLE_FILE, shape_only, write_export
from anaume.bundle.fingerprint import table_fingerprint
from anaume.bundle.parts import BundleParts
from anaume.bundle.sentence_transformers import write_static_settings
from anaume.bundle.weights import write_safetensors
from anaume.config import EmbeddingConfig
from anaume.data.labelled import TextExample
from anaume.engines import Batch
from anaume.errors import SettingsError
from anaume.exporting.certificate import Certificate, compare_texts, correlate_pairs
from anaume.tokenization import Tokenizer
from anaume.tokenization.rules import SPECIAL_FIELDS

DIMENSIONS = 256
COMMON_OF_TEXTS, COMMON_OF_RANKS = 1e-3, 1e-4
"""The a of a / (a + probability): with probabilities counted in texts, and guessed from the order of the vocabulary."""
_HELD_OUT, _MOST = 10, 1_000  # every tenth text is kept for the certificate, up to so many
_AT_ONCE = 512


@dataclass(frozen=True)
class Distilled:
    """A table of static vectors."""

    table: npt.NDArray[np.float32]
    """(vocab_size, dimensions), weights folded in; zeros for special and unused entries."""
    explained: float
    """The share of the variance that PCA kept, 0 to 1."""
    entries: int
    """How many entries have a vector."""


def export_static(
    bundle: Bundle,
    out: str | Path,
    *,
    dimensions: int | None = None,
    texts: Sequence[str] = (),
    pairs: Sequence[TextExample] = (),
) -> Certificate:
    """Distil a bundle into a static export, the directory `out`, and return its certificate.

    dimensions  numbers a vector; None = 256, or the hidden size where that is smaller
    texts       of your domain: frequencies are counted in them, and every tenth is held out to measure the loss;
                none = frequencies are guessed from the order of the vocabulary, and the loss is not measured
    pairs       pairs with a number (STS): the correlation of input table, static export and encoder with it

    sentence-transformers opens the directory as StaticEmbedding, with the same numbers (MeCab words apart, which only
    anaume can cut). Prompts are kept, and always count. Raises SettingsError for wrong arguments, BundleError for a
    place where nothing can be saved.
    """
    size = min(DIMENSIONS, bundle.config.hidden_size) if dimensions is None else dimensions
    if not 1 <= size <= bundle.config.hidden_size:
        raise SettingsError(f"dimensions must be from 1 to {bundle.config.hidden_size}, the hidden size; got {size}")
    held_out = list(texts[::_HELD_OUT][:_MOST])
    counted = [text for number, text in enumerate(texts) if number % _HELD_OUT or number // _HELD_OUT >= _MOST]
    distilled = distil(bundle, size, counted)
    table = torch.from_numpy(distilled.table)
    exported = Exported(
        form="static",
        embedding_size=size,
        weights=table_fingerprint(table),
        graphs={},
        certificate={},
        table=table,
    )
    parts = BundleParts(
        tokenizer=bundle.tokenizer,
        model=shape_only(bundle.config, {}),
        embedding=EmbeddingConfig(
            pooling="mean",
            normalize=True,
            max_length=LONGEST_STATIC,
            prompts=bundle.embedding.prompts,
            default_prompt=bundle.embedding.default_prompt,
        ),
        record=bundle.parts.record,
        source="a static export",
        exported=exported,
    )
    static = Bundle(parts, device="cpu")
    certificate = Certificate(
        form="static",
        made_from=bundle.fingerprint,
        settings={
            "dimensions": size,
            "explained_variance": round(distilled.explained, 6),
            "entries": distilled.entries,
            "frequencies": f"counted in {len(counted):,} texts" if counted else "guessed from the vocabulary's order",
        },
        texts=compare_texts(bundle, static, held_out) if held_out else None,
        pairs=correlate_pairs({"input table": input_table(static, bundle), "static": static, "encoder": bundle}, pairs)
        if pairs
        else None,
    )

    def write(directory: Path) -> tuple[list[str], dict[str, Any]]:
        write_safetensors(directory / TABLE_FILE, {TABLE: table})
        names = [TABLE_FILE]
        if bundle.tokenizer.rules.words != "mecab":  # no tokenizer.json can hold MeCab: only anaume could open it
            names += write_static_settings(directory, parts.embedding)
        return names, certificate.to_dict()

    write_export(parts, out, write, lambda directory: _check(directory, static, held_out or _SAMPLE))
    return certificate


_SAMPLE = ("the quick brown fox", "", "銀行 bank 123", "a . " * 700)


def _check(directory: Path, wanted: Bundle, texts: Sequence[str]) -> None:
    """The finished directory, opened as anyone would, gives the very vectors that were measured."""
    found = Bundle.load(directory, device="cpu")
    one, other = (b.embed_report(list(texts)[:100]).vectors for b in (found, wanted))
    assert np.array_equal(one, other), "a static export read back gives other vectors"


def distil(bundle: Bundle, dimensions: int, texts: Sequence[str] = ()) -> Distilled:
    """Return the table of a bundle; `texts` are counted for the weights. Arguments as in `export_static`."""
    tokenizer = bundle.tokenizer
    entries = _entries(tokenizer)
    vectors = np.concatenate(list(_alone(bundle, entries)))
    pca = PCA(min(dimensions, len(entries)), svd_solver="full").fit(vectors)
    kept = np.zeros((len(entries), dimensions), dtype=np.float32)
    kept[:, : pca.n_components_] = pca.transform(vectors)
    table = np.zeros((tokenizer.vocab_size, dimensions), dtype=np.float32)
    table[entries] = kept * _weights(tokenizer, entries, texts)[:, None]
    return Distilled(table, float(pca.explained_variance_ratio_.sum()), len(entries))


def _entries(tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """Return the IDs that stand for something: special and unused entries apart, and [UNK] with them."""
    rules = tokenizer.rules
    specials = {getattr(rules, field) for field in SPECIAL_FIELDS}
    return np.array(
        [
            token_id
            for token_id, token in enumerate(tokenizer.vocab)
            if token not in specials and not token.startswith("[unused")
        ]
    )


def _alone(bundle: Bundle, entries: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.float32]]:
    """Yield each entry's vector when it stands alone between [CLS] and [SEP], (entries, hidden_size), in batches."""
    tokenizer, engine = bundle.tokenizer, bundle.engine
    for start in range(0, len(entries), _AT_ONCE):
        own = entries[start : start + _AT_ONCE]
        rows = np.stack([np.full_like(own, tokenizer.cls_id), own, np.full_like(own, tokenizer.sep_id)], axis=1)
        states = engine.hidden_states(Batch(rows, np.ones(rows.shape, dtype=np.bool_)))
        yield states.last_hidden_state[:, 1].numpy()


def _weights(tokenizer: Tokenizer, entries: npt.NDArray[np.int64], texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return a / (a + probability) of each entry."""
    if texts:
        counts = np.full(tokenizer.vocab_size, 0.5)  # what was not seen is rare, not impossible
        for start in range(0, len(texts), _AT_ONCE):
            for encoding in tokenizer.encode_batch(texts[start : start + _AT_ONCE]):
                np.add.at(counts, encoding.token_ids, 1.0)
        common, probabilities = COMMON_OF_TEXTS, counts[entries] / counts[entries].sum()
    else:  # Zipf: the r-th entry has a share of 1 / r, as far as a vocabulary stands in the order of frequency
        shares = 1.0 / np.arange(1, len(entries) + 1)
        common, probabilities = COMMON_OF_RANKS, shares / shares.sum()
    weights: npt.NDArray[np.float32] = (common / (common + probabilities)).astype(np.float32)
    return weights


def input_table(static: Bundle, bundle: Bundle) -> Bundle:
    """Return the static bundle with the encoder's own input table for its rows: what an encoder starts from."""
    exported = static.exported
    assert exported is not None
    table = torch.zeros(static.tokenizer.vocab_size, bundle.config.hidden_size)
    entries = torch.from_numpy(_entries(bundle.tokenizer))
    table[entries] = bundle.model.embeddings.token_embeddings.weight.detach().float().cpu()[entries]
    rows = replace(exported, table=table, embedding_size=bundle.config.hidden_size)
    return Bundle(replace(static.parts, exported=rows), device="cpu")
