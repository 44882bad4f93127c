"""Real kills and real processes: SIGKILL in the middle of a run, torchrun with two gloo processes. Slow."""

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

from anaume.training import pretrain
from anaume.training.pretraining.result import stored_settings
from anaume.training.records import read_journal
from helpers import PATIENCE
from tiny_corpora import make_corpus
from tiny_runs import TINY, differing, last_state, metrics, run_differs, tiny_settings

pytestmark = pytest.mark.slow

ALONE = [sys.executable, "-m", "anaume", "pretrain"]
PAIR = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *ALONE[2:]]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
EVERYTHING = (
    "model.dropout=0.1",
    "data.pairing=nsp",
    "run.batch_rows=8",
    "run.micro_rows=3",
    "run.evaluations=3",
    "run.checkpoint_seconds=0.05",
)


def line(start: list[str], corpus: Path, out: Path, *assignments: str) -> list[str]:
    settings = [part for assignment in (*TINY, *assignments) for part in ("--set", assignment)]
    return [*start, str(corpus), "-o", str(out), *settings]


def finish(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done


def refused(command: list[str]) -> str:
    """What a command that fails says."""
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0
    return done.stderr


def kill_after(command: list[str], out: Path, step: int) -> None:
    """Begin the command, and kill it and all it started once a step is in the metrics: at whatever it is doing."""
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for(step, out, process)
        everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for one in reversed(everybody):  # the workers first: their parent would end them gently
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
                one.kill()
        psutil.wait_procs(everybody[1:], timeout=PATIENCE)


def wait_for(step: int, out: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while last_step(out) < step:
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline, f"it did not come to step {step}"
        time.sleep(0.005)


def last_step(out: Path) -> int:
    rows = metrics(out) if (out / "metrics.jsonl").exists() else []
    return int(rows[-1]["step"]) if rows else 0


def test_killed_at_five_random_steps_of_two_hundred(corpus: Path, tmp_path: Path) -> None:
    assignments = ("run.steps=200", *EVERYTHING)
    finish(line(ALONE, corpus, tmp_path / "whole", *assignments))
    assert last_state(tmp_path / "whole")["progress"]["position"]["epoch"] >= 2
    steps = sorted(random.Random().sample(range(1, 195), 5))
    print("killed after", steps)
    out = tmp_path / "run"
    for step in steps:
        kill_after(line(ALONE, corpus, out, *assignments), out, step)
    finish(line(ALONE, corpus, out, *assignments))
    assert run_differs(out, tmp_path / "whole") == []
    assert (out / "bundle" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "bundle" / "model.safetensors"
    ).read_bytes()


def test_a_killed_timed_run_equals_the_replay_of_its_journal(corpus: Path, tmp_path: Path) -> None:
    out, assignments = tmp_path / "run", ("run.minutes=0.05", *EVERYTHING)
    for step in (3, 20):
        kill_after(line(ALONE, corpus, out, *assignments), out, step)
    finish(line(ALONE, corpus, out, *assignments))
    journal = out / "journal.jsonl"
    assert len(read_journal(journal)) == last_state(out)["progress"]["step"] > 20
    finish([*line(ALONE, corpus, tmp_path / "again", *assignments), "--replay", str(journal)])
    assert run_differs(tmp_path / "again", out) == []


def test_a_killed_timed_run_keeps_its_chosen_batch_and_equals_the_replay_of_its_journal(
    corpus: Path, tmp_path: Path
) -> None:
    """18 seconds, just long enough to measure in; the same line each time, and nothing of it says the batch."""
    out, assignments = tmp_path / "run", ("run.minutes=0.3", *EVERYTHING, "run.batch_rows=none")
    for step in (2, 6):
        kill_after(line(ALONE, corpus, out, *assignments), out, step)
    rows, proposal = stored_rows(out), (out / "run.json").read_bytes()
    done = finish(line(ALONE, corpus, out, *assignments))
    assert "proposed" not in done.stderr
    assert (stored_rows(out), (out / "run.json").read_bytes()) == (rows, proposal)
    assert last_state(out)["progress"]["seconds"] < 25
    journal = out / "journal.jsonl"
    assert len(read_journal(journal)) == last_state(out)["progress"]["step"] > 6
    finish([*line(ALONE, corpus, tmp_path / "again", *assignments), "--replay", str(journal)])
    assert run_differs(tmp_path / "again", out) == []


def stored_rows(out: Path) -> int:
    settings = stored_settings(out)
    assert settings is not None
    assert settings.run.batch_rows is not None
    return settings.run.batch_rows


def test_two_processes_choose_nothing_and_say_so(corpus: Path, tmp_path: Path) -> None:
    done = finish(line(PAIR, corpus, tmp_path / "run", "run.minutes=0.05", "run.batch_rows=none"))
    assert done.stderr.count("with 2 processes nothing is measured") == 1
    assert stored_rows(tmp_path / "run") == 32


def test_two_processes_are_as_exact_as_one(corpus: Path, tmp_path: Path) -> None:
    assignments = ("run.steps=60", *EVERYTHING, "run.batch_rows=7", "data.long_seq_len=32", "data.long_share=0.3")
    finish(line(PAIR, corpus, tmp_path / "whole", *assignments))
    out = tmp_path / "run"
    step = random.Random().randrange(2, 58)
    print("killed after", step)
    kill_after(line(PAIR, corpus, out, *assignments), out, step)
    done = finish(line(PAIR, corpus, out, *assignments))
    assert run_differs(out, tmp_path / "whole") == []
    assert done.stdout.count("try: anaume fill") == 1  # one process talks


TEN_STEPS = (
    "run.steps=10", "model.dropout=0.0", "run.batch_rows=9", "run.micro_rows=2",
    "schedule.warmup=0.0", "optimizer.learning_rate=0.003", "run.evaluations=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def pairs(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of ten steps of two processes by their pairing; only read."""
    outs = {pairing: tmp_path_factory.mktemp("pairs") / pairing for pairing in ("none", "nsp")}
    for pairing, out in outs.items():
        finish(line(PAIR, corpus, out, *TEN_STEPS, f"data.pairing={pairing}"))
    return outs


@pytest.mark.parametrize("pairing", ["none", "nsp"])
def test_two_processes_follow_one(corpus: Path, tmp_path: Path, pairs: dict[str, Path], pairing: str) -> None:
    """float32, no dropout, the same global batch of an odd number of rows: within 1e-5 over ten steps."""
    settings = tiny_settings(*TEN_STEPS, f"data.pairing={pairing}")
    pretrain(corpus, tmp_path / "one", settings, device="cpu")
    outs = (tmp_path / "one", pairs[pairing])
    one, two = map(metrics, outs)
    worst = 0.0
    for a, b in zip(one, two, strict=True):
        for key in ("loss", "token_loss", "pair_loss", "gradient", "held_out_loss"):
            if key in a:
                worst = max(worst, abs(a[key] - b[key]) / abs(a[key]))
        assert [a.get(key) for key in ("step", "tokens", "accuracy", "epoch")] == [
            b.get(key) for key in ("step", "tokens", "accuracy", "epoch")
        ]
    print(f"{pairing}: within {worst:.1e} of one process")
    assert worst < 1e-5
    states = list(map(last_state, outs))
    assert differing(states[0]["progress"]["position"], states[1]["progress"]["position"]) == []
    for name, tensor in states[0]["model"].items():
        assert float((tensor - states[1]["model"][name]).abs().max()) < 1e-4 * max(1.0, float(tensor.abs().max()))


def test_a_stop_of_one_process_stops_all_at_the_same_step(corpus: Path, tmp_path: Path) -> None:
    assignments = ("run.steps=120", *EVERYTHING)
    out = tmp_path / "run"
    with subprocess.Popen(
        line(PAIR, corpus, out, *assignments), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        wait_for(10, out, process)
        worker = psutil.Process(process.pid).children(recursive=True)[-1]
        worker.terminate()
        process.communicate(timeout=PATIENCE)
    step = last_state(out)["progress"]["step"]
    assert 10 <= step < 120
    assert step == last_step(out)
    finish(line(PAIR, corpus, out, *assignments))
    assert last_state(out)["progress"]["step"] == 120


def test_refused_settings_are_told_once(corpus: Path, pairs: dict[str, Path]) -> None:
    said = refused(line(PAIR, corpus, pairs["nsp"], *TEN_STEPS, "data.pairing=nsp", "run.steps=4"))
    assert said.count("holds a run with other settings: run.steps: 4, there 10") == 1


def test_a_batch_smaller_than_the_processes_is_refused(corpus: Path, tmp_path: Path) -> None:
    said = refused(line(PAIR, corpus, tmp_path / "run", "run.steps=3", "run.batch_rows=1"))
    assert said.count("run.batch_rows is 1, fewer than the 2 processes") == 1
    assert not (tmp_path / "run").exists()


def test_processes_that_were_given_different_corpora_are_refused(corpus: Path, tmp_path: Path) -> None:
    other = make_corpus(tmp_path, seed=2)
    choose = f'[ "$RANK" = 0 ] && shards={corpus} || shards={other}; exec "$@" "$shards"'
    whole = line(ALONE, corpus, tmp_path / "run", "run.steps=3")
    settings = whole[len(ALONE) + 1 :]
    said = refused([*PAIR[:-3], "--no-python", "bash", "-c", choose, "bash", *ALONE, *settings])
    assert said.count("the processes were not all given the same run: another corpus. Every machine") == 1
    assert not (tmp_path / "run").exists()
