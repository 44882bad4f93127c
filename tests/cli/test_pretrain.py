"""`anaume pretrain`: the line that begins a run, takes it up again, and leaves it alone when it is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import anaume
from anaume.cli.pretrain import OBJECTIVES
from anaume.training import PretrainSettings
from commands import Run, begin, spawn
from helpers import PATIENCE
from tiny_corpora import make_corpus
from tiny_runs import TINY, differing, last_state


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose rate is known without measuring it."""
    monkeypatch.setattr("anaume.training.pretraining.ceiling.matrix_rate", lambda precision: 400.0)


SETS = [part for assignment in TINY for part in ("--set", assignment)]


def stored(out: Path) -> PretrainSettings:
    return PretrainSettings.read(out / "settings.toml")


def test_a_run_from_the_first_line_to_the_bundle(run: Run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("pretrain", corpus, "-o", out, "--steps", 6, "--seed", 3, *SETS, "--set", "run.evaluations=1")
    assert done.code == 0
    assert f"bundle          {out / 'bundle'}" in done.out
    assert done.out.splitlines()[-1] == f'try: anaume fill {out / "bundle"} "the [MASK] was too small"'
    assert "held-out loss   " in done.out
    assert "ln V = 3.85" in done.err
    assert "at 400 GFLOP/s (float32, 1 thread)" in done.err
    assert "step 1 of 6 (0%), loss 3." in done.err
    assert "% of the matrix rate)" in done.err
    assert stored(out).run.seed == 3
    assert anaume.load(out / "bundle", device="cpu").parts.record.objectives == ("mlm",)

    again = run("pretrain", corpus, "-o", out, "--steps", 6, "--seed", 3, *SETS, "--set", "run.evaluations=1")
    assert again.code == 0
    assert again.out.startswith(f"{out} is finished already: nothing to do\n")
    assert again.out.endswith(done.out)

    other = run("pretrain", corpus, "-o", out, "--steps", 7, "--seed", 3, *SETS, "--set", "run.evaluations=1", "-q")
    assert (other.code, other.out) == (2, "")
    assert f"{out} holds a run with other settings: run.steps: 7, there 6." in other.error()


def test_json_is_one_object_on_stdout(run: Run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run("pretrain", corpus, "-o", out, "--steps", 2, *SETS, "--json", "-q")
    record = json.loads(done.out)
    assert (done.code, done.err.count("\n") <= 1) == (0, True)
    assert (record["steps"], record["finished"], record["bundle"]) == (2, True, str(out / "bundle"))
    assert record["first_loss"] > record["entropy_floor"] > 0
    assert "stayed at the floor" in record["notes"][0]


def test_a_run_that_learned_nothing_says_why(run: Run, corpus: Path, tmp_path: Path) -> None:
    done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 2, *SETS)
    assert done.code == 0
    assert "warning: the loss stayed at the floor" in done.err


def test_a_run_whose_weights_are_lost_is_told_as_that(run: Run, corpus: Path, tmp_path: Path) -> None:
    settings = ("--set", "optimizer.learning_rate=1e30", "--set", "run.evaluations=1")
    for _ in range(2):  # and when it is there already
        done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 3, *SETS, *settings)
        assert done.code == 0
        assert "held-out loss   not finite nats a token" in done.out
        assert "the weights are of no use" in done.err


def test_memory_that_is_short_is_no_bug(run: Run, corpus: Path, tmp_path: Path) -> None:
    rows = ("--set", "model.max_position_embeddings=1000000000000")  # of a table that no machine holds
    done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 2, *SETS, *rows, "-q")
    assert done.code == 1
    assert "out of memory: give smaller files" in done.error()
    assert "run.micro_rows" in done.error()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_objective_trains_what_it_names(run: Run, corpus: Path, tmp_path: Path, objective: str) -> None:
    done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 2, "--objective", objective, *SETS, "--json")
    assert done.code == 0, done.err
    bundle = anaume.load(tmp_path / "run" / "bundle", device="cpu")
    assert bundle.parts.record.objectives == tuple(objective.split("+"))
    assert bundle.config.causal == (objective == "clm")
    filled = run("fill", tmp_path / "run" / "bundle", "the [MASK] likes it")
    if objective == "clm":
        assert "trained on the next token (clm)" in filled.error()
    else:
        assert filled.code == 0, filled.err
        lines = run("fill", tmp_path / "run" / "bundle", "-", "--json", stdin=b"a [MASK]\n\nthe [MASK]\n")
        assert (lines.code, len(lines.out.splitlines())) == (1, 1)
        assert "<stdin>: line 2: no blank to fill" in lines.error()


