"""all-MiniLM-L6-v2 by our evaluators and by those of sentence-transformers, on public data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import anaume
from anaume.jobs.evaluate_vectors import evaluate_vectors
from helpers import public_data, wheel_checkpoint

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def twin() -> Any:
    module = pytest.importorskip("sentence_transformers")
    return module.SentenceTransformer(str(wheel_checkpoint()), device="cpu")


def test_stsb_dev_spearman_is_the_same_to_four_decimals(twin: Any, tmp_path: Path) -> None:
    """A third of the set; the whole of it agrees as well, in three times as long."""
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    lines = public_data("glue/STS-B/dev.tsv").read_text("utf-8").splitlines()
    path = tmp_path / "dev.tsv"
    path.write_text("".join(f"{line}\n" for line in [lines[0], *lines[1::3]]), "utf-8")
    found = evaluate_vectors(anaume.load(wheel_checkpoint(), device="cpu"), path, "sts")
    rows = [line.split("\t") for line in lines[1::3]]
    judge = EmbeddingSimilarityEvaluator(
        [row[7] for row in rows], [row[8] for row in rows], [float(row[9]) for row in rows], write_csv=False
    )
    there = judge(twin)
    assert found.examples == len(rows) == 500
    assert round(found.scores["spearman"], 4) == round(float(there["spearman_cosine"]), 4)
    assert found.scores["spearman"] > 0.8
