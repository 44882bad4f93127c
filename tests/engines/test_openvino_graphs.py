"""The OpenVINO engine: graphs kept on disk, shared between processes, remade when weights change."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.config import EmbeddingConfig
from anaume.engines import EMBED, TorchEngine, graph_names, kept_graph, openvino_engine, openvino_graphs
from anaume.engines.graph_cache import GRAPH, KEPT, cache_folder, cached, keep
from anaume.engines.openvino_graphs import graph_key
from anaume.errors import MissingExtra, SettingsError
from tiny_graphs import heads_of_all_kinds, needs, padded_batch
from tiny_models import every_head, tiny_bert

MEAN = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
openvino = needs("openvino", "onnx")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAUME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


def entries(cache: Path) -> list[str]:
    return sorted(entry.name for entry in cache.iterdir()) if cache.exists() else []


def write(path: Path, text: str = "graph") -> None:
    path.write_text(text, "utf-8")
    path.with_suffix(".bin").write_text("weights", "utf-8")


@openvino
def test_it_gives_torch_s_answers_and_makes_each_graph_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_bert(every_head()), padded_batch(5, 9)
    reference, engine = TorchEngine(model, MEAN, device="cpu"), openvino_engine(model, MEAN)
    assert entries(cache) == []  # nothing is compiled before it is needed
    assert np.abs(engine.embed(batch) - reference.embed(batch)).max() < 1e-5
    places = [0, 1, 2, 3, 0]
    wanted = reference.token_log_probabilities(batch, places, "mlm")
    assert np.abs(engine.token_log_probabilities(batch, places, "mlm") - wanted).max() < 1e-4
    assert len(entries(cache)) == 2
    with pytest.raises(SettingsError, match=r"no head called 'mln' \(did you mean 'mlm'\?\)"):
        engine.head_logits(batch, "mln")

    def never(*_: object) -> bytes:
        raise AssertionError("made again")

    monkeypatch.setattr("anaume.engines.graphs.build_graph", never)
    again = openvino_engine(model, MEAN)
    assert np.array_equal(again.embed(batch), engine.embed(batch))
    kept = kept_graph(model, MEAN)
    assert kept is not None
    monkeypatch.setattr(openvino_graphs, "graph_key", never)  # found once, hashed once
    assert np.array_equal(openvino_engine(model, MEAN, kept=kept).embed(batch), engine.embed(batch))
    assert torch.equal(again.hidden_states(batch).last_hidden_state, reference.hidden_states(batch).last_hidden_state)


@openvino
def test_changed_weights_give_their_own_answers_and_another_entry(cache: Path) -> None:
    model, batch = tiny_bert(), padded_batch(3, 6)
    engine = openvino_engine(model, MEAN)
    before, first = engine.embed(batch), entries(cache)
    with torch.no_grad():
        model.encoder.layers[0].attention.qkv.weight.mul_(1.5)  # type: ignore[union-attr, operator]
    after = engine.embed(batch)
    assert np.abs(after - before).max() > 1e-3
    assert np.abs(after - TorchEngine(model, MEAN, device="cpu").embed(batch)).max() < 1e-5
    assert len(entries(cache)) == 2 > len(first)


@openvino
def test_a_graph_that_was_found_is_left_where_weights_changed_since(cache: Path) -> None:
    model, batch = tiny_bert(), padded_batch(3, 6)
    openvino_engine(model, MEAN).embed(batch)
    kept = kept_graph(model, MEAN)
    assert kept is not None
    with torch.no_grad():
        model.encoder.layers[0].attention.qkv.weight.mul_(1.5)  # type: ignore[union-attr, operator]
    wanted = TorchEngine(model, MEAN, device="cpu").embed(batch)
    assert np.abs(openvino_engine(model, MEAN, kept=kept).embed(batch) - wanted).max() < 1e-5


@openvino
def test_a_key_is_of_everything_the_graph_holds() -> None:
    model = tiny_bert(every_head())
    keys = {graph_key(model, MEAN, name) for name in (EMBED, "mlm", "nsp", "span")}
    assert len(keys) == 4
    base = graph_key(model, MEAN, EMBED)
    other = EmbeddingConfig(pooling="cls", normalize=True, max_length=40)
    assert graph_key(model, other, EMBED) != base
    assert graph_key(model, EmbeddingConfig(pooling="mean", normalize=True, max_length=8), EMBED) == base
    assert graph_key(tiny_bert(every_head(), layer_norm_eps=1e-6), MEAN, EMBED) != base
    with torch.no_grad():
        model.heads["mlm"].bias.add_(1.0)  # type: ignore[operator]
    assert graph_key(model, MEAN, EMBED) == base
    assert graph_key(model, MEAN, "mlm") not in keys


def written(graph: bytes) -> list[object]:
    """What a graph computes: its nodes and constants, without the model's weights."""
    import onnx

    told = onnx.load_from_string(graph).graph
    nodes: list[object] = [
        (
            (node.op_type, *node.input, "->", *node.output),
            sorted((own.name, onnx.helper.get_attribute_value(own)) for own in node.attribute),
        )
        for node in told.node
    ]
    return nodes + [
        (own.name, np.round(onnx.numpy_helper.to_array(own).astype(np.float64), 5).tolist())
        for own in told.initializer
        if own.name.startswith("constant_")
    ]


