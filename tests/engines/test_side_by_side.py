"""Work in threads: its order, its errors, how far it runs ahead; and batches side by side in a graph."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.bundle import Bundle, LongPolicy
from anaume.config import EmbeddingConfig
from anaume.engines import has_openvino, runners, side_by_side
from anaume.engines.graph_names import EMBED
from anaume.engines.graphs import build_graph
from anaume.engines.runners import OpenVinoRunner
from anaume.exporting.graphs import export_graphs
from helpers import PATIENCE
from tiny_runs import tiny_bundle


@pytest.mark.parametrize("at_once", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 4, 23])
def test_results_come_in_order_whatever_ends_first(at_once: int, count: int) -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.002 * (count - number) if number % 2 else 0)
        return number * number

    assert list(side_by_side(slow_first, range(count), at_once)) == [number * number for number in range(count)]


def test_so_many_work_at_once_and_few_are_taken_ahead() -> None:
    taken, meeting = 0, threading.Barrier(3, timeout=20)

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(60):
            taken += 1
            yield number

    def together(number: int) -> int:
        meeting.wait()  # passes only where three are at work
        return number

    for passed, _ in enumerate(side_by_side(together, items(), 3), start=1):
        assert taken <= passed + 2 * 3


def test_an_error_comes_in_its_place_and_the_rest_does_not_begin() -> None:
    begun: list[int] = []

    def fails_at_five(number: int) -> int:
        begun.append(number)
        if number == 5:
            raise ValueError("five")
        return number

    found = side_by_side(fails_at_five, range(1000), 2)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="five"):
        next(found)
    assert len(begun) < 20


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif(not has_openvino(), reason="the extra `fast` is not installed")
def test_a_process_s_first_inference_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two at once could wait for each other for ever: one for the interpreter, one for a guard of C++ in OpenVINO.
    embedding = EmbeddingConfig(pooling="mean")
    runner = OpenVinoRunner(build_graph(tiny_bundle("mlm").model, embedding, EMBED, {}), "float32", "many")
    monkeypatch.setattr(runners, "_inferred", threading.Event())
    infer, at_work, meeting = OpenVinoRunner._infer, [0], threading.Barrier(3)
    company: list[int] = []

    def watched(self: OpenVinoRunner, feeds: Any) -> Any:
        first = not runners._inferred.is_set()
        at_work[0] += 1
        time.sleep(0.02)
        company.extend([at_work[0]] * first)
        output = infer(self, feeds)
        at_work[0] -= 1
        return output

    def at_once(_: int) -> Any:
        meeting.wait(timeout=20)
        return runner({name: np.ones((2, 5), dtype=np.int64) for name in runner.inputs})

    monkeypatch.setattr(OpenVinoRunner, "_infer", watched)
    outputs = list(side_by_side(at_once, range(3), 3))
    assert set(company) == {1}
    assert all(np.array_equal(output, outputs[0]) for output in outputs)


@pytest.mark.skipif(not has_openvino(), reason="the extra `fast` is not installed")
@pytest.mark.usefixtures("three_threads")
@pytest.mark.filterwarnings("ignore::anaume.AnaumeWarning")  # cut texts, unknown pieces
@pytest.mark.parametrize("long", ["truncate", "window"])
def test_many_texts_side_by_side_have_the_vectors_of_few(
    long: LongPolicy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("b")
    tiny_bundle("mlm").with_embedding(EmbeddingConfig(pooling="mean", max_length=32)).save(folder / "b")
    bundle = Bundle.load(folder / "b", device="cpu", engine="openvino")
    words = ["the", "dog", "is", "cute", "and", "likes", "the", "bank", "of", "the", "river"]
    drawn = [np.random.default_rng(number).integers(0, len(words), 1 + number % 90) for number in range(600)]
    texts = [" ".join(words[place] for place in places) for places in drawn]
    few, many = bundle.engine.for_tokens(100), bundle.engine.for_tokens(10_000)
    assert (few.at_once(), few.name, many.name) == (1, "openvino", "openvino")
    assert many.at_once() > 1
    whole = bundle.embed_report(texts, long=long)
    parts = [bundle.embed_report(texts[start : start + 100], long=long) for start in range(0, 600, 100)]
    np.testing.assert_allclose(whole.vectors, np.concatenate([part.vectors for part in parts]), atol=2e-6)
    assert whole.pieces == sum(part.pieces for part in parts)
    assert whole.unknown == sum(part.unknown for part in parts)
    assert np.array_equal(whole.coverage, np.concatenate([part.coverage for part in parts]))
    again = bundle.embed_report(texts, long=long)
    assert np.array_equal(again.vectors, whole.vectors)


_FORKED = """
import os, sys, warnings
import numpy as np, torch
import anaume
warnings.simplefilter("ignore")
warnings.filterwarnings("always", "this process was forked")
torch.set_num_threads(2)
bundle = anaume.load(sys.argv[1], engine=sys.argv[2], device="cpu")
texts = ["the dog likes the bank of the river", "is cute", "the river"] * 500
few, many = bundle.embed(texts[:9]), bundle.embed(texts)
assert bundle.engine.for_tokens(10_000).at_once() == (2 if bundle.engine.name == "openvino" else 1)
child = os.fork()
if child == 0:
    good = np.array_equal(bundle.embed(texts[:9]), few) and np.array_equal(bundle.embed(texts), many)
    bundle = anaume.load(sys.argv[1], engine=sys.argv[2], device="cpu")  # its own, the other one let go
    good = good and torch.get_num_threads() == (1 if bundle.engine.name == "torch" else 2)
    os._exit(0 if good and np.array_equal(bundle.embed(texts), many) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not has_openvino() or sys.platform == "win32", reason="the extra `fast`, and a system that forks")
