"""Tiny bundles and tiny foreign checkpoints, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from anaume.bundle.parts import BundleParts
from anaume.bundle.read import read_bundle
from anaume.bundle.write import write_bundle
from anaume.config import EmbeddingConfig, HeadConfig
from anaume.errors import AnaumeError
from anaume.tokenization import Tokenizer, TokenizerRules
from helpers import SPECIALS
from tiny_models import tiny_bert

WORDS = (
    "the a my your dog cat bank river is was cute open closed and of to ##s ##ing , . ? 銀 行 q : x y z w v".split()  # noqa: SIM905
)
VOCAB = [*SPECIALS, *WORDS]
TEXTS = [
    "my dog is cute",
    "the bank of the river",
    "your cats , 銀行 ?",
    "a",
    "",
    "unknown words here and there . " * 6,
]


def tiny_tokenizer(**rules: Any) -> Tokenizer:
    return Tokenizer(VOCAB, TokenizerRules.from_dict(rules))


def tiny_parts(
    heads: dict[str, HeadConfig] | None = None,
    *,
    pooler: bool | None = None,
    embedding: EmbeddingConfig | None = None,
    rules: dict[str, Any] | None = None,
    **settings: Any,
) -> BundleParts:
    settings.setdefault("vocab_size", len(VOCAB))
    return BundleParts(
        tokenizer=tiny_tokenizer(**(rules or {})),
        model=tiny_bert(heads, pooler=pooler, **settings),
        embedding=embedding or EmbeddingConfig(max_length=40),
    )


def save_tiny(path: Path, *args: Any, **other: Any) -> Path:
    write_bundle(tiny_parts(*args, **other), path)
    return path


def foreign(path: Path, heads: dict[str, HeadConfig] | None = None, **other: Any) -> Path:
    """A Hugging Face directory: a bundle without what only anaume writes."""
    save_tiny(path, heads, **other)
    for name in ("anaume.json", "README.md"):
        (path / name).unlink()
    return path


def tensors_of(path: Path) -> dict[str, Tensor]:
    return safetensors.torch.load((path / "model.safetensors").read_bytes())


def put_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    safetensors.torch.save_file(copies, path / "model.safetensors", metadata or {"format": "pt"})


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON object; None removes one."""
    content = {**json.loads(path.read_text("utf-8")), **changes}
    content = {key: value for key, value in content.items() if value is not None or key not in changes}
    path.write_text(json.dumps(content), "utf-8")


def hidden(parts: BundleParts, texts: list[str] | None = None) -> Tensor:
    """The real tokens' vectors of some texts, (tokens, hidden_size)."""
    rows = []
    for encoding in parts.tokenizer.encode_batch(texts or TEXTS, max_length=40):
        with torch.no_grad():
            output = parts.model(torch.tensor([encoding.token_ids]), None)
        rows.append(output.last_hidden_state[0])
    return torch.cat(rows)


def same_parts(one: BundleParts, other: BundleParts) -> bool:
    """Whether two bundles hold bit for bit the same, records and notes apart."""
    a, b = one.model.state_dict(), other.model.state_dict()
    return (
        one.tokenizer.fingerprint == other.tokenizer.fingerprint
        and one.model.config == other.model.config
        and one.model.head_configs == other.model.head_configs
        and one.embedding == other.embedding
        and a.keys() == b.keys()
        and all(torch.equal(a[name], b[name]) for name in a)
    )


def refusal(path: Path) -> str:
    """The one line with which a directory is refused."""
    with pytest.raises(AnaumeError) as caught:
        read_bundle(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
