"""From pairs to a search whose hits a trained model reads again, line by line as a user types them. Slow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anaume
from anaume.config import EmbeddingConfig
from commands import Run
from tiny_labels import TINY_TUNING, texts, write_json
from tiny_runs import tiny_bundle

pytest.importorskip("lancedb", reason="the extra `search` is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*no Hugging Face class holds:anaume.AnaumeWarning"),
]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, pairs of a query and a passage that has its word, and passages to search; only read."""
    folder = tmp_path_factory.mktemp("rerank")
    tiny_bundle(pooler=True).with_embedding(EmbeddingConfig(pooling="mean", max_length=40)).save(folder / "b")
    passages = list(dict.fromkeys(texts(80, 3)))
    rows = [{"query": text.split()[-1], "positive": text} for text in passages]
    write_json(folder / "pairs.jsonl", rows)
    write_json(folder / "passages.jsonl", [{"id": f"p{place}", "text": text} for place, text in enumerate(passages)])
    return folder


@pytest.mark.parametrize("task", ["ranking", "late-interaction"])
def test_pairs_are_trained_on_and_search_reads_its_hits_again(
    run: Run, material: Path, tmp_path: Path, task: str
) -> None:
    settings = [part for one in (*TINY_TUNING, "run.steps=12", "run.evaluations=1") for part in ("--set", one)]
    done = run("finetune", task, material / "pairs.jsonl", "--bundle", material / "b", "-o", tmp_path / "m",
               "--seeds", 1, "--device", "cpu", *settings)  # fmt: skip
    assert done.code == 0, done.err
    idx = tmp_path / "idx"
    assert run("index", "build", material / "passages.jsonl", "--bundle", material / "b", "-o", idx).code == 0
    ranker = anaume.load(tmp_path / "m", device="cpu")
    for options in ([], ["--hybrid"]):
        plain = json.loads(run("search", idx, "dog cat", "--top-k", 100, *options, "--json").out)
        done = run("search", idx, "dog cat", "--top-k", 5, *options, "--rerank", tmp_path / "m", "--json")
        assert done.code == 0, done.err
        hits = json.loads(done.out)
        # The best of all that were found, in the model's order, each with its score of the first search.
        found = {(hit["id"], hit["passage"]): hit for hit in plain}
        ranked = ranker.rank("dog cat", [hit["text"] for hit in plain], top_k=5)
        assert sorted(hit["id"] for hit in hits) == sorted(plain[one.index]["id"] for one in ranked)
        assert [hit["score"] for hit in hits] == pytest.approx([one.score for one in ranked], abs=1e-5)
        for hit in hits:
            assert hit["scores"]["rerank"] == hit["score"]
            assert hit["scores"]["vector"] == pytest.approx(
                found[hit["id"], hit["passage"]]["scores"]["vector"], abs=1e-6
            )
    shown = run("search", idx, "dog cat", "--rerank", tmp_path / "m", "--top-k", 1)
    assert shown.out.startswith(f"{ranked[0].score:.4f}")


def test_what_is_no_reranker_is_refused(run: Run, material: Path, tmp_path: Path) -> None:
    idx = tmp_path / "idx"
    assert run("index", "build", material / "passages.jsonl", "--bundle", material / "b", "-o", idx).code == 0
    done = run("search", idx, "dog", "--rerank", material / "b")
    assert done.code != 0
    assert "(anaume finetune ranking, or late-interaction); this one has no head that was trained" in done.error()