@pytest.mark.parametrize("form", ["bundle", "openvino", "torch"])
def test_a_forked_process_embeds_with_a_bundle_that_embedded_before(form: str, tmp_path: Path) -> None:
    # Streams of a compiled graph and workers of torch are threads, which stay behind at a fork: the child would wait.
    bundle = tiny_bundle("mlm").with_embedding(EmbeddingConfig(pooling="mean", max_length=32))
    bundle.save(tmp_path / "b")
    if form == "openvino":
        export_graphs(Bundle.load(tmp_path / "b", device="cpu"), tmp_path / "x", "openvino")
    place, engine = {
        "bundle": (tmp_path / "b", "openvino"),
        "openvino": (tmp_path / "x", "auto"),
        "torch": (tmp_path / "b", "torch"),
    }[form]
    done = subprocess.run(
        [sys.executable, "-c", _FORKED, place, engine],
        capture_output=True,
        text=True,
        timeout=PATIENCE / 4,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr.count("this process was forked") == (form == "torch"), done.stderr
    assert form == "torch" or not done.stderr


@pytest.mark.skipif(not has_openvino(), reason="the extra `fast` is not installed")
@pytest.mark.usefixtures("three_threads")
@pytest.mark.filterwarnings("ignore::anaume.AnaumeWarning")  # cut texts, unknown pieces
def test_many_texts_side_by_side_have_torch_s_labels_and_prompted_vectors(
    tuned_dir: Path, tiny_bundle_dir: Path
) -> None:
    texts = [f"the dog number {number} likes the bank of the river" for number in range(2000)]
    here, there = (Bundle.load(tuned_dir, device="cpu", engine=engine) for engine in ("openvino", "torch"))
    logits = [np.array([list(one.probabilities.values()) for one in bundle.predict(texts)]) for bundle in (here, there)]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)
    here, there = (Bundle.load(tiny_bundle_dir, device="cpu", engine=engine) for engine in ("openvino", "torch"))
    assert here.engine.for_tokens(2000 * 16) is not here.engine
    vectors = [bundle.embed(texts, as_="query") for bundle in (here, there)]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
