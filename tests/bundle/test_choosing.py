"""Which engine runs a bundle: the one asked for, or by the rule of "auto"."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.bundle import Bundle, choosing
from anaume.config import EmbeddingConfig
from anaume.engines.graph_cache import cache_folder
from anaume.errors import MissingExtra, SettingsError
from commands import runner
from tiny_bundles import save_tiny, tiny_parts
from tiny_graphs import needs
from tiny_models import every_head

MEAN = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
TEXTS = ["my dog is cute", "the bank of the river", ""]
openvino = needs("openvino", "onnx")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAUME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choosing, "_said", set())
    return save_tiny(tmp_path / "b", embedding=MEAN)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every encoder counts as large, and three texts as many."""
    monkeypatch.setattr(choosing, "LARGE", 1)
    monkeypatch.setattr(choosing, "MANY", 3)


@openvino
def test_the_engine_that_was_asked_for_runs(saved: Path) -> None:
    ours = anaume.load(saved, engine="openvino")
    torchs = anaume.load(saved, device="cpu", engine="torch")
    assert (ours.engine.name, torchs.engine.name) == ("openvino", "torch")
    assert np.abs(ours.embed(TEXTS) - torchs.embed(TEXTS)).max() < 1e-5
    assert ours.fingerprint == torchs.fingerprint
    assert np.array_equal(ours.hidden_states(["a"])[0].vectors, torchs.hidden_states(["a"])[0].vectors)
    rough = anaume.load(saved, engine="openvino", precision="bfloat16")
    assert rough.engine.precision == "bfloat16"
    assert (rough.embed(TEXTS) * torchs.embed(TEXTS)).sum(axis=1)[:2].min() > 0.99
    assert ours.with_embedding(EmbeddingConfig(pooling="max", max_length=8)).engine.name == "openvino"


@openvino
def test_heads_run_there_too(tmp_path: Path, saved: Path) -> None:
    heads = {name: head for name, head in every_head().items() if name in ("mlm", "classification")}
    save_tiny(tmp_path / "h", {"mlm": heads["mlm"]})
    save_tiny(tmp_path / "c", {"classification": heads["classification"]})
    for engine in ("openvino", "torch"):
        blanks = anaume.load(tmp_path / "h", device="cpu", engine=engine)
        labels = anaume.load(tmp_path / "c", device="cpu", engine=engine)
        found = [guess.probability for guess in blanks.fill("my [MASK] is cute").blanks[0].guesses]
        scores = [list(one.probabilities.values()) for one in labels.predict(["my dog", "the bank"])]
        if engine == "openvino":
            first: Any = found, scores
    assert np.allclose(first[0], found, atol=1e-5)
    assert np.allclose(first[1], scores, atol=1e-5)


@openvino
def test_auto_takes_openvino_where_it_pays_and_says_so_once(
    saved: Path, large: None, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = anaume.load(saved)
    with caplog.at_level(logging.INFO, logger="anaume"):
        wanted = bundle.embed(TEXTS[:2])  # few: a graph would not be earned back
        assert (bundle.engine.name, cache_folder().exists()) == ("torch", False)
        assert np.abs(bundle.embed(TEXTS)[:2] - wanted).max() < 1e-5
        assert bundle.engine.name == "openvino"
        bundle.embed(TEXTS)
        assert anaume.load(saved).engine.name == "openvino"  # its graph lies on disk
    said = [record.message for record in caplog.records if "engine:" in record.message]
    assert said == ["engine: openvino (installed, on a CPU; engine='torch' takes torch)"]


@openvino
def test_auto_takes_torch_for_what_is_being_trained(saved: Path, large: None) -> None:
    made = Bundle(tiny_parts(embedding=MEAN), device="cpu")
    made.embed(TEXTS)
    assert made.engine.name == "torch"
    bundle = anaume.load(saved)
    before = bundle.embed(TEXTS)
    assert bundle.engine.name == "openvino"
    with torch.no_grad():
        bundle.model.embeddings.token_embeddings.weight.mul_(2.0)
    after = bundle.embed(TEXTS)
    assert bundle.engine.name == "torch"
    assert np.abs(after - before).max() > 1e-3


def test_auto_takes_torch_for_small_encoders_without_a_word(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="anaume"):
        bundle = anaume.load(saved, device="cpu")
        bundle.embed(TEXTS * 400)
    assert bundle.engine.name == "torch"
    assert not caplog.records


def test_a_faster_engine_that_is_missing_is_named_with_its_install_line(
    saved: Path, large: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choosing, "has_openvino", lambda: False)
    bundle = anaume.load(saved, device="cpu")
    with caplog.at_level(logging.INFO, logger="anaume"):
        bundle.embed(TEXTS)
        bundle.embed(TEXTS)
    (line,) = [record.message for record in caplog.records]
    assert line == "engine: torch; OpenVINO is faster on a CPU and not installed: pip install 'anaume[fast]'"
    monkeypatch.setattr("anaume.engines.openvino_graphs.has_openvino", lambda: False)
    with pytest.raises(MissingExtra, match=r"engine='openvino' needs.*pip install 'anaume\[fast\]'"):
        anaume.load(saved, engine="openvino")


def test_wrong_names_are_said_at_once(saved: Path) -> None:
    with pytest.raises(SettingsError, match=r"engine must be one of auto, torch, openvino; got 'openvin' \(did you"):
        anaume.load(saved, engine="openvin")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="engine='openvino' runs on the CPU; got device 'cuda'"):
        anaume.load(saved, engine="openvino", device="cuda")


@openvino
def test_the_command_takes_an_engine(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner(monkeypatch)
    (tmp_path / "t.txt").write_text("my dog\nthe bank\n", "utf-8")
    vectors = []
    for number, engine in enumerate(("openvino", "torch", "auto")):
        out = tmp_path / f"{number}.npy"
        done = run("embed", saved, tmp_path / "t.txt", "-o", out, "--engine", engine, "--precision", "float32")
        assert done.code == 0, done.err
        vectors.append(np.load(out))
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-5
    assert np.array_equal(vectors[1], vectors[2])


@pytest.mark.real
@openvino
def test_the_real_checkpoint_gives_the_published_library_s_vectors() -> None:
    library = pytest.importorskip("sentence_transformers")
    from helpers import wheel_checkpoint

    folder = wheel_checkpoint()
    texts = [
        "A man is playing a guitar.",
        "",
        "銀行 and banks",
        "long " * 400,
        *(f"row {n} " * n for n in range(1, 30)),
    ]
    with pytest.warns(anaume.AnaumeWarning):
        ours = anaume.load(folder, engine="openvino").embed(texts)
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    theirs.max_seq_length = anaume.load(folder, device="cpu", engine="torch").embedding.max_length
    assert np.abs(theirs.encode(texts) - ours).max() < 1e-5