def test_what_to_try_fits_the_objective(run: Run, corpus: Path, tmp_path: Path) -> None:
    for objective, command in (("mlm", "fill"), ("clm", "info")):
        done = run("pretrain", corpus, "-o", tmp_path / objective, "--steps", 1, "--objective", objective, *SETS)
        assert f"try: anaume {command} {tmp_path / objective / 'bundle'}" in done.out


def test_settings_go_one_over_the_other(run: Run, corpus: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text("[run]\nminutes = 3.0\nseed = 8\nbatch_rows = 5\n[optimizer]\nlearning_rate = 0.5\n", "utf-8")
    out = tmp_path / "run"
    done = run(
        "pretrain", corpus, "-o", out, "--config", config, "--recipe", "paper", "--steps", 2, "--size", "tiny",
        "--set", "data.seq_len=16", "--set", "data.long_seq_len=32", "--set", "run.evaluations=0",
        "--set", "model.max_position_embeddings=32", "--set", "run.threads=1", "--set", "data.pairing=none",
    )  # fmt: skip
    assert done.code == 0, done.err
    settings = stored(out)
    assert (settings.run.steps, settings.run.minutes) == (2, None)  # the option over the file
    assert (settings.run.seed, settings.run.batch_rows) == (8, 5)  # the file over the defaults
    assert settings.optimizer.learning_rate == 1e-4  # the recipe over the file
    assert settings.data.pairing == "none"  # --set over the recipe
    assert settings.model.size == "tiny"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "how long? give run.steps or run.minutes (--steps, --minutes)"),
        (["--steps", "2", "--minutes", "1"], "run: give steps or minutes, not both"),
        (["--steps", "0"], "run.steps: Input should be greater than or equal to 1"),
        (["--steps", "2", "--size", "minni"], "no size is called 'minni' (did you mean 'mini'?)"),
        (["--steps", "2", "--set", "run.sed=1"], "no setting run.sed (did you mean 'seed'?)"),
        (["--steps", "2", "--config", "none.toml"], "none.toml: can't be read: No such file"),
        (["--replay", "none.jsonl"], "none.jsonl: can't be read"),
        (["--steps", "2", "--seed", str(2**63)], "run.seed: Input should be less than 9223372036854775808"),
        (["--steps", "2", "--set", "run.threads=99999999999"], "run.threads: Input should be less than or equal"),
    ],
)
def test_wrong_use_is_one_line(run: Run, corpus: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run("pretrain", corpus, "-o", tmp_path / "run", *arguments, "-q")
    assert said in done.error()
    assert done.code == (1 if "--replay" in arguments else 2)
    assert done.out == ""
    assert not (tmp_path / "run" / "bundle").exists()


def test_what_is_no_corpus_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("pretrain", tmp_path, "-o", tmp_path / "run", "--steps", 2, "-q")
    assert done.code == 1
    assert "make one with `anaume prepare`" in done.error()


def test_a_bundle_goes_on_and_missing_heads_are_made_when_asked(run: Run, corpus: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run("pretrain", corpus, "-o", first, "--steps", 3, *SETS, "-q").code == 0
    plain = ["--set", "data.seq_len=16", "--set", "run.threads=1", "--set", "run.evaluation_rows=9"]
    line = ["pretrain", corpus, "--bundle", first / "bundle", "-o", second, "--steps", 3, "--objective", "mlm+nsp"]
    refused = run(*line, *plain, "-q")
    assert (refused.code, "ask for new ones with --new-heads" in refused.error()) == (2, True)
    assert not (second / "bundle").exists()
    done = run(*line, *plain, "--new-heads")
    assert done.code == 0, done.err
    assert "warning: drawn by the seed, as the bundle has none: nsp, pooler" in done.err
    assert " before (floor " in done.out
    assert len(anaume.load(second / "bundle", device="cpu").parts.record.stages) == 2


def test_a_timed_run_can_be_trained_again_by_its_journal(run: Run, corpus: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    line = ["pretrain", corpus, "--minutes", "0.01", *SETS, "-q"]
    assert run(*line, "-o", first).code == 0
    assert run(*line, "-o", second, "--replay", first / "journal.jsonl").code == 0
    states = [last_state(out) for out in (first, second)]
    assert differing(states[0]["model"], states[1]["model"]) == []


def test_what_a_time_budget_leaves_open_is_proposed_and_said(run: Run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = ["pretrain", corpus, "-o", out, "--minutes", "0.01", *SETS, "--set", "run.batch_rows=none"]
    line += ["--set", "model.start=published"]  # which 0.01 minutes don't get off the floor
    done = run(*line)
    assert done.code == 0, done.err
    assert "proposed for 0.01 min: 128 rows a step: the smallest, as neither time nor memory" in done.err
    assert "small batches (128 rows of 16)" in done.err  # what the floor may come from names what was trained
    assert stored(out).run.batch_rows == 128
    again = run(*line)
    assert (again.code, "proposed" in again.err) == (0, False)
    assert again.out.startswith(f"{out} is finished already")


def test_other_ranks_say_nothing(run: Run, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 2, *SETS)
    assert (done.code, done.out, done.err) == (0, "", "")
    done = run("pretrain", corpus, "-o", tmp_path / "run", "--steps", 3, *SETS)
    assert (done.code, done.out, done.err) == (2, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_exits_130_and_the_same_line_goes_on(
    corpus: Path, tmp_path: Path, number: signal.Signals
) -> None:
    line = ["pretrain", corpus, "--steps", "400", *SETS, "--set", "model.dropout=0.1"]
    assert spawn(*line, "-o", tmp_path / "whole").code == 0
    out = tmp_path / "run"
    process = begin(*line, "-o", out, text=True)
    wait_for_step(out, 20, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.splitlines()[-1].startswith("stopped after step ")
    assert 20 <= last_state(out)["progress"]["step"] < 400
    stopped = stderr.splitlines()[-1].removeprefix("stopped after step ").partition(",")[0]
    again = spawn(*line, "-o", out)
    assert again.code == 0
    assert f"goes on after step {stopped}, " in again.err
    states = [last_state(folder) for folder in (out, tmp_path / "whole")]
    assert differing(states[0]["model"], states[1]["model"]) == []


def wait_for_step(out: Path, step: int, process: subprocess.Popen[str]) -> None:
    path = out / "metrics.jsonl"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= step:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    pytest.fail("the run did not begin")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_checkpoint_before_is_whole(corpus: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the metrics fit, and from some step on the checkpoint not."""
    out = tmp_path / "run"
    line = ["pretrain", str(corpus), "-o", str(out), "--steps", "30", *SETS, "-q"]
    line += ["--set", "run.checkpoint_seconds=1e-9", "--set", "optimizer.learning_rate=0.001"]
    code = (
        "import resource, sys; from anaume.cli import main; import anaume.training.loop as loop\n"
        "inner = loop.save_checkpoint\n"
        "def save(folder, progress, *rest):\n"
        "    if progress.step == 9: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "    return inner(folder, progress, *rest)\n"
        "loop.save_checkpoint = save\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *line],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert "step-00000009.pt: File too large; nothing was written and an older file is untouched" in error
    assert [path.name for path in sorted((out / "checkpoints").iterdir())] == ["step-00000007.pt", "step-00000008.pt"]
    assert last_state(out)["progress"]["step"] == 8
    assert spawn(*line).code == 0
    assert last_state(out)["progress"]["step"] == 30
