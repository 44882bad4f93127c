"""Hard negatives: near the query, none of its positives, by rank and margin."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.data.labelled import read_similar
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.mine import mine_negatives
from tiny_labels import texts, write_table
from tiny_runs import tiny_bundle


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return tiny_bundle().with_embedding(EmbeddingConfig(pooling="mean", normalize=True, max_length=40))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    found = list(dict.fromkeys(texts(60, 2)))
    return write_table(tmp_path / "pairs.tsv", list(zip(found[:20], found[20:40], strict=True)), "query", "positive")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_nearest_that_are_farther_than_the_positive(bundle: Bundle, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "mined.jsonl"
    with pytest.warns(AnaumeWarning, match="1 of 20 queries have no negative and were left out"):
        summary = mine_negatives(bundle, pairs, out, negatives=3, ranks=(1, 100), margin=0.0)
    rows = [line.split("\t") for line in pairs.read_text().splitlines()[1:]]
    passages = [passage for _, passage in rows]
    found = {row["query"]: row for row in lines(out)}
    for query, passage in rows:
        scores = anaume.similarity(bundle.embed([query]), bundle.embed(passages))[0]
        own = scores[passages.index(passage)]
        wanted = [
            passages[place]
            for place in np.argsort(-scores, kind="stable")
            if passages[place] not in (passage, query) and scores[place] <= own
        ][:3]
        if wanted:
            assert found[query]["positives"] == [passage]
            assert found[query]["negatives"] == wanted
        else:
            assert query not in found
    assert (summary.queries, summary.passages) == (20, 20)
    assert summary.negatives == sum(len(row["negatives"]) for row in found.values())
    # What it wrote is what training reads.
    assert [one.negatives for one in read_similar(out)] == [tuple(row["negatives"]) for row in lines(out)]


def test_ranks_and_margin_leave_out_what_is_too_near(bundle: Bundle, pairs: Path, tmp_path: Path) -> None:
    with pytest.warns(AnaumeWarning, match="were left out"):
        far = mine_negatives(bundle, pairs, tmp_path / "a.jsonl", negatives=1, margin=0.0, ranks=(1, 19))
    with pytest.warns(AnaumeWarning, match="were left out"):
        later = mine_negatives(bundle, pairs, tmp_path / "b.jsonl", negatives=1, margin=0.0, ranks=(15, 19))
    assert later.negatives <= far.negatives
    near = {row["query"]: row["negatives"][0] for row in lines(tmp_path / "a.jsonl")}
    for row in lines(tmp_path / "b.jsonl"):
        both = bundle.embed([near[row["query"]], row["negatives"][0]])
        one, other = anaume.similarity(bundle.embed([row["query"]]), both)[0]
        assert one >= other


def test_every_positive_of_a_query_is_left_out_wherever_it_stands(bundle: Bundle, tmp_path: Path) -> None:
    rows = [("dog", "cat"), ("dog", "my  dog"), ("bank", "river")]
    pairs = write_table(tmp_path / "p.tsv", rows, "query", "positive")
    corpus = tmp_path / "corpus.txt"
    others = ["river", "closed", "open", "the river", "cute"]
    corpus.write_text("".join(f"{text}\n" for text in ("my dog", "cat", "dog", *others)))
    with pytest.warns(AnaumeWarning, match="1 of 2 queries have no negative"):
        mine_negatives(bundle, pairs, tmp_path / "m.jsonl", corpus=corpus, margin=0.0, negatives=9)
    found = {row["query"]: row["negatives"] for row in lines(tmp_path / "m.jsonl")}
    scores = anaume.similarity(bundle.embed(["dog"]), bundle.embed(["cat", "my  dog", *others]))[0]
    wanted = {text for text, score in zip(others, scores[2:], strict=True) if score <= scores[:2].min()}
    assert set(found.get("dog", [])) == wanted


def test_passages_are_read_in_the_encoding_of_the_pairs(bundle: Bundle, pairs: Path, tmp_path: Path) -> None:
    """DAT-04: the encoding that was asked for holds for every file of the call."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes("".join(f"caf\xe9 {text}\n" for text in texts(30, 7)).encode("latin-1"))
    with pytest.raises(DataError, match=r"corpus\.txt: line 1, byte 3: not utf-8"):
        mine_negatives(bundle, pairs, tmp_path / "m.jsonl", corpus=corpus)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # queries without a negative
        mine_negatives(bundle, pairs, tmp_path / "m.jsonl", corpus=corpus, margin=0.0, encoding="latin-1")
    assert all(text.startswith("café ") for row in lines(tmp_path / "m.jsonl") for text in row["negatives"])


def test_what_does_not_fit_is_refused(bundle: Bundle, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.jsonl"
    for given, said in (
        ({"ranks": (0, 5)}, "ranks must go from 1 or more up"),
        ({"negatives": 0}, "negatives be 1 or more"),
        ({"margin": -1.0}, "margin not below 0"),
    ):
        with pytest.raises(SettingsError, match=said):
            mine_negatives(bundle, pairs, out, **given)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"name a \.jsonl file"):
        mine_negatives(bundle, pairs, tmp_path / "m.csv")
    with pytest.raises(DataError, match=r"no query has a negative within ranks 1 to 100 and the margin 2\.0"):
        mine_negatives(bundle, pairs, out, margin=2.0)
    assert not out.exists()
    out.write_text("mine")
    with pytest.raises(DataError, match=r"m\.jsonl exists"):
        mine_negatives(bundle, pairs, out)
