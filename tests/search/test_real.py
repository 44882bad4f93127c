"""The real checkpoint: documents are found by what stands at their end, and codes keep what they promise."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning
from anaume.search import Index
from anaume.search.quality import measure_codes
from helpers import public_data, wheel_checkpoint

pytestmark = pytest.mark.real

FILLER = "The committee met again and talked about the budget of the next year. " * 46  # about 600 words


@pytest.fixture(scope="module")
def model() -> Bundle:
    return Bundle.load(wheel_checkpoint())


def test_a_document_is_found_by_its_last_two_words(model: Bundle, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "idx", model, passage_length=128)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AnaumeWarning)  # nothing is cut
        index.add([{"id": "with", "text": f"{FILLER}zebra unicorn"}, {"id": "without", "text": FILLER}])
    for hybrid in (False, True):
        (best,) = index.search("zebra unicorn", top_k=1, hybrid=hybrid)
        assert (best.id, best.end, best.coverage) == ("with", len(FILLER) + 13, 1.0)


def test_codes_of_real_vectors_lose_little(model: Bundle, tmp_path: Path) -> None:
    lines = public_data("sick/SICK_trial.txt").read_text("utf-8").splitlines()[1:401]
    rows = [{"id": number, "text": line.split("\t")[1]} for number, line in enumerate(lines)]
    for storage, alone, rescored in (("int8", 0.97, 0.99), ("binary", 0.6, 0.9)):
        index = Index.create(tmp_path / storage, model, storage=storage)  # type: ignore[arg-type]
        loss = measure_codes(index.add(rows).sample, index.record)
        assert loss is not None
        assert loss.recall >= alone, (storage, loss)
        assert loss.rescored >= rescored, (storage, loss)
