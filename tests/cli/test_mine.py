"""mine, and the trainings that read what it writes, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from commands import Run
from tiny_labels import TINY_TUNING, texts, write_table

SETS = [part for assignment in TINY_TUNING for part in ("--set", assignment)]


def test_mined_negatives_train_vectors_and_a_cross_encoder(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    found = list(dict.fromkeys(texts(60, 2)))
    pairs = write_table(tmp_path / "p.tsv", list(zip(found[:20], found[20:40], strict=True)), "query", "positive")
    mined = tmp_path / "mined.jsonl"
    done = run("mine", pairs, "--bundle", tiny_bundle_dir, "-o", mined, "--ranks", "1-19", "--margin", 0, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["negatives"] == sum(len(json.loads(line)["negatives"]) for line in mined.read_text().splitlines())
    assert f"{told['negatives']} negatives for 20 queries among 20 passages -> {mined}" in done.err
    for task, out in (("similarity", tmp_path / "m"), ("ranking", tmp_path / "cross")):
        line = (task, mined, "--bundle", tiny_bundle_dir, "-o", out, "--seeds", 1, "--device", "cpu")
        done = run("finetune", *line, "--epochs", 1, *SETS)
        assert done.code == 0, done.err
        assert done.out.splitlines()[0].split()[:2] == ["seed", "mrr@10"]
    refused = run("mine", pairs, "--bundle", tiny_bundle_dir, "-o", tmp_path / "x.jsonl", "--ranks", "5")
    assert (refused.code, refused.out) == (2, "")
    assert "--ranks is given as FIRST-LAST, say 10-100; got '5'" in refused.err
    refused = run("mine", pairs, "--bundle", tiny_bundle_dir, "-o", tmp_path / "x.jsonl", "--column", "tags=query")
    assert (refused.code, refused.out) == (2, "")
    assert "similarity has no column 'tags'" in refused.err