@needs("onnx")
def test_graphs_that_are_written_otherwise_are_counted() -> None:
    """Graphs on disk outlive the code that wrote them: where it writes others, _WRITTEN must tell them apart."""
    from anaume.engines.graphs import build_graph

    digest = hashlib.sha256()
    for pooling, activation in (("mean", "gelu"), ("cls", "gelu_tanh"), ("max", "relu"), ("mean_sqrt", "gelu")):
        embedding = EmbeddingConfig(pooling=pooling, normalize=True, max_length=40, include_prompt=pooling == "cls")
        model = tiny_bert(heads_of_all_kinds(), activation=activation, causal=pooling == "max")
        for name in graph_names(model):
            digest.update(repr(written(build_graph(model, embedding, name, {}))).encode())
    found = (openvino_graphs._WRITTEN, digest.hexdigest()[:16])
    wanted = (1, "030b5979aee61d8e")
    assert found == wanted, "graphs.py writes other graphs than it did: count _WRITTEN up, and note both here"


@openvino
def test_many_threads_compile_a_graph_once_and_agree() -> None:
    engine, batch = openvino_engine(tiny_bert(), MEAN), padded_batch(5, 9)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(engine.embed(batch))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(np.array_equal(own, found[0]) for own in found)


@openvino
def test_a_place_that_can_t_be_written_costs_the_cache_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setenv("ANAUME_CACHE", str(tmp_path / "file"))  # as a read-only home: no folder can be made
    model, batch = tiny_bert(), padded_batch(3, 6)
    wanted = TorchEngine(model, MEAN, device="cpu").embed(batch)
    assert np.abs(openvino_engine(model, MEAN).embed(batch) - wanted).max() < 1e-5
    assert kept_graph(model, MEAN) is None


@openvino
@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("graph.bin", lambda whole: whole[:-8]),
        ("graph.bin", lambda whole: bytes(len(whole))),  # the right size, as a power cut may leave it
        ("graph.xml", lambda whole: whole[: len(whole) // 2].ljust(len(whole))),
    ],
)
def test_a_damaged_entry_is_made_anew(cache: Path, file: str, damage: Callable[[bytes], bytes]) -> None:
    model, batch = tiny_bert(), padded_batch(3, 6)
    wanted = openvino_engine(model, MEAN).embed(batch)
    (entry,) = cache.iterdir()
    (entry / file).write_bytes(damage((entry / file).read_bytes()))
    assert np.array_equal(openvino_engine(model, MEAN).embed(batch), wanted)
    assert cached(entry.name) is not None


def test_where_graphs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache" / "graphs"
    monkeypatch.delenv("ANAUME_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/anaume/graphs")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/anaume/graphs"


def test_the_second_of_two_writers_finds_the_first_one_s_entry(cache: Path) -> None:
    def slow(path: Path) -> None:
        assert keep("key", lambda other: write(other, "first")) is not None  # another process, meanwhile
        write(path, "second")

    path = keep("key", slow)
    assert path is not None
    assert path.read_text("utf-8") == "first"
    assert entries(cache) == ["key"]


def test_what_fails_while_it_is_written_leaves_nothing(cache: Path) -> None:
    def full(path: Path) -> None:
        write(path)
        raise OSError(28, "No space left on device")

    assert keep("key", full) is None
    assert entries(cache) == []


def test_a_killed_writer_s_folder_goes_after_an_hour_and_is_never_taken_for_an_entry(cache: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from anaume.engines.graph_cache import keep\n"
        "keep('key', lambda path: (path.write_text('half'), os._exit(9)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    (left,) = entries(cache)
    assert left.startswith(".new-")
    assert cached("key") is None
    keep("other", write)
    assert left in entries(cache)  # it may be at work still
    os.utime(cache / left, (1, 1))
    keep("third", write)
    assert entries(cache) == ["other", "third"]


AT_WORK = """
import sys, time
from anaume.config import EmbeddingConfig
from anaume.engines import openvino_engine, openvino_graphs
from tiny_graphs import padded_batch
from tiny_models import tiny_bert

if sys.argv[1] == "slow":  # a graph is being written, and that is said
    real = openvino_graphs._save
    openvino_graphs._save = lambda graph, path: (real(graph, path), print("writing", flush=True), time.sleep(60))
engine = openvino_engine(tiny_bert(), EmbeddingConfig(pooling="mean", normalize=True, max_length=40))
print(engine.embed(padded_batch(5, 9)).sum(dtype="float64"))
"""


def at_work(how: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", AT_WORK, how], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@openvino
def test_processes_that_compile_at_once_and_one_that_is_killed(cache: Path) -> None:
    killed = at_work("slow")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "writing\n"
    killed.kill()
    killed.communicate()
    both = [at_work("as it is") for _ in range(2)]
    answers = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert answers[0] == answers[1] != ""
    made = [name for name in entries(cache) if not name.startswith(".new-")]
    assert len(made) == 1
    assert cached(made[0]) is not None
    assert len(entries(cache)) == 2  # and what the killed one left, for an hour


def test_the_least_recently_used_go_first(cache: Path) -> None:
    for number in range(KEPT):
        keep(f"key{number}", write)
        os.utime(cache / f"key{number}", (1000 + number, 1000 + number))
    assert cached("key0") == cache / "key0" / GRAPH  # used just now
    keep("new", write)
    assert entries(cache) == sorted(["key0", *(f"key{number}" for number in range(2, KEPT)), "new"])


def test_without_the_library_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anaume.engines.openvino_graphs.has_openvino", lambda: False)
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[fast\]'"):
        openvino_engine(tiny_bert(), MEAN)
    with pytest.raises(SettingsError, match="precision must be one of"):
        openvino_engine(tiny_bert(), MEAN, precision="int4")  # type: ignore[arg-type]


@openvino
def test_openvino_tells_nobody_that_it_is_used() -> None:
    told = (
        "import sys, os; from anaume.engines.runners import openvino_core; "
        "os.fork = None; openvino_core(); print([name for name in sys.modules if 'telemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert "openvino_telemetry" not in done.stdout
