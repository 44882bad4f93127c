"""What a training for similarity made opens in sentence-transformers, with the same vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anaume
from tiny_labels import texts
from tiny_similar import tiny_similarity

sentence_transformers = pytest.importorskip("sentence_transformers")


@pytest.mark.parametrize(
    ("pooling", "normalize"), [("mean", True), ("cls", False), ("max", True)], ids=["mean", "cls", "max"]
)
def test_the_same_vectors(tmp_path: Path, pooling: str, normalize: bool) -> None:
    options = [f"task.pooling={pooling}", f"task.normalize={str(normalize).lower()}"]
    report = tiny_similarity(tmp_path, "m", "run.steps=1", "run.evaluations=1", *options)
    given = texts(9, 3)
    here = anaume.load(report.folder, device="cpu").embed(given)
    twin = sentence_transformers.SentenceTransformer(str(report.bundle), device="cpu")
    there = twin.encode(given, show_progress_bar=False)
    np.testing.assert_allclose(here, there, atol=1e-5)
    assert (np.abs(np.linalg.norm(there, axis=1) - 1) < 1e-5).all() == normalize
