"""Made tests/golden/bundle-v1, once, with format version 1. Kept to show what is in it; never run it over that.

    PYTHONPATH=src python tests/golden/make_bundle_v1.py OUT

The weights are an exact formula, not a generator's, so that another machine makes the same bytes.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch

from anaume.bundle.parts import BundleParts
from anaume.bundle.record import TrainingRecord, TrainingStage
from anaume.bundle.write import write_bundle
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.errors import AnaumeWarning
from anaume.model import Bert
from anaume.tokenization import Tokenizer

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] the a dog cat is ##s cute 犬 猫 か ##わ ##い , .".split()  # noqa: SIM905


def make() -> BundleParts:
    """Return the parts of the golden bundle."""
    config = EncoderConfig(
        vocab_size=len(VOCAB),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )
    heads = {
        "mlm": HeadConfig(kind="mlm"),
        "mood": HeadConfig(kind="classification", labels=("good", "悪い"), pooling="mean", head_layers=2),
        "tags": HeadConfig(kind="token-classification", labels=("O", "B", "I")),
    }
    model = Bert(config, heads, pooler=True)
    with torch.no_grad():
        for number, (name, parameter) in enumerate(sorted(model.named_parameters())):
            step = torch.arange(parameter.numel(), dtype=torch.float64) * (7 + number) % 61 - 30
            values = (step / 61 + (1.0 if "norm" in name and name.endswith("weight") else 0.0)).float()
            parameter.copy_(values.view(parameter.shape))
    record = TrainingRecord.foreign("golden-base").then(
        TrainingStage(
            objectives=("mlm",),
            data=({"name": "corpus.txt", "sha256": "0" * 64, "rows": 3},),
            settings={"steps": 2, "learning_rate": 0.001},
            scores={"loss": {"mean": 2.5, "low": 2.4, "high": 2.6, "seeds": 3}},
            versions={"anaume": "0.1.0"},
        )
    )
    return BundleParts(
        tokenizer=Tokenizer(VOCAB),
        model=model.eval(),
        embedding=EmbeddingConfig(
            pooling="mean_sqrt",
            normalize=True,
            max_length=12,
            prompts={"query": "the ", "passage": ""},
            default_prompt="query",
            include_prompt=False,
            similarity="dot",
        ),
        record=record,
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore", AnaumeWarning)
    write_bundle(make(), Path(sys.argv[1]))
