"""How large a model is, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from anaume.config import SIZES, EncoderConfig, HeadConfig
from anaume.model import Bert
from anaume.model.encoder import EncoderLayer


@dataclass(frozen=True)
class SizeReport:
    """Parameters of one model."""

    name: str
    layers: int
    hidden_size: int
    heads: int
    vocab_size: int
    parts: Mapping[str, int]
    """Part -> parameters; a tensor that two parts share is counted once."""

    @property
    def parameters(self) -> int:
        """All of them."""
        return sum(self.parts.values())

    @property
    def embedding_share(self) -> float:
        """The share of the token embedding table, 0 to 1."""
        return self.parts["token_embeddings"] / self.parameters

    def memory(self, bytes_each: int = 4) -> int:
        """Bytes of the weights alone, at 4 (float32) or 2 (bfloat16) bytes each."""
        return self.parameters * bytes_each

    @property
    def training_memory(self) -> int:
        """Bytes of weights, gradients and both Adam moments in float32, activations apart."""
        return self.parameters * 16


def measure_sizes(model: Bert, name: str) -> SizeReport:
    """Count the parameters of a model, part by part."""
    layers = [layer for layer in model.encoder.layers if isinstance(layer, EncoderLayer)]
    parts = {
        "token_embeddings": model.embeddings.token_embeddings.weight.numel(),
        "segment_embeddings": model.embeddings.segment_embeddings.weight.numel(),
        "position_embeddings": model.embeddings.position_embeddings.weight.numel(),
        "embedding_norm": _count(model.embeddings.layer_norm),
        "attention": sum(_count(layer.attention, layer.attention_norm) for layer in layers),
        "feed_forward": sum(_count(layer.feed_forward, layer.feed_forward_norm) for layer in layers),
    }
    if model.pooler is not None:
        parts["pooler"] = _count(model.pooler)
    for head_name, head in model.heads.items():
        parts[f"head {head_name}"] = _count(head)
    config = model.config
    return SizeReport(
        name, config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.vocab_size, parts
    )


def named_sizes(vocab_size: int = 30522) -> list[SizeReport]:
    """Return the reports of all named sizes, with pooler and masked-word head as pretrained; allocates nothing."""
    reports = []
    for name in SIZES:
        with torch.device("meta"):
            model = Bert(EncoderConfig.named(name, vocab_size=vocab_size), {"mlm": HeadConfig(kind="mlm")}, pooler=True)
        reports.append(measure_sizes(model, name))
    return reports


def _count(*modules: torch.nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())
