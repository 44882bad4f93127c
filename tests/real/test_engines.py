"""all-MiniLM-L6-v2 by every engine: sentence-transformers' numbers, and a text's own whatever its company."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.data.docstrings import standard_library_paragraphs
from anaume.engines import Precision
from helpers import wheel_checkpoint
from tiny_graphs import needs

pytestmark = [pytest.mark.real, pytest.mark.slow]

BOUNDS: dict[Precision, float] = {"float32": 1e-5, "bfloat16": 5e-3}
"""Of any number of a unit vector, alone against in a batch: docs/decisions/0022."""
ENGINES = ["torch", pytest.param("openvino", marks=needs("openvino", "onnx"))]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = sorted({paragraph.text for paragraph in standard_library_paragraphs()}, key=len)
    return [*found[:: len(found) // 37], "", "一つの文", "word"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::anaume.errors.AnaumeWarning")
def test_float32_vectors_are_those_of_sentence_transformers(engine: Any, texts: list[str]) -> None:
    library = importlib.import_module("sentence_transformers")
    wanted = library.SentenceTransformer(str(wheel_checkpoint()), device="cpu").encode(texts, show_progress_bar=False)
    vectors = anaume.load(wheel_checkpoint(), engine=engine, device="cpu").embed(texts)
    assert np.abs(vectors - wanted).max() <= 1e-5


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore::anaume.errors.AnaumeWarning")
def test_a_text_s_vector_does_not_depend_on_its_company(engine: Any, precision: Precision, texts: list[str]) -> None:
    bundle = anaume.load(wheel_checkpoint(), engine=engine, precision=precision, device="cpu")
    together = bundle.embed(texts)
    chosen = range(0, len(texts), 4)
    alone = np.concatenate([bundle.embed([texts[index]]) for index in chosen])
    assert np.abs(alone - together[chosen]).max() <= BOUNDS[precision]
    assert np.abs(bundle.embed(texts[::-1])[::-1] - together).max() <= BOUNDS[precision]
