"""The step and the loop: what is not finite is not applied, and the end is told as it was."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.data.corpus import open_corpus
from anaume.errors import DataError
from anaume.training import loop, pretrain
from anaume.training.loop import Meter, Run, StepDone, train_step
from anaume.training.records import read_lines
from tiny_corpora import make_corpus
from tiny_runs import metrics, tiny_settings

NAN = float("nan")
SETUP = importlib.import_module("anaume.training.pretraining.pretrain")  # the name is the function's too


@pytest.fixture
def caught_run(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Set a run up to the point where its loop would begin."""
    made: list[Run] = []
    monkeypatch.setattr(SETUP, "train", made.append)

    def make(*assignments: str) -> Run:
        pretrain(corpus, tmp_path / str(len(made)), tiny_settings("run.steps=10", *assignments), device="cpu")
        return made[-1]

    return make


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


class Poison:
    """Makes the loss or the gradient of chosen steps NaN."""

    def __init__(self, run: Run, steps: set[int], where: str) -> None:
        self._run, self._steps, self._inner, self._where = run, steps, run.work.loss, where

    def __call__(self, *given: Any) -> Any:
        loss, sums = self._inner(*given)
        if self._run.progress.step not in self._steps:
            return loss, sums
        if self._where == "loss":
            return loss * NAN, sums * NAN
        bias = self._run.model.get_parameter("heads.mlm.bias")
        bias.register_hook(lambda gradient: gradient * math.inf if self._run.progress.step in self._steps else gradient)
        return loss, sums


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_not_applied(
    caught_run: Callable[..., Run], where: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = caught_run("schedule.warmup=0.0")
    run.work.loss = Poison(run, {1}, where)  # type: ignore[assignment]
    states, optimizer_steps = [weights(run)], []
    for step in range(3):
        done = train_step(run, run.work.next_batch(run.progress, run.ranks, 0.0), 0.1)
        assert done.applied == (step != 1)
        run.progress.step += 1
        states.append(weights(run))
        optimizer_steps.append(float(next(iter(run.optimizer.state.values()))["step"]))
    assert not same(states[0], states[1])
    assert same(states[1], states[2])
    assert not same(states[2], states[3])
    assert all(tensor.isfinite().all() for tensor in states[3].values())
    assert optimizer_steps == [1, 1, 2]
    assert (run.progress.skipped, run.progress.skipped_in_a_row) == (1, 0)
    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert message.startswith(
        "the loss or its gradient is not finite at step 1 (the rows before epoch 0, block 0, row "
    )


def test_it_stops_when_asked_to(caught_run: Callable[..., Run]) -> None:
    run = caught_run("run.on_non_finite=stop")
    run.work.loss = Poison(run, {0}, "loss")  # type: ignore[assignment]
    before = weights(run)
    with pytest.raises(DataError, match=r"not finite at step 0 .* lower optimizer.learning_rate"):
        train_step(run, run.work.next_batch(run.progress, run.ranks, 0.0), 0.5)
    assert same(before, weights(run))


def test_twenty_in_a_row_stop_whatever_the_setting(caught_run: Callable[..., Run]) -> None:
    run = caught_run()
    run.work.loss = Poison(run, set(range(1, 30)), "loss")  # type: ignore[assignment]
    for _ in range(20):
        train_step(run, run.work.next_batch(run.progress, run.ranks, 0.0), 0.5)
        run.progress.step += 1
    with pytest.raises(DataError, match=r"not finite at step 20 .*, 20 times in a row"):
        train_step(run, run.work.next_batch(run.progress, run.ranks, 0.0), 0.5)


def test_metrics_count_what_was_skipped_and_stay_json(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loop.train

    def poisoned(run: Run) -> None:
        run.work.loss = Poison(run, {2, 3}, "loss")  # type: ignore[assignment]
        whole(run)

    monkeypatch.setattr(SETUP, "train", poisoned)
    result = pretrain(corpus, tmp_path / "run", tiny_settings("run.steps=6"), device="cpu")
    assert (result.steps, result.skipped) == (6, 2)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [row["skipped"] for row in rows] == [0, 0, 1, 2, 2, 2]
    assert [row["loss"] is None for row in rows] == [False, False, True, True, False, False]
    assert rows[2]["gradient"] is None


def test_rows_say_what_was_trained(corpus: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    settings = tiny_settings("run.steps=12", "data.pairing=nsp", "run.evaluations=3")
    result = pretrain(corpus, tmp_path / "run", settings, device="cpu", report=rows.append)
    assert rows == read_lines(tmp_path / "run" / "metrics.jsonl")
    steps = [row for row in rows if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 13))
    assert [row["tokens"] for row in steps] == sorted(row["tokens"] for row in steps)
    assert steps[-1]["tokens"] == result.tokens
    for row in steps:
        assert row["loss"] == pytest.approx(row["token_loss"] + row["pair_loss"])
        assert row["tokens_per_second"] > 0
        assert 0 <= row["accuracy"] <= 1
        assert 0 <= row["pair_accuracy"] <= 1
    assert [row["seconds"] for row in steps] == sorted(row["seconds"] for row in steps)
    held_out = [row for row in rows if "held_out_loss" in row]
    assert [(row["step"], row["fraction"]) for row in held_out] == [(5, 0.333333), (9, 0.666667), (12, 1.0)]
    assert result.scores == {key: value for key, value in held_out[-1].items() if key.startswith("held_out")}


def test_rows_come_by_the_clock_and_the_first_and_last_always(corpus: Path, tmp_path: Path) -> None:
    pretrain(corpus, tmp_path / "run", tiny_settings("run.steps=9", "run.log_seconds=5.0"), device="cpu")
    rows = metrics(tmp_path / "run")
    assert (rows[0]["step"], rows[-1]["step"]) == (1, 9)
    assert len(rows) < 9


def test_the_meter_leaves_pauses_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    meter = Meter()
    meter.add(StepDone(torch.ones(4), torch.tensor([4.0, 2.0, 100.0]), 1.0, applied=True))
    now[0] = 1.0
    with meter.paused():
        now[0] = 60.0
    assert not meter.due(2.0)
    now[0] = 61.0
    assert meter.due(2.0)
    assert meter._elapsed() == 2.0


def test_rows_get_fewer_and_longer_in_the_last_part(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []
    inner = loop._micro_step

    def watched(run: Run, targets: Any, divisors: Any, last: bool) -> Any:
        shapes.append((run.progress.step, *targets.token_ids.shape))
        return inner(run, targets, divisors, last)

    monkeypatch.setattr(loop, "_micro_step", watched)
    settings = tiny_settings("run.steps=10", "data.long_seq_len=32", "data.long_share=0.3", "run.micro_rows=4")
    pretrain(corpus, tmp_path / "run", settings, device="cpu")
    # 8 rows of 16 in two parts of 4, then 4 rows of 32 in two parts of 2: as many tokens at once as before.
    expected = [(step, 4, 16) for step in range(7) for _ in range(2)]
    assert shapes == expected + [(step, 2, 32) for step in range(7, 10) for _ in range(2)]


def masks_of_a_run(
    corpus: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *assignments: str
) -> list[list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """What a run of two epochs and more trained: of each step its rows, as they were, and the places hidden in each."""
    found: list[list[tuple[tuple[int, ...], tuple[int, ...]]]] = []
    inner = loop._micro_step

    def watched(run: Run, targets: Any, divisors: Any, last: bool) -> Any:
        if run.progress.step == len(found):
            found.append([])
        used = targets.labels >= 0
        for row, places, labels, chosen in zip(targets.token_ids, targets.positions, targets.labels, used, strict=True):
            text = row.scatter(0, places[chosen], labels[chosen]).tolist()
            found[-1].append((tuple(text), tuple(sorted(places[chosen].tolist()))))
        return inner(run, targets, divisors, last)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_micro_step", watched)
        pretrain(corpus, out, tiny_settings("run.steps=16", "run.batch_rows=20", *assignments), device="cpu")
    return found


@pytest.mark.parametrize("units", ["pieces", "words"])
def test_a_run_hides_other_words_in_each_epoch_and_the_same_ones_when_run_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: str
) -> None:
    """MLM-03, in a whole run: fresh masks for a row that comes again, equal ones for the same seed, also in parts."""
    first, parted, other = (
        masks_of_a_run(corpus, tmp_path / name, monkeypatch, f"objective.units={units}", *changed)
        for name, changed in (("a", []), ("b", ["run.micro_rows=7"]), ("c", ["run.seed=1"]))
    )
    assert parted == first
    hidden: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for text, places in (row for step in first for row in step):
        hidden.setdefault(text, []).append(places)
    twice = [masks for text, masks in hidden.items() if len(masks) > 1 and sum(token > 4 for token in text) > 9]
    assert len(twice) > 50
    assert sum(masks[0] == masks[1] for masks in twice) < 0.2 * len(twice)
    alike: dict[tuple[Any, ...], list[tuple[int, ...]]] = {}  # rows of one shape, at one place of the batch
    for step in first:
        for place, (text, places) in enumerate(step):
            alike.setdefault((place, *(token > 4 for token in text)), []).append(places)
    repeated = [masks for masks in alike.values() if len(masks) > 2]
    assert len(repeated) > 5
    assert sum(len(set(masks)) == 1 for masks in repeated) < 0.2 * len(repeated)
    elsewhere = dict(row for step in other for row in step)
    shared = [(masks[0], elsewhere[text]) for text, masks in hidden.items() if text in elsewhere]
    assert len(shared) > 50
    assert sum(one == another for one, another in shared) < 0.2 * len(shared)


def test_dropout_is_a_function_of_seed_step_and_rank() -> None:
    seeds = {loop._dropout_seed(seed, step, rank) for seed in range(5) for step in range(200) for rank in range(4)}
    assert len(seeds) == 5 * 200 * 4
    assert loop._dropout_seed(1, 2, 3) == loop._dropout_seed(1, 2, 3)


@pytest.mark.parametrize("start", ["informed", "published"])
def test_a_small_model_learns_what_a_unigram_can_not(tmp_path: Path, start: str) -> None:
    corpus = make_corpus(tmp_path, documents=800)
    settings = tiny_settings(
        "run.steps=250",
        "run.batch_rows=32",
        "run.evaluations=1",
        "run.evaluation_rows=64",
        "model.hidden_size=32",
        "model.dropout=0.0",
        f"model.start={start}",
        "objective.mask_rate=0.3",
        "optimizer.learning_rate=0.005",
        "optimizer.beta2=0.95",
        "schedule.kind=constant",
    )
    result = pretrain(corpus, tmp_path / "run", settings, device="cpu")
    counts = open_corpus(corpus).split("train").token_counts()
    shares = counts[counts > 0] / counts.sum()
    floor = float(-(shares * np.log(shares)).sum())
    first = metrics(tmp_path / "run")[0]["loss"]
    print(f"first {first:.2f}, ln V {math.log(len(counts)):.2f}, floor {floor:.2f}, {result.scores}")
    assert first == pytest.approx(floor if start == "informed" else math.log(len(counts)), rel=0.05)
    assert result.scores["held_out_loss"] < 0.93 * floor
