"""The names of google-research/bert's variables -> Hugging Face's, which `bundle/names.py` knows.

The two differ in spelling only: "/" for ".", layer_0 for layer.0, and the last part. A kernel is (inputs, outputs),
the transpose of a weight; an `output_weights` is (outputs, inputs) already.
"""

from __future__ import annotations

import re

# last part of a name: theirs, Hugging Face's, whether the matrix is transposed
_LAST = {
    "kernel": ("weight", True),
    "bias": ("bias", False),
    "gamma": ("weight", False),
    "beta": ("bias", False),
    "output_weights": ("weight", False),
    "output_bias": ("bias", False),
    "word_embeddings": ("word_embeddings.weight", False),
    "token_type_embeddings": ("token_type_embeddings.weight", False),
    "position_embeddings": ("position_embeddings.weight", False),
}
# What fine-tuning scripts (run_classifier.py, run_squad.py) call their heads.
_HEADS = {
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
}
CLASSIFIER = "output_weights"
"""The variable that only a fine-tuned classifier has."""
_LAYER = re.compile(r"/layer_(\d+)/")
OPTIMIZER_STATE = "the optimizer's state"
"""Why a variable of AdamW's is ignored."""
_MOMENTS = ("adam_m", "adam_v", "Adam", "Adam_1", "lamb_m", "lamb_v")
_COUNTERS = {
    "global_step": "how many steps were trained",
    "beta1_power": OPTIMIZER_STATE,
    "beta2_power": OPTIMIZER_STATE,
    "loss_scale": "a counter of mixed-precision training",
    "current_loss_scale": "a counter of mixed-precision training",
    "good_steps": "a counter of mixed-precision training",
}


def ignored(name: str) -> str:
    """Return why a variable is no weight of a model; "" for one that may be."""
    last = name.rpartition("/")[2]
    if last in _MOMENTS:
        return OPTIMIZER_STATE
    return _COUNTERS.get(last, "")


def renamed(name: str) -> tuple[str, bool]:
    """Return Hugging Face's name of a variable, and whether its matrix must be transposed.

    A name that follows another pattern comes back with "." for "/" alone, for the reader to refuse by name.

    >>> renamed("bert/encoder/layer_3/attention/self/query/kernel")
    ('bert.encoder.layer.3.attention.self.query.weight', True)
    >>> renamed("cls/seq_relationship/output_weights")
    ('cls.seq_relationship.weight', False)
    """
    if name in _HEADS:
        return _HEADS[name], False
    before, _, last = name.rpartition("/")
    theirs, transposed = _LAST.get(last, (last, False))
    path = _LAYER.sub(r"/layer.\1/", f"{before}/{theirs}")
    return path.replace("/", "."), transposed
