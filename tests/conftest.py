"""Fixtures that several packages' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch comes in: for tiny tensors its threads only wait for each other, and longest on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis

from anaume.config import EmbeddingConfig, EncoderConfig
from anaume.tokenization import Tokenizer

# No time limits: what a machine does beside the tests is no fault of theirs.
hypothesis.settings.register_profile("anaume", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("anaume")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep graphs in a folder of this run: what an earlier one left would hide how they are made."""
    os.environ["ANAUME_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Say what `-n auto` means: a process for each core that may be used, at most four (each holds torch)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(4, cores)


CORPUS = (
    "the dog is cute and the dog likes playing",
    "my cat is not cute but it likes the bank of the river",
    "the bank lent money to the man who owns the dog",
    "a river runs past the old bank and the money is gone",
) * 3


@pytest.fixture(scope="session")
def tiny_tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer's directory without weights."""
    folder = tmp_path_factory.mktemp("tokenizer") / "tiny-tokenizer"
    Tokenizer.train(CORPUS, vocab_size=120).save(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bundle_dir(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer_dir: Path) -> Path:
    """A saved bundle: two layers of 16, mean pooling, unit vectors, two prompts, 16 tokens at most; only read."""
    from anaume.bundle import Bundle

    tokenizer = Tokenizer.from_directory(tiny_tokenizer_dir)
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
    )
    embedding = EmbeddingConfig(
        pooling="mean",
        normalize=True,
        max_length=16,
        prompts={"query": "the dog ", "passage": ""},
    )
    folder = tmp_path_factory.mktemp("bundle") / "tiny-bundle"
    Bundle.new(tokenizer, config, heads=["mlm"], embedding=embedding).save(folder)
    return folder


@pytest.fixture(scope="session")
def tuned_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a tiny fine-tuning of two classes made, "m" in a folder beside its train.tsv and dev.tsv; only read."""
    from tiny_tuned import tiny_finetune

    folder = tmp_path_factory.mktemp("tuned")
    tiny_finetune(folder, "m", "run.steps=20", "run.evaluations=2", "optimizer.learning_rate=0.01")
    return folder / "m"
