"""The model written as ONNX says what the model says: in ONNX Runtime and in OpenVINO, which disagree about nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.config import EmbeddingConfig, PoolingMethod
from anaume.engines import EMBED, Batch, GraphEngine, OnnxRunner, OpenVinoRunner, TorchEngine, graph_names
from anaume.engines.graph_engine import Runner
from anaume.engines.runners import Plan
from anaume.errors import SettingsError
from anaume.model import Bert
from tiny_graphs import SHAPES, apart, heads_of_all_kinds, needs, padded_batch
from tiny_models import tiny_bert

pytestmark = needs("onnx")
BOUND = 1e-5
RUNTIMES = [
    pytest.param("onnx", marks=needs("onnxruntime")),
    pytest.param("openvino", marks=needs("openvino")),
]
CLS = EmbeddingConfig(pooling="cls", normalize=True, max_length=40)


def engine(
    runtime: str, model: Bert, embedding: EmbeddingConfig, folder: Path, precision: str = "float32"
) -> GraphEngine:
    from anaume.engines.graphs import build_graph

    made: dict[str, Runner] = {}

    def runner(name: str, plan: Plan) -> Runner:
        if name not in made:
            path = folder / f"{len(made)}.onnx"
            path.write_bytes(build_graph(model, embedding, name, {"made": "here"}))
            made[name] = OnnxRunner(path) if runtime == "onnx" else OpenVinoRunner(path, precision)  # type: ignore[arg-type]
        return made[name]

    return GraphEngine(runtime, "float32", model.config, runner)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_head_gives_the_model_s_logits_at_every_shape(runtime: str, tmp_path: Path) -> None:
    model = tiny_bert(heads_of_all_kinds())
    ours, torch = engine(runtime, model, CLS, tmp_path), TorchEngine(model, CLS, device="cpu")
    for name in model.head_configs:
        for rows, seq_len in SHAPES:
            batch = padded_batch(rows, seq_len)
            difference = apart(ours.head_logits(batch, name), torch.head_logits(batch, name), batch)
            assert difference < BOUND, (name, rows, seq_len)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "mean_sqrt"])
def test_every_pooling_gives_the_model_s_vectors_empty_rows_too(
    runtime: str, pooling: PoolingMethod, tmp_path: Path
) -> None:
    embedding = EmbeddingConfig(pooling=pooling, normalize=pooling != "max", max_length=40, include_prompt=False)
    model = tiny_bert(causal=pooling == "mean", activation="gelu_tanh" if pooling == "cls" else "relu")
    ours, torch = engine(runtime, model, embedding, tmp_path), TorchEngine(model, embedding, device="cpu")
    for rows, seq_len in SHAPES:
        batch = padded_batch(rows, seq_len, empty=True)
        assert apart(ours.embed(batch), torch.embed(batch), batch) < BOUND
        mask = batch.attention_mask.copy()
        mask[:, 0] = False  # a prompt that does not count
        prompted = Batch(batch.token_ids, batch.attention_mask, batch.segment_ids, pooling_mask=mask)
        assert apart(ours.embed(prompted), torch.embed(prompted), batch) < BOUND


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_padding_on_the_left_moves_no_text(runtime: str, tmp_path: Path) -> None:
    model = tiny_bert()
    ours = engine(runtime, model, CLS, tmp_path)
    batch = padded_batch(1, 7)
    assert batch.segment_ids is not None
    side = ((0, 0), (5, 0))
    left = Batch(np.pad(batch.token_ids, side), np.pad(batch.attention_mask, side), np.pad(batch.segment_ids, side))
    assert np.allclose(ours.embed(left), ours.embed(batch), atol=1e-6)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_a_graph_would_not_say_is_said_before(runtime: str, tmp_path: Path) -> None:
    model = tiny_bert({})
    ours = engine(runtime, model, CLS, tmp_path)
    ids, mask = np.full((2, 4), 7), np.ones((2, 4), np.bool_)
    # int32 and no segments: a graph alone refuses both
    assert np.array_equal(ours.embed(Batch(ids.astype(np.int32), mask)), ours.embed(Batch(ids, mask, ids * 0)))
    with pytest.raises(SettingsError, match="a row of 41 tokens is longer than the position table, 40"):
        ours.embed(padded_batch(1, 41))
    ids[1, 2] = 50
    with pytest.raises(SettingsError, match=r"token ID 50 at row 1, place 2 is outside its table of 50 rows"):
        ours.embed(Batch(ids, mask))
    with pytest.raises(SettingsError, match="a pooling_mask: not in the graphs"):
        ours.embed(Batch(ids * 0, mask, pooling_mask=mask))
    with pytest.raises(SettingsError, match="hidden states: not in the graphs"):
        ours.hidden_states(Batch(ids * 0, mask))


def axes(value: Any) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_every_file_says_what_it_is_and_its_axes_are_free() -> None:
    """ONX-01: batch and length are names on every input and output, and what the graph gives is what it declares."""
    import onnx

    from anaume.engines.graphs import build_graph

    model = tiny_bert(heads_of_all_kinds())
    torch, batch = TorchEngine(model, CLS, device="cpu"), padded_batch(3, 7)
    for name in graph_names(model):
        graph = onnx.load_from_string(build_graph(model, CLS, name, {"anaume.graph": name}))
        onnx.checker.check_model(graph, full_check=True)
        assert {prop.key: prop.value for prop in graph.metadata_props} == {"anaume.graph": name}
        assert [value.name for value in graph.graph.input] == ["input_ids", "attention_mask", "token_type_ids"]
        assert [axes(value) for value in graph.graph.input] == [["batch", "length"]] * 3
        (output,) = graph.graph.output
        assert output.name == ("sentence_embedding" if name == EMBED else "logits")
        given = torch.embed(batch) if name == EMBED else torch.head_logits(batch, name)
        free = {0: "batch", 1: "length"} if given.ndim == 3 else {0: "batch"}
        assert axes(output) == [free.get(axis, size) for axis, size in enumerate(given.shape)], name


@needs("onnx", "openvino")
def test_bfloat16_is_near_and_float32_is_never_less(tmp_path: Path) -> None:
    model = tiny_bert(hidden_size=64)
    batch = padded_batch(5, 9)
    wanted = TorchEngine(model, CLS, device="cpu").embed(batch)
    ours = engine("openvino", model, CLS, tmp_path, "bfloat16")
    rough = ours.embed(batch)
    assert (rough * wanted).sum(axis=1).min() > 0.99
    empty = ours.embed(padded_batch(5, 9, empty=True))
    assert not empty[2].any()  # zeros, and no 0 / 0
    assert np.isfinite(empty).all()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_long_rows_and_large_batches(runtime: str, tmp_path: Path) -> None:
    """ONX-01, with vectors and every head."""
    model = tiny_bert(heads_of_all_kinds(), num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=512)
    ours, torch = engine(runtime, model, CLS, tmp_path), TorchEngine(model, CLS, device="cpu")
    for rows, seq_len in ((1, 511), (1, 512), (64, 512)):
        batch = padded_batch(rows, seq_len)
        assert apart(ours.embed(batch), torch.embed(batch), batch) < BOUND
        for name in model.head_configs:
            assert apart(ours.head_logits(batch, name), torch.head_logits(batch, name), batch) < BOUND, name
