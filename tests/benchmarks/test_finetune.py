"""Fine-tuning beside the Trainer: both sides are given the same, every row can be run, the page says what is there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.errors import SettingsError
from anaume.tasks.comparing import compare
from anaume.tasks.features import IGNORED
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.tuned_model import tuned_model
from benchmarks import finetune, finetune_data, finetune_page, finetune_trainer, kept, rates
from benchmarks.finetune_data import CORE, FURTHER, MADE, drawn
from benchmarks.finetune_page import make_page
from benchmarks.finetune_pairs import Pairs, resampled
from benchmarks.finetune_sides import Row, opened, peer_of, steps_of, task_of
from benchmarks.finetune_study import FinetuneStudy
from benchmarks.rates import Rates
from helpers import public_data

PLAN = finetune.plan()
MACHINES = (kept, rates, finetune_page)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MACHINES:
        monkeypatch.setattr(module, "machine", lambda: "a machine")


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., FinetuneStudy]:
    """Make a study of rows, each pace of which takes so many seconds a step, half of that an evaluation of 32."""

    def make(*rows: Row, seconds: dict[str, float] | None = None) -> FinetuneStudy:
        known = Rates(tmp_path / "rates.jsonl")
        for row in rows:
            for pace, share in ((row.pace, 1.0), (row.evaluation_pace, 0.5)):
                step = (seconds or {}).get(f"{row.side} {row.precision}")
                if step is not None:
                    line = {"pace": pace, "seconds": share * step, "spread": 0.1, "rounds": 3, "date": "2030-01-02"}
                    known._lines[pace] = line | {"commit": "abc", "machine": "a quiet machine"}
        return FinetuneStudy(rows, rates=known, runs=tmp_path / "runs", kept=tmp_path / "rows")

    return make


def made(kind: str, **other: Any) -> Row:
    return Row(name=f"a {kind}", data=f"made {kind}", bundle="made", **other)


def line_of(row: Row, score: float, **other: Any) -> dict[str, Any]:
    return {
        "row": row.definition, "threads": 1, "steps": 188, "seconds": 99.0, "best_step": 63, "curve": [],
        "losses": [0.7, 0.1], "cut": 0.25, "metric": "accuracy", "scores": {"accuracy": score}, "train": 2000,
        "dev": 320, "sha256": "0", "overlap": {"dev in train": 7, "starting model": ""}, "date": "2030-01-02",
        "commit": "abc", "machine": "a machine", "versions": {},
    } | other  # fmt: skip


# -- rows -------------------------------------------------------------------------------------------------------------


def test_every_row_can_be_run_and_the_trainer_knows_its_settings() -> None:
    rows = PLAN.rows
    assert len({row.name for row in rows}) == len(rows) == 3 * 4 * 3 + 6 * 2 + 2 * (3 + 3 + 1 + 1)
    for row in rows:
        settings = row.finetune_settings(threads=2)
        assert (settings.run.epochs, settings.run.batch_rows, settings.run.evaluations) == (3, 32, 3)
        if row.side == "trainer":
            finetune_trainer._check(settings)
    with pytest.raises(SettingsError, match=r"the Trainer has no optimizer\.layer_decay"):
        finetune_trainer._check(rows[0].finetune_settings().with_values(["optimizer.layer_decay=0.9"]))
    with pytest.raises(SettingsError, match="once an epoch"):
        finetune_trainer._check(rows[0].finetune_settings().with_values(["run.evaluations=2"]))


@pytest.mark.parametrize("data", [*CORE, *FURTHER])
def test_the_kinds_of_run_differ_in_side_precision_and_time_alone(data: str) -> None:
    table = PLAN.core if data in CORE else PLAN.further
    for rows in zip(*table[data].values(), strict=True):
        assert len({row.seed for row in rows}) == 1
        settings = [row.finetune_settings().with_values(["run.precision=auto"]) for row in rows]
        assert all(one == settings[0] for one in settings)
        assert len({json.dumps(row.definition["examples"]) for row in rows}) == 1


def test_a_pace_is_what_decides_the_time() -> None:
    row = finetune.row("MRPC", "ours", 0)
    assert row.pace == replace(row, name="b", seed=2, settings=("task.pooling=mean",)).pace
    others = (finetune.row("RTE", "ours", 0), row.trainer, replace(row, precision="float32"))
    assert len({row.pace, *(other.pace for other in others)}) == 4
    for changed in ({"data": "RTE"}, {"seed": 1}, {"settings": ("task.pooling=mean",)}, {"budget": "trainer"}):
        assert replace(row, **changed).definition != row.definition


def test_some_are_drawn_the_same_ones_each_time() -> None:
    examples = list(range(100))
    some = finetune_data._some(examples, 10)
    assert some == finetune_data._some(examples, 10) == sorted(some)
    assert len(set(some)) == 10
    assert finetune_data._some(examples, 100) is finetune_data._some(examples, None) is examples


@pytest.mark.real
@pytest.mark.filterwarnings("ignore::anaume.AnaumeWarning")
@pytest.mark.parametrize(
    ("data", "train", "dev"),
    [("MRPC", 1000, 408), ("RTE", 1000, 277), ("STS-B", 1000, 1500), ("CoNLL-2003", 1000, 1000),
     ("ARC easy", 1000, 548)],
)  # fmt: skip
def test_real_data_is_read_and_does_not_depend_on_where_it_lies(data: str, train: int, dev: int) -> None:
    root = public_data("README.md").parent
    own = drawn(data)
    assert (len(own.train), len(own.dev)) == (train, dev)
    assert str(root) not in repr(own.train[0])


@pytest.mark.real
def test_articles_are_on_one_side() -> None:
    public_data("squad/dev-v2.0.cs224n-half.json.gz")
    own = drawn("SQuAD 2.0")
    titles = [{example.title for example in examples} for examples in (own.train, own.dev)]
    assert list(map(len, titles)) == [12, 4]
    assert not titles[0] & titles[1]


# -- both sides are given the same ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", finetune.MADE.keys())
def test_the_trainer_is_given_our_rows_and_begins_with_our_loss(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    row = Row(name="a", data=kind, bundle="made", side="trainer", precision="float32", seed=3)
    peer = peer_of(row, tmp_path / "start")
    theirs = getattr(transformers, finetune_trainer._MODELS[peer.kind]).from_pretrained(peer.start).eval()
    rows = finetune_trainer.Rows(peer.features, finetune_trainer.learned(peer.features))
    collate = finetune_trainer._collator(transformers, peer)
    # transformers lets answers begin in the padding: of questions only single rows can be compared
    size = 1 if peer.kind == "span" else len(rows)
    batches = [collate([rows[number] for number in range(first, first + size)]) for first in range(0, len(rows), size)]
    with torch.no_grad():
        loss = float(np.mean([float(theirs(**batch).loss) for batch in batches]))

    model, _ = tuned_model(row.finetune_settings(), opened("made"), peer.task)
    tokenizer, cpu = opened("made").tokenizer, torch.device("cpu")
    train = HeldOutExamples(drawn(kind).train, peer.features, tokenizer.pad_id, cpu)
    assert loss == pytest.approx(train.score(model, peer.task, torch.float32).loss, abs=1e-5)
    dev = HeldOutExamples(peer.dev_examples, peer.dev_features, tokenizer.pad_id, cpu)
    ours, said = dev.score(model, peer.task, torch.float32).logits, finetune_trainer._logits(peer, theirs)
    for own, other in zip(ours, said, strict=True):
        np.testing.assert_allclose(other, own, atol=1e-5)


def test_the_trainer_learns_numbers_as_they_are() -> None:
    row = made("regression")
    assert task_of(row).settings()["spread"] != 1.0
    assert task_of(row.trainer).settings()["spread"] == 1.0


def test_what_has_no_place_for_its_answer_is_not_learned_as_unanswerable() -> None:
    row = made("question-answering")
    tokenizer, examples = opened("made").tokenizer, drawn(row.data).train
    misplaced = replace(examples[1], answers=(replace(examples[1].answers[0], start=0),))
    features = task_of(row).features([examples[0], misplaced], tokenizer, 32, learn=True)
    assert features.targets["start"].tolist()[1] == IGNORED
    assert finetune_trainer.learned(features) == [0]


# -- the study --------------------------------------------------------------------------------------------------------


def test_a_row_is_trained_scored_and_kept(make_study: Callable[..., FinetuneStudy], tmp_path: Path) -> None:
    row = made("classification", precision="float32")
    study = make_study(row)
    line = study.run(row, threads=1)
    assert line is not None
    assert (line["steps"], line["train"], line["dev"], line["metric"]) == (steps_of(row), 24, 12, "accuracy")
    assert line["scores"]["accuracy"] == max(point["main"] for point in line["curve"]), "the best is what is scored"
    assert make_study(row).result(row) == json.loads((tmp_path / "rows" / "finetune.jsonl").read_text()) == line
    examples = study.examples(row)
    assert examples is not None
    assert task_of(row).score_of(examples) == line["scores"]["accuracy"]
    assert (tmp_path / "rows" / "finetune" / f"{row.name}.npz").exists()
    assert not (tmp_path / "runs" / "finetune" / row.name).exists()
    again = make_study(row)
    again.forget(row.name)
    assert again.state(row) == "missing"
    assert again.run(row, threads=1)["scores"] == line["scores"]  # type: ignore[index]


def test_a_changed_definition_is_said(make_study: Callable[..., FinetuneStudy]) -> None:
    row = made("classification")
    study = make_study(row)
    study.kept.put(line_of(row, 0.5))
    other = replace(row, seed=1)
    assert (study.state(row), study.state(other)) == ("done", "changed")
    with pytest.raises(SettingsError, match="--fresh a classification"):
        study.run(other)


def test_a_row_of_equal_time_has_the_steps_that_the_trainers_time_is_worth(
    make_study: Callable[..., FinetuneStudy],
) -> None:
    row = made("classification", budget="trainer")
    unknown = make_study(row)
    assert (unknown.state(row), unknown.minutes(row)) == ("no rate", None)
    with pytest.raises(SettingsError, match="--rates first"):
        unknown.run(row)
    paces = {"trainer float32": 8.0, "ours bfloat16": 1.0, "ours float32": 2.0}
    study = make_study(row, row.trainer, replace(row, precision="float32"), seconds=paces)
    share = 12 / 32  # of the dev examples of an evaluation that the rates are of
    theirs = 3 * 8.0 + 3 * 4.0 * share
    assert study.seconds(row.trainer) == study.seconds(row) == theirs
    assert study.planned(row) == int(theirs - (3 * 0.5 + 1.0) * share)
    assert study.state(row) == "missing"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rates_of_both_sides_are_measured(
    make_study: Callable[..., FinetuneStudy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate")
    monkeypatch.setattr("benchmarks.harness.KEPT", tmp_path)
    row = made("ner", budget="trainer")
    study = make_study(row)
    study.measure_rates([row], rounds=1, seconds=0.01)
    assert len((tmp_path / "rates.jsonl").read_text().splitlines()) == 8, "two sides, two precisions; evaluations"
    assert study.seconds(row) == pytest.approx(study.seconds(row.trainer))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_stopped_trainer_goes_on_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    pytest.importorskip("accelerate")
    row = made("classification", side="trainer", precision="float32")
    settings = row.finetune_settings(threads=1).with_values(["run.batch_rows=4"])
    peer = peer_of(row, tmp_path / "start")
    whole = finetune_trainer.train(peer, tmp_path / "whole", settings)
    assert whole is not None
    assert (whole["steps"], len(whole["curve"])) == (18, 3)

    def stop_at_eight(step: int) -> None:
        if step == 8:
            os.kill(os.getpid(), signal.SIGINT)

    assert finetune_trainer.train(peer, tmp_path / "run", settings, each_step=stop_at_eight) is None
    gone_on = finetune_trainer.train(peer, tmp_path / "run", settings)
    assert gone_on is not None
    assert gone_on["curve"] == whole["curve"]
    np.testing.assert_allclose(gone_on["logits"], whole["logits"], atol=1e-6)


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_of_nothing_says_that_nothing_was_run(make_study: Callable[..., FinetuneStudy]) -> None:
    page = make_page(make_study(*PLAN.rows), PLAN)
    assert f"Not run yet: {len(PLAN.rows)} of {len(PLAN.rows)} rows." in page
    assert "mean difference over the core data sets (anaume - Trainer): not run yet" in page
    assert "one seed each: not measured yet" in page


def test_numbers_stand_where_they_belong(make_study: Callable[..., FinetuneStudy], monkeypatch: Any) -> None:
    rows = PLAN.core["MRPC"]
    study = make_study(
        *rows["ours"],
        *rows["trainer"],
        replace(rows["ours"][0], precision="float32"),
        seconds={"trainer float32": 4.0, "ours bfloat16": 1.0, "ours float32": 2.0},
    )
    for kind, scores in (("ours", (0.8, 0.82, 0.84)), ("trainer", (0.8, 0.8))):
        for row, score in zip(rows[kind], scores, strict=False):
            study.kept.put(line_of(row, score))

    def right(row: Row) -> Any:  # of 50 examples the first ones
        line = study.result(row)
        share = 0 if line is None else line["scores"]["accuracy"]
        return None if line is None else np.stack([np.ones(50), np.arange(50) < round(50 * share)], axis=1)

    class Accuracy:
        def score_of(self, examples: Any) -> float:
            return float((examples[:, 0] == examples[:, 1]).mean())

    monkeypatch.setattr(study, "examples", right)
    monkeypatch.setattr("benchmarks.finetune_pairs.task_of", lambda row: Accuracy())
    page = make_page(study, PLAN)
    assert "| MRPC | accuracy | 82.0 ± 2.0 | 80.0 ± 0.0 (2 of 3 seeds) | not run yet |" in page
    found = Pairs(study).difference([list(zip(rows["ours"], rows["trainer"], strict=True))])
    assert found is not None
    assert (found.value, found.seeds) == (pytest.approx(0.01), 2)
    assert 0.0 <= found.low <= 0.01 <= found.high < 0.05, "the same resamples for both"
    assert f"| MRPC | +1.00 ({100 * found.low:+.2f} to {100 * found.high:+.2f}) | not run yet |" in page
    # 188 steps, three evaluations of 10 batches at half a step's seconds, and one more of ours in float32
    ours, theirs = 188 + 3 * 5.0 + 10.0, 4 * 188 + 3 * 20.0
    float32 = 2 * 188 + 4 * 10.0
    told = [f"{seconds:,.0f} ({seconds / theirs:.2f})" for seconds in (float32, ours, theirs)]
    assert f"| MRPC | {' | '.join(told)} | not measured yet |" in page
    assert "| all | not measured yet |" in page, "a sum without its parts would be none"
    assert "| MRPC | pair-classification | 2,000 | 320 | 7 | 25.0% | 1e-4 | 128 | nothing known |" in page
    assert f"| `{rows['ours'][2].name}` | 188 | 63 | 0.700 / 0.100 | 84.00 |" in page
    kept_ = make_study()
    monkeypatch.setattr(kept_, "examples", lambda row: None)
    assert Pairs(kept_).difference([list(zip(rows["ours"], rows["trainer"], strict=True))]) == found, "it is kept"


def test_one_data_set_can_not_carry_the_mean_unseen(
    make_study: Callable[..., FinetuneStudy], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(row: Row) -> float:
        if row.name.split("-")[-2] != "trainer":
            return 0.8
        return 0.2 if row.name.startswith("sts-b") else 0.7

    rows = [row for own in PLAN.core.values() for kind in ("ours", "trainer") for row in own[kind]]
    study = make_study(*rows)
    for row in rows:
        study.kept.put(line_of(row, told(row)))

    class Mean:
        def score_of(self, examples: Any) -> float:
            return float(examples.mean())

    monkeypatch.setattr(study, "examples", lambda row: np.full((10, 1), told(row)))
    monkeypatch.setattr("benchmarks.finetune_pairs.task_of", lambda row: Mean())
    page = make_page(study, PLAN)
    assert (
        "+22.50 (+22.50 to +22.50) points, 4 data sets, 3 seeds; without STS-B, where they differ most: +10.00" in page
    )
    assert "| difference, points | equal epochs | equal time |" in page
    assert "| difference, points | equal epochs |\n" in page, "further data sets are not run in equal time"


def test_one_pair_is_compared_as_evaluate_compares() -> None:
    generator = np.random.default_rng(1)
    gold = generator.integers(0, 2, 200)
    one, other = (np.where(generator.random(200) < share, gold, 1 - gold) for share in (0.9, 0.7))
    tables = [np.stack([gold, said], axis=1).astype(np.float64) for said in (one, other)]
    task = task_of(made("classification"))
    ours = resampled(task, tables[0], 100) - resampled(task, tables[1], 100)
    expected = compare(task, tables[0], tables[1], resamples=100)
    assert ours[0] == pytest.approx(expected.difference)
    assert np.percentile(ours[1:], [2.5, 97.5]) == pytest.approx([expected.low, expected.high])


@pytest.mark.slow
def test_the_command_runs(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    root, out = Path(__file__).resolve().parents[2], tmp_path / "page.md"
    command = [sys.executable, "-m", "benchmarks.finetune", "--quick", "-o", str(out)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = out.read_text(encoding="utf-8")
    assert all(f"| {data} |" in page for data in MADE)
    assert "Not run yet: 0 of" in page
    assert str(root) not in page
