import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import embed, peer_environments
from benchmarks.embed_rows import Row
from benchmarks.peer_environments import Environment, interpreter
from benchmarks.texts import queries
from benchmarks.workers import RowFailed, Workers


def here(name: str) -> tuple[Path | None, str]:
    return (None, "it can't be made") if name == "absent" else (Path(sys.executable), "")


def told(tmp_path: Path) -> dict[str, str]:
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps({"short": ["a"]}), "utf-8")
    return {"checkpoint": str(tmp_path / "none"), "models": str(tmp_path), "texts": str(texts)}


@pytest.mark.slow
def test_queries_are_words_alone() -> None:
    found = queries(50)
    assert found == queries(50)
    assert all(4 <= len(query.split()) <= 6 for query in found)
    assert all(word.isascii() and word.isalpha() for query in found for word in query.split())


def test_a_row_that_can_t_be_run_is_a_line_with_its_reason(tmp_path: Path) -> None:
    with Workers(told(tmp_path), here) as workers:
        with pytest.raises(RowFailed, match="its environment is not there: it can't be made"):
            workers.ask(Row("one", "anaume", environment="absent"), do="peak")
        missing = Row("two", "onnxruntime_int8", environment="here")  # its checkpoint is not there
        for _ in range(2):  # the second time without another try
            with pytest.raises(RowFailed, match=r"Error: .+"):
                workers.ask(missing, do="peak")
        assert set(workers.failed) == {"one", "two"}


@pytest.mark.slow
def test_an_environment_that_can_t_be_made_is_told_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peer_environments.ENVIRONMENTS, "odd", Environment("odd", ("not a requirement",)))
    python, reason = interpreter("odd", folder=tmp_path)
    assert python is None
    assert "not a requirement" in reason
    assert not (tmp_path / "odd").exists()
    again, remembered = interpreter("odd", folder=tmp_path)
    assert again is None
    assert remembered.startswith(reason)


@pytest.mark.slow
@pytest.mark.real
def test_the_quick_run_makes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed, "FOLDER", tmp_path / "kept")
    monkeypatch.setattr(embed.harness, "KEPT", tmp_path)
    embed.main(["--quick", "--fresh", "-o", str(tmp_path / "page.md")])
    page = (tmp_path / "page.md").read_text("utf-8")
    for part in ("## Short", "## Passages", "## Long", "## Goals", "| anaume, float32 |", "(default) |", "llama.cpp"):
        assert part in page
    assert "MISSED" in page or "met" in page
    assert str(embed.harness.ROOT) not in page
    ours, theirs = (
        np.load(next((tmp_path / "kept" / "quick").glob(f"{name}*.long.npy"))) for name in ("anaume", "sentence")
    )
    assert np.abs(ours - theirs).max() <= 1e-5
