"""The model written as ONNX: encoder, pooling and normalisation, or encoder and one head, batch and length dynamic.

It says again what `model/` says, in another language, so the two are compared: every head, every pooling, a spread of
shapes (tests/engines, and each export). Written out and not traced: it takes a moment, needs no tracer, and holds no
shape of a sample.

Inputs have the names and types that other tools feed: input_ids, attention_mask, token_type_ids, (batch, length) int64,
and pooling_mask where prompts don't count in the pooling. Rows are padded on the right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.config import EmbeddingConfig, PoolingMethod
from anaume.engines.graph_names import BATCH, EMBED, LENGTH, LOGITS, MASK, POOLING_MASK, SEGMENT_IDS, TOKEN_IDS, VECTORS
from anaume.engines.onnx_nodes import Name, Nodes
from anaume.model import Bert
from anaume.model.reading import layer_numbers

_HIDDEN = float(np.finfo(np.float32).min / 2)  # as model/visibility.py


def build_graph(model: Bert, embedding: EmbeddingConfig, name: str, metadata: Mapping[str, str]) -> bytes:
    """Return one graph as a serialised ONNX model. Its weights are the model's now, in float32."""
    return _Writer(model, embedding).graph(name, metadata)


class _Writer:
    """Writes one graph of a model."""

    def __init__(self, model: Bert, embedding: EmbeddingConfig) -> None:
        self.model, self.embedding, self.config = model, embedding, model.config
        self.do = Nodes()
        self.state: dict[str, npt.NDArray[np.float32]] = {
            name: tensor.detach().to("cpu").float().numpy() for name, tensor in model.state_dict().items()
        }

    def graph(self, name: str, metadata: Mapping[str, str]) -> bytes:
        do = self.do
        token_ids, mask, segment_ids = (do.input(own, (BATCH, LENGTH)) for own in (TOKEN_IDS, MASK, SEGMENT_IDS))
        self.seen = do("Cast", mask, to=9)  # bool
        self.mask = mask
        self.length = do("Slice", do("Shape", token_ids), do.constant([1]), do.constant([2]))
        self.places = do("Range", do.constant(0), do("Squeeze", self.length), do.constant(1))
        layers = self._layers(token_ids, segment_ids)
        if name == EMBED:
            counted = self.seen
            if not self.embedding.include_prompt:
                counted = do("Cast", do.input(POOLING_MASK, (BATCH, LENGTH)), to=9)
            output = self._pooled(layers[-1], counted, self.embedding.pooling or "mean")
            if self.embedding.normalize:
                length = do("ReduceL2", output, do.constant([1]), keepdims=1)
                output = do("Div", output, do("Max", length, do.constant(1e-12, np.float32)))
            return do.finish(output, VECTORS, (BATCH, self.config.hidden_size), metadata)
        output, axes = self._head(name, layers)
        return do.finish(output, LOGITS, axes, metadata)

    # -- the encoder ---------------------------------------------------------------------------------------------

    def _layers(self, token_ids: Name, segment_ids: Name) -> list[Name]:
        """Return the encoder's input and every layer's output, (batch, length, hidden_size)."""
        do = self.do
        started = do("CumSum", self.mask, do.constant(1))
        before = do("ReduceSum", do("Cast", do("Equal", started, do.constant(0)), to=7), do.constant([1]), keepdims=1)
        positions = do("Max", do("Sub", self.places, before), do.constant(0))
        self.table = self._weight("embeddings.token_embeddings.weight")
        states = do("Gather", self.table, token_ids)
        for part, ids in (("segment", segment_ids), ("position", positions)):
            states = do("Add", states, do("Gather", self._weight(f"embeddings.{part}_embeddings.weight"), ids))
        layers = [self._norm(states, "embeddings.layer_norm")]
        visible = do("Unsqueeze", self.seen, do.constant([1, 2]))
        if self.config.causal:
            rows, columns = (do("Unsqueeze", self.places, do.constant([axis])) for axis in (1, 0))
            visible = do("And", visible, do("LessOrEqual", columns, rows))
        bias = do("Where", visible, do.constant(0.0, np.float32), do.constant(_HIDDEN, np.float32))
        for number in range(self.config.num_hidden_layers):
            layers.append(self._layer(layers[-1], bias, f"encoder.layers.{number}"))
        return layers

    def _layer(self, states: Name, bias: Name, name: str) -> Name:
        do, size, heads = self.do, self.config.hidden_size, self.config.num_attention_heads
        apart, joined = do.constant([0, 0, heads, size // heads]), do.constant([0, 0, size])
        q, k, v = (
            do("Transpose", do("Reshape", part, apart), perm=perm)
            for part, perm in zip(
                do("Split", self._linear(states, f"{name}.attention.qkv"), outputs=3, axis=2, num_outputs=3),
                ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]),
                strict=True,
            )
        )
        q = do("Mul", q, do.constant(1.0 / math.sqrt(size // heads), np.float32))
        weights = do("Softmax", do("Add", do("MatMul", q, k, called=f"{name}.attention.scores"), bias), axis=-1)
        mixed = do("MatMul", weights, v, called=f"{name}.attention.mixed")
        mixed = do("Reshape", do("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        attended = self._linear(mixed, f"{name}.attention.output")
        states = self._norm(do("Add", states, attended), f"{name}.attention_norm")
        inner = self._activated(self._linear(states, f"{name}.feed_forward.expand"))
        fed = self._linear(inner, f"{name}.feed_forward.contract")
        return self._norm(do("Add", states, fed), f"{name}.feed_forward_norm")

    # -- one vector a text ---------------------------------------------------------------------------------------

    def _pooled(self, states: Name, counted: Name, how: PoolingMethod) -> Name:
        """(batch, length, hidden_size), (batch, length) bool -> (batch, hidden_size); zeros where nothing counts."""
        do = self.do
        zero, last = do.constant(0.0, np.float32), do.constant([2])
        numbers = do("Cast", counted, to=7)
        count = do("ReduceSum", numbers, do.constant([1]), keepdims=1)
        if how == "max":
            lowest = do.constant(np.finfo(np.float32).min, np.float32)
            highest = do(
                "ReduceMax", do("Where", do("Unsqueeze", counted, last), states, lowest), do.constant([1]), keepdims=0
            )
            return str(do("Where", do("Greater", count, do.constant(0)), highest, zero))
        if how == "cls":  # the first that counts: its running number is 1
            first = do("Equal", do("CumSum", numbers, do.constant(1)), do.constant(1))
            counted = do("And", counted, first)
        kept = do("Where", do("Unsqueeze", counted, last), states, zero)
        total = do("ReduceSum", kept, do.constant([1]), keepdims=0)
        if how == "cls":
            return str(total)
        size = do("Cast", do("Max", count, do.constant(1)), to=1)
        return str(do("Div", total, do("Sqrt", size) if how == "mean_sqrt" else size))

    # -- heads ---------------------------------------------------------------------------------------------------

    def _head(self, name: str, layers: list[Name]) -> tuple[Name, tuple[str | int, ...]]:
        """Return a head's logits and their axes."""
        do, head, here = self.do, self.model.head_configs[name], f"heads.{name}"
        labels = max(1, len(head.labels))
        if head.kind == "mlm":
            states = self._norm(self._activated(self._linear(layers[-1], f"{here}.dense")), f"{here}.layer_norm")
            logits = do("MatMul", states, do("Transpose", self.table, perm=[1, 0]))
            return do("Add", logits, self._weight(f"{here}.bias")), (BATCH, LENGTH, self.config.vocab_size)
        if head.kind == "span":
            return self._linear(layers[-1], f"{here}.dense"), (BATCH, LENGTH, 2)
        if head.kind == "late-interaction":
            vectors = do("MatMul", layers[-1], do.weight(f"{here}.dense.weight", self.state[f"{here}.dense.weight"].T))
            length = do("ReduceL2", vectors, do.constant([2]), keepdims=1)
            return do("Div", vectors, do("Max", length, do.constant(1e-12, np.float32))), (BATCH, LENGTH, head.size)
        read = [layers[number] for number in layer_numbers(self.config, head.layers)]
        if head.kind == "token-classification":
            states = self._mixed(read, here)
            for number in range(head.recurrent_layers):
                states = self._recurrent(states, here, number)
            return self._linear(states, f"{here}.dense"), (BATCH, LENGTH, labels)
        if head.needs_pooler:
            pooled = do("Tanh", self._linear(self._pooled(layers[-1], self.seen, "cls"), "pooler.dense"))
        else:
            pooled = self._mixed([self._pooled(layer, self.seen, head.pooling) for layer in read], here)
        for number in range(head.head_layers - 1):
            pooled = do("Gelu", self._linear(pooled, f"{here}.hidden.{number}"))
        logits = self._linear(pooled, f"{here}.dense")
        if head.kind == "multiple-choice":
            return do("Squeeze", logits, do.constant([1])), (BATCH,)
        return logits, (BATCH, 2 if head.kind == "nsp" else labels)

    def _mixed(self, read: list[Name], here: str) -> Name:
        """One state of the layers a head reads: the one, side by side, or their weighted sum."""
        do, learned = self.do, self.state.get(f"{here}.mix.weights")
        if learned is None:
            return read[0] if len(read) == 1 else str(do("Concat", *read, axis=-1))
        shares = np.exp(learned - learned.max())
        shares /= shares.sum()
        parts = [do("Mul", own, do.constant(share, np.float32)) for own, share in zip(read, shares, strict=True)]
        return str(do("Sum", *parts))

    def _recurrent(self, states: Name, here: str, number: int) -> Name:
        """One layer of the BiLSTM. The way back reads rows turned round at their own ends, so padding comes last.

        (Engines disagree about a node of two directions with lengths; about turning a row round they do not.)
        """
        do = self.do
        lengths = do("Max", do("ReduceSum", self.mask, do.constant([1]), keepdims=0), do.constant(1))
        ahead = self._lstm(states, f"{here}.recurrent.ahead.{number}")
        back = self._lstm(self._turned(states, lengths), f"{here}.recurrent.back.{number}")
        return str(do("Concat", ahead, self._turned(back, lengths), axis=2))

    def _turned(self, states: Name, lengths: Name) -> Name:
        return str(self.do("ReverseSequence", states, lengths, batch_axis=0, time_axis=1))

    def _lstm(self, states: Name, name: str) -> Name:
        """(batch, length, width) -> (batch, length, size); torch's gates i, f, c, o stand as i, o, f, c in ONNX."""
        do = self.do

        def gates(part: str) -> npt.NDArray[np.float32]:
            i, f, c, o = np.split(self.state[f"{name}.{part}_l0"], 4)
            return np.concatenate([i, o, f, c])[None]

        inputs, carried = gates("weight_ih"), gates("weight_hh")
        steps = do(
            "LSTM",
            do("Transpose", states, perm=[1, 0, 2]),
            do.weight(f"{name}.inputs", inputs),
            do.weight(f"{name}.states", carried),
            do.weight(f"{name}.bias", np.concatenate([gates("bias_ih"), gates("bias_hh")], axis=1)),
            hidden_size=carried.shape[2],
        )  # (length, 1, batch, size)
        return str(do("Transpose", do("Squeeze", steps, do.constant([1])), perm=[1, 0, 2]))

    # -- pieces --------------------------------------------------------------------------------------------------

    def _weight(self, name: str) -> Name:
        return self.do.weight(name, self.state[name])

    def _linear(self, states: Name, name: str) -> Name:
        return self.do.linear(states, self.state[f"{name}.weight"], self.state[f"{name}.bias"], name)

    def _norm(self, states: Name, name: str) -> Name:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return str(self.do("LayerNormalization", states, weight, bias, axis=-1, epsilon=self.config.layer_norm_eps))

    def _activated(self, states: Name) -> Name:
        kind: dict[str, tuple[str, dict[str, Any]]] = {
            "gelu": ("Gelu", {}),
            "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
            "relu": ("Relu", {}),
        }
        op, attributes = kind[self.config.activation]
        return str(self.do(op, states, **attributes))
