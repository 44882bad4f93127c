"""What a stored vector depends on, as hashes: two vectors may be compared when their vector fingerprints are equal."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import torch

from anaume.config import EmbeddingConfig
from anaume.model import Bert

if TYPE_CHECKING:
    from anaume.tokenization import Tokenizer

# Settings that change what the same tensors compute; sizes show in the shapes, dropout and initialisation do not count.
_COMPUTING = ("num_attention_heads", "layer_norm_eps", "activation", "causal")


def weights_fingerprint(model: Bert) -> str:
    """Return sha256 (hex) over the input embeddings and the encoder; pooler and heads apart.

    Hashed are the settings that change what the tensors compute, then each tensor by sorted name: name, shape, and
    its values as little-endian float32. A bfloat16 checkpoint and its float32 copy are equal.
    """
    settings = model.config.to_dict()
    digest = hashlib.sha256(json.dumps({key: settings[key] for key in _COMPUTING}, sort_keys=True).encode())
    tensors = {
        f"{part}.{name}": tensor
        for part, module in (("embeddings", model.embeddings), ("encoder", model.encoder))
        for name, tensor in module.state_dict().items()
    }
    for name in sorted(tensors):
        values = tensors[name].detach().to("cpu", torch.float32).contiguous().numpy()
        digest.update(f"\n{name} {list(values.shape)}\n".encode())
        digest.update(values.astype("<f4", copy=False).data)
    return digest.hexdigest()


def table_fingerprint(table: torch.Tensor) -> str:
    """Return sha256 (hex) over a table of static vectors, (vocab_size, size), as little-endian float32."""
    values = table.detach().to("cpu", torch.float32).contiguous().numpy().astype("<f4", copy=False)
    digest = hashlib.sha256(f"static {list(values.shape)}\n".encode())
    digest.update(values.data)
    return digest.hexdigest()


def vector_fingerprint(
    tokenizer: Tokenizer,
    weights: str,
    embedding: EmbeddingConfig,
    *,
    long: str = "truncate",
    dimensions: int | None = None,
) -> str:
    """Return sha256 (hex) over everything that decides a vector, its precision apart.

    tokenizer   its rules and ordered vocabulary
    weights     `weights_fingerprint` of the model
    embedding   pooling (none stored = mean), normalisation, max_length, prompts
    long        what is done with texts over max_length: "truncate", "window" or "error"
    dimensions  how many are kept, None = all

    "error" never gives another vector than "truncate", so the two are equal here; so are prompts in any order.
    """
    content = {
        "tokenizer": tokenizer.fingerprint,
        "weights": weights,
        "pooling": embedding.pooling or "mean",
        "normalize": embedding.normalize,
        "dimensions": dimensions,
        "max_length": embedding.max_length,
        "long": "truncate" if long == "error" else long,
        "prompts": dict(embedding.prompts),
        "default_prompt": embedding.default_prompt,
        "include_prompt": embedding.include_prompt,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
