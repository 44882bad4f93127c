"""evaluate --task, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from commands import Run
from tiny_similar import write_scored


def test_from_the_command_line(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    scored = write_scored(tmp_path / "s.tsv", 40)
    done = run("evaluate", tiny_bundle_dir, scored, "--task", "sts", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["task"], told["metric"], told["examples"]) == ("sts", "spearman", 40)
    low, high = told["intervals"]["spearman"]
    assert low < told["spearman"] < high
    shown = run("evaluate", tiny_bundle_dir, scored, "--task", "sts")
    assert shown.out.splitlines()[0] == (f"spearman  {told['spearman']:.4f}  95 % interval {low:.4f} to {high:.4f}")
    for more, said in (
        (["--task", "ner"], "see anaume finetune; its vectors are judged by --task sts, pairs, retrieval, reranking"),
        ([], "predicting needs a head trained for a task"),
        (["--dimensions", 3], "--positive, --dimensions and --whiten are of vectors"),
        (["--task", "sts", "--against", tiny_bundle_dir], "--against compares what heads predict"),
    ):
        refused = run("evaluate", tiny_bundle_dir, scored, *more)
        assert (refused.code, refused.out) == (2, "")
        assert said in refused.err
