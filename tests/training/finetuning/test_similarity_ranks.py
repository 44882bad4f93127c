"""Training for similarity in two processes: each compares its rows with those of both. Slow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE
from tiny_labels import texts, weights_of, write_json
from tiny_runs import metrics, tiny_bundle
from tiny_similar import pairs, write_scored

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, warnings
from pathlib import Path
import torch.distributed as dist
import anaume
from anaume.training.finetuning.finetune import finetune
from tiny_similar import similar_settings

warnings.simplefilter("ignore")  # heads that no Hugging Face class holds
if "RANK" in os.environ:
    dist.init_process_group("gloo")
folder, out, runs = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
for name, (task, files, assignments) in runs.items():
    settings = similar_settings("run.steps=6", "run.evaluations=1", "run.batch_rows=7", "run.micro_tokens=60",
                                "model.dropout=0.0", "schedule.warmup=0.0", "optimizer.learning_rate=0.0005",
                                *assignments)
    finetune(task, folder / f"{files}.jsonl", out / name, dev=folder / f"{files}.jsonl", settings=settings, seeds=1,
             bundle=anaume.load(folder / "b", device="cpu"), device="cpu")
"""
RUNS: dict[str, tuple[str, str, list[str]]] = {
    "in-batch": ("similarity", "negatives", []),
    "cosent": ("similarity", "scored", []),
    "triplet": ("similarity", "negatives", ["task.objective=triplet", "task.margin=3.0"]),
    "tsdae": ("similarity", "single", ["task.objective=tsdae"]),
    "late-interaction": ("late-interaction", "negatives", ["task.size=8", "task.query_tokens=5"]),
}


def write_material(folder: Path) -> None:
    """A bundle and files; queries of several positives and negatives, so that ranks hold unlike numbers of rows."""
    tiny_bundle("mlm", pooler=True).save(folder / "b")
    rows = [
        {"query": one.text, "positive": list(one.positives), "negatives": ["open closed", "river"][: 1 + number % 2]}
        for number, one in enumerate(pairs(17))
    ]
    write_json(folder / "negatives.jsonl", rows)
    write_json(folder / "single.jsonl", [{"text": text} for text in texts(17)])
    lines = [line.split("\t") for line in write_scored(folder / "s.tsv", 17).read_text().splitlines()[1:]]
    write_json(folder / "scored.jsonl", [{"sentence1": a, "sentence2": b, "score": float(s)} for a, b, s in lines])


def run(folder: Path, out: Path, start: list[str]) -> None:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [*start, str(program), str(folder), str(out), json.dumps(RUNS)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def test_two_processes_follow_one(tmp_path: Path) -> None:
    """float32, no dropout, the same global batch of an odd number of rows, in parts: within 1e-5 over six steps."""
    write_material(tmp_path)
    run(tmp_path, tmp_path / "one", [sys.executable])
    pair = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run(tmp_path, tmp_path / "two", [sys.executable, *pair])
    for name in RUNS:
        one, two = (metrics(tmp_path / folder / name / "seed-0") for folder in ("one", "two"))
        assert [row["step"] for row in one] == [row["step"] for row in two]
        assert sum(row.get("loss", 0.0) > 0.01 for row in one) == 6, name
        for a, b in zip(one, two, strict=True):
            for key in ("loss", "gradient", "dev_loss"):
                if a.get(key) is not None:
                    assert abs(a[key] - b[key]) < 1e-5 * max(1.0, abs(a[key])), (name, a["step"], key)
            assert a.get("tokens") == b.get("tokens")
        theirs = weights_of(tmp_path / "two" / name / "bundle")
        for key, tensor in weights_of(tmp_path / "one" / name / "bundle").items():
            if not key.endswith("key.bias"):  # its gradient is rounding alone, and Adam makes steps of that
                assert float((tensor - theirs[key]).abs().max()) < 1e-4, (name, key)
