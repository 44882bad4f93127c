"""What graphs, and what goes into and comes out of them, are called: by the names other tools feed and read."""

from __future__ import annotations

from anaume.model import Bert

EMBED = "text.vectors"
"""The graph that gives text vectors; a head's graph has the head's name, which holds no dot."""
TOKEN_IDS, MASK, SEGMENT_IDS, POOLING_MASK = "input_ids", "attention_mask", "token_type_ids", "pooling_mask"
VECTORS, LOGITS = "sentence_embedding", "logits"
BATCH, LENGTH = "batch", "length"


def graph_names(model: Bert) -> list[str]:
    """Return the graphs a model has: its vectors, and one a head."""
    return [EMBED, *model.head_configs]
