"""Real kills and real processes of fine-tuning: SIGKILL at several steps, torchrun with two gloo processes. Slow."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from helpers import PATIENCE
from tiny_labels import TINY_TUNING, weights_of, write_classes
from tiny_runs import metrics, tiny_bundle
from tiny_tuned import tuned_differ

pytestmark = pytest.mark.slow

ALONE = [sys.executable, "-m", "anaume", "finetune", "classification"]
PAIR = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *ALONE[2:]]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
EVERYTHING = (
    "model.dropout=0.1",
    "run.steps=60",
    "run.evaluations=12",
    "run.patience=9",
    "run.micro_tokens=60",
    "run.checkpoint_seconds=0.03",
    "task.class_weights=balanced",
    "optimizer.layer_decay=0.9",
    "model.reinit_layers=1",
)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle and two files; only read."""
    folder = tmp_path_factory.mktemp("material")
    tiny_bundle("mlm", pooler=True).save(folder / "b")
    write_classes(folder / "train.tsv", 33)
    write_classes(folder / "dev.tsv", 30, seed=1)
    return folder


def line(start: list[str], material: Path, out: Path, *assignments: str, seeds: int = 2) -> list[str]:
    settings = [part for assignment in (*TINY_TUNING, *assignments) for part in ("--set", assignment)]
    files = [material / "train.tsv", "--dev", material / "dev.tsv", "--bundle", material / "b", "-o", out]
    return [*start, *map(str, files), "--device", "cpu", "--seeds", str(seeds), *settings]


def finish(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done


def kill_after(command: list[str], folder: Path, step: int) -> None:
    """Begin the command; kill it and all it started once a step of that folder is in its metrics, or beyond."""
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + PATIENCE
        while last_step(folder) < step:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline, f"it did not come to step {step}"
            time.sleep(0.005)
        everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for one in reversed(everybody):  # the workers first: their parent would end them gently
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
                one.kill()
        psutil.wait_procs(everybody[1:], timeout=PATIENCE)


def last_step(folder: Path) -> int:
    rows = metrics(folder) if (folder / "metrics.jsonl").exists() else []
    return int(rows[-1]["step"]) if rows else 0


def test_killed_at_random_steps_of_both_seeds(material: Path, tmp_path: Path) -> None:
    finish(line(ALONE, material, tmp_path / "whole", *EVERYTHING))
    steps = {seed: last_step(tmp_path / "whole" / f"seed-{seed}") for seed in (0, 1)}
    kills = [(seed, step) for seed in (0, 1) for step in sorted(random.Random().sample(range(1, steps[seed] - 2), 2))]
    print("killed after", kills, "of", steps)
    out = tmp_path / "m"
    for seed, step in kills:
        kill_after(line(ALONE, material, out, *EVERYTHING), out / f"seed-{seed}", step)
    finish(line(ALONE, material, out, *EVERYTHING))
    assert tuned_differ(out, tmp_path / "whole") == []
    assert (out / "bundle" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "bundle" / "model.safetensors"
    ).read_bytes()


def test_a_killed_timed_run_ends_on_its_time(material: Path, tmp_path: Path) -> None:
    out, assignments = tmp_path / "m", (*EVERYTHING[3:], "run.minutes=0.05")
    kill_after(line(ALONE, material, out, *assignments, seeds=1), out / "seed-0", 5)
    finish(line(ALONE, material, out, *assignments, seeds=1))
    seconds = metrics_seconds(out)
    assert seconds < 3.0 + 5.0
    assert last_step(out / "seed-0") > 5


def metrics_seconds(out: Path) -> float:
    import json

    return float(json.loads((out / "report.json").read_bytes())["seconds"])


def test_two_processes_follow_one_where_classes_weigh(material: Path, tmp_path: Path) -> None:
    """float32, no dropout, the same global batch of an odd number of rows: within 1e-5 over ten steps."""
    same = ("run.steps=10", "run.evaluations=2", "run.batch_rows=7", "run.micro_tokens=30", "task.dropout=0.0",
            "model.dropout=0.0", "task.class_weights=balanced", "schedule.warmup=0.0")  # fmt: skip
    finish(line(ALONE, material, tmp_path / "one", *same, seeds=1))
    done = finish(line(PAIR, material, tmp_path / "two", *same, seeds=1))
    assert done.stdout.count("try: anaume predict") == 1  # one process talks
    assert done.stderr.count("seed 0: the classification head is drawn anew") == 1
    one, two = (metrics(tmp_path / name / "seed-0") for name in ("one", "two"))
    assert [row["step"] for row in one] == [row["step"] for row in two]
    for a, b in zip(one, two, strict=True):
        for key in ("loss", "gradient", "dev_loss"):
            if key in a:
                assert abs(a[key] - b[key]) < 1e-5 * max(1.0, abs(a[key])), key
        assert (a.get("tokens"), a.get("dev_accuracy")) == (b.get("tokens"), b.get("dev_accuracy"))
    theirs = weights_of(tmp_path / "two" / "bundle")
    for name, tensor in weights_of(tmp_path / "one" / "bundle").items():
        if name.endswith("key.bias"):
            continue  # softmax takes no notice of it: its gradient is rounding alone, and Adam makes steps of that
        assert float((tensor - theirs[name]).abs().max()) < 1e-4 * max(1.0, float(tensor.abs().max())), name


def test_two_killed_processes_are_exact_too(material: Path, tmp_path: Path) -> None:
    finish(line(PAIR, material, tmp_path / "whole", *EVERYTHING, seeds=1))
    out, step = tmp_path / "m", random.Random().randrange(2, last_step(tmp_path / "whole" / "seed-0") - 2)
    print("killed after", step)
    kill_after(line(PAIR, material, out, *EVERYTHING, seeds=1), out / "seed-0", step)
    finish(line(PAIR, material, out, *EVERYTHING, seeds=1))
    assert tuned_differ(out, tmp_path / "whole") == []


def test_what_two_processes_refuse_is_told_once(material: Path, tmp_path: Path) -> None:
    command = line(PAIR, material, tmp_path / "m", "run.steps=3", "run.batch_rows=1")
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0
    assert done.stderr.count("run.batch_rows is 1, fewer than the 2 processes") == 1
    assert not (tmp_path / "m").exists()
