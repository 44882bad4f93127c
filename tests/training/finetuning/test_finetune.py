"""A fine-tuning as a whole: several seeds, best weights, exact resume, what is refused."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import anaume
from anaume.data.labelled import Answer, QuestionExample, TextExample
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.training.finetuning.example_work import ExampleWork
from anaume.training.finetuning.finetune import FinetuneReport, finetune_examples
from anaume.training.records import read_journal
from tiny_labels import class_of, texts, value_of, weights_of, write_classes, write_table
from tiny_runs import metrics, tiny_bundle
from tiny_tuned import tiny_finetune, tuned_differ

DROPOUT = ("model.dropout=0.2", "run.micro_tokens=60")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FinetuneReport]:
    """Two seeds with dropout and accumulation, never interrupted; only read."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, tiny_finetune(folder, "m", *DROPOUT, seeds=2)


def test_seeds_that_are_there_stay_and_others_are_added(tmp_path: Path) -> None:
    both = tiny_finetune(tmp_path, "m", seeds=2)
    again = tiny_finetune(tmp_path, "m", seeds=1)
    assert again.seeds == both.seeds
    assert (again.spread, again.best_seed) == (both.spread, both.best_seed)
    more = tiny_finetune(tmp_path, "m", "run.seed=4", seeds=1)
    assert [one.seed for one in more.seeds] == [0, 1, 4]
    assert more.seeds[:2] == both.seeds
    alone = tiny_finetune(tmp_path, "alone", "run.seed=4", seeds=1)
    assert more.seeds[2].scores == alone.seeds[0].scores
    assert json.loads((tmp_path / "m" / "report.json").read_bytes())["spread"]["count"] == 3


def test_the_report_says_what_was_done(whole: tuple[Path, FinetuneReport]) -> None:
    folder, report = whole
    assert (report.task, report.metric, report.train_examples, report.dev_examples) == (
        "classification",
        "accuracy",
        33,
        20,
    )
    assert (report.dev_from, report.finished, report.folder, report.bundle) == (
        "file",
        True,
        folder / "m",
        folder / "m/bundle",
    )
    assert [(one.seed, one.steps, one.finished, one.skipped) for one in report.seeds] == [
        (0, 9, True, 0),
        (1, 9, True, 0),
    ]
    scores = [one.scores["accuracy"] for one in report.seeds]
    assert report.best_seed == scores.index(max(scores))
    assert report.spread is not None
    assert report.spread.mean == pytest.approx(sum(scores) / 2)
    # Student's t at 0.975 with one degree of freedom is 12.7062; half the range of two is their deviation / sqrt(2).
    assert report.spread.high - report.spread.low == pytest.approx(
        2 * 12.7062 * abs(scores[0] - scores[1]) / 2, abs=1e-4
    )
    told = json.loads((folder / "m" / "report.json").read_bytes())
    assert (told["folder"], told["best_seed"], told["spread"]["mean"]) == ("m", report.best_seed, report.spread.mean)
    assert [one["scores"]["accuracy"] for one in told["seeds"]] == scores


def test_each_seed_evaluates_and_its_folder_holds_no_leftovers(whole: tuple[Path, FinetuneReport]) -> None:
    for seed in (0, 1):
        folder = whole[0] / "m" / f"seed-{seed}"
        rows = [row for row in metrics(folder) if "dev_loss" in row]
        assert [row["step"] for row in rows] == [4, 7, 9]
        assert whole[1].seeds[seed].best_step == max(rows, key=lambda row: (row["dev_accuracy"], -row["step"]))["step"]
        assert not list(folder.glob("best-*")) + list((folder / "checkpoints").iterdir())
    assert metrics(whole[0] / "m" / "seed-0") != metrics(whole[0] / "m" / "seed-1")


def test_m_is_a_bundle_with_its_task_its_record_and_its_scores(whole: tuple[Path, FinetuneReport]) -> None:
    folder, report = whole
    bundle = anaume.load(folder / "m", device="cpu")
    assert bundle.task.name == "classification"
    assert bundle.parts.record.objectives == ("classification",)
    stage = bundle.parts.record.stages[-1]
    assert [data["name"] for data in stage.data] == ["train.tsv", "dev.tsv"]
    assert stage.scores["accuracy"] == report.seeds[report.best_seed or 0].scores["accuracy"]
    assert stage.settings["model"]["dropout"] == 0.2
    rows = [(text, class_of(text)) for text in texts(20, 1)]
    right = sum(
        one.label == label for one, (_, label) in zip(bundle.predict([text for text, _ in rows]), rows, strict=True)
    )
    assert right / 20 == pytest.approx(stage.scores["accuracy"])


def test_the_same_call_again_does_nothing(whole: tuple[Path, FinetuneReport]) -> None:
    rows: list[Any] = []
    before = weights_of(whole[0] / "m" / "bundle")
    again = tiny_finetune(whole[0], "m", *DROPOUT, seeds=2, report=lambda seed, row: rows.append(row))
    assert rows == []
    assert again == whole[1]
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(whole[0] / "m" / "bundle").items())


@pytest.fixture
def heard() -> Iterator[None]:
    """Let Ctrl-C be heard where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_stopped_by_ctrl_c_it_goes_on_bit_for_bit(whole: tuple[Path, FinetuneReport], tmp_path: Path) -> None:
    for stop in ((0, 2), (0, 7), (1, 5)):  # seed, step

        def report(seed: int, row: dict[str, Any], stop: tuple[int, int] = stop) -> None:
            if (seed, row["step"]) == stop and "loss" in row:
                os.kill(os.getpid(), signal.SIGINT)

        stopped = tiny_finetune(tmp_path, "m", *DROPOUT, seeds=2, report=report)
        assert (stopped.finished, stopped.best_seed, stopped.spread) == (False, None, None)
        assert (stopped.seeds[-1].seed, stopped.seeds[-1].steps) == stop
        assert not (tmp_path / "m" / "report.json").exists()
    assert tiny_finetune(tmp_path, "m", *DROPOUT, seeds=2).finished
    assert tuned_differ(tmp_path / "m", whole[0] / "m") == []


def test_more_seeds_keep_the_ones_that_are_there(whole: tuple[Path, FinetuneReport], tmp_path: Path) -> None:
    first = tiny_finetune(tmp_path, "m", *DROPOUT)
    assert (first.spread is not None and first.spread.low, first.best_seed) == (None, 0)
    assert tiny_finetune(tmp_path, "m", *DROPOUT, seeds=2).seeds[0] == first.seeds[0]
    assert tuned_differ(tmp_path / "m", whole[0] / "m") == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"assignments": ("run.steps=10",)}, "run.steps: 10, there 9"),
        ({"assignments": ("task.class_weights=balanced",)}, "task.class_weights: 'balanced', there not given"),
        ({"assignments": ("run.seed=5", "optimizer.learning_rate=0.1")}, "optimizer.learning_rate: 0.1, there 0.003"),
        ({"bundle": "other"}, "another starting bundle: "),
        ({"task": "multi-label"}, "another task: multi-label, there classification"),
        ({"swapped": True}, "other examples (files, columns, format): "),
        ({"dev": None}, "other examples (files, columns, format): "),
    ],
)
@pytest.mark.filterwarnings("ignore:every training example has one label")
def test_the_same_folder_with_something_else_is_refused(
    whole: tuple[Path, FinetuneReport], other: dict[str, Any], said: str
) -> None:
    folder = whole[0]
    before = {path: path.stat().st_mtime_ns for path in (folder / "m").rglob("*")}
    given = dict(other)
    if given.pop("swapped", False):
        given |= {"train": folder / "dev.tsv", "dev": folder / "train.tsv"}
    if "bundle" in given:
        given["bundle"] = tiny_bundle("mlm", pooler=True, num_hidden_layers=1)
    assignments = given.pop("assignments", ())
    with pytest.raises(SettingsError) as caught:
        tiny_finetune(folder, "m", *DROPOUT, *assignments, seeds=2, **given)
    assert "holds a run with other settings: " in str(caught.value)
    assert said in str(caught.value)
    assert {path: path.stat().st_mtime_ns for path in (folder / "m").rglob("*")} == before


def test_what_was_left_to_the_machine_stays_as_it_was_found(tmp_path: Path) -> None:
    left = ("run.threads=none", "run.precision=auto", "run.steps=2", "run.evaluations=1")
    first = tiny_finetune(tmp_path, "m", *left)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        assert tiny_finetune(tmp_path, "m", *left) == first
    finally:
        torch.set_num_threads(threads)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "config.json").write_text("{}")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SettingsError, match="full is not empty and holds no fine-tuning: give another folder"):
        tiny_finetune(tmp_path, "full")
    with pytest.raises(SettingsError, match="file is a file: give a folder"):
        tiny_finetune(tmp_path, "file")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["config.json"]


def test_the_best_weights_are_those_of_the_best_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is evaluated and its weights are kept aside: of those that score best the bundle holds the surest."""
    seen: dict[int, tuple[float, float, dict[str, torch.Tensor]]] = {}
    evaluate = ExampleWork.evaluate

    def keeping(self: ExampleWork, model: Any, dtype: Any, progress: Any) -> dict[str, Any]:
        row = evaluate(self, model, dtype, progress)
        copies = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        seen.setdefault(progress.step, (row["dev_macro_f1"], row["dev_loss"], copies))
        return row

    monkeypatch.setattr(ExampleWork, "evaluate", keeping)
    steps = ("run.steps=12", "run.evaluations=12", "task.metric=macro_f1", "optimizer.learning_rate=0.1")
    report = tiny_finetune(tmp_path, "m", *steps, "run.checkpoint_seconds=0.001", "run.keep_checkpoints=1")
    assert len(seen) > 10
    best = max(seen, key=lambda step: (seen[step][0], -seen[step][1]))
    assert len({score for score, *_ in seen.values()}) > 2
    assert (report.seeds[0].best_step, report.seeds[0].scores["macro_f1"]) == (best, pytest.approx(seen[best][0]))
    assert best < max(seen)
    model = anaume.load(report.folder, device="cpu").model
    assert all(torch.equal(tensor, seen[best][2][name]) for name, tensor in model.state_dict().items())


def test_patience_stops_early_and_keeps_the_best(tmp_path: Path) -> None:
    """Nothing is learned, so that the first evaluation is the best; three more, and that is all."""
    still = ("model.frozen=encoder", "optimizer.learning_rate=1e-12", "run.steps=20", "run.evaluations=10")
    (seed,) = tiny_finetune(tmp_path, "m", *still, "run.patience=3").seeds
    assert seed.finished
    assert seed.best_step == 3
    assert seed.steps == 9
    rows = [json.loads(line) for line in (tmp_path / "m" / "seed-0" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows if "dev_loss" in row] == [3, 5, 7, 9]  # the last one is not made twice


def test_a_part_is_held_out_where_no_dev_file_is(tmp_path: Path) -> None:
    begun: list[Any] = []
    write_classes(tmp_path / "train.tsv", 60)
    steps = ("run.steps=1", "run.evaluations=none", "data.dev_share=0.2")
    report = tiny_finetune(tmp_path, "m", *steps, dev=None, begins=lambda report, settings: begun.append(settings))
    assert (report.dev_from, report.train_examples, report.dev_examples) == ("split", 48, 12)
    assert report.spread is not None
    assert begun[0].run.evaluations == 1
    other = tiny_finetune(tmp_path, "other", *steps, "run.seed=7", dev=None)
    assert other.seeds[0].scores["labels"]["animal"]["support"] == report.seeds[0].scores["labels"]["animal"]["support"]
    folders = (tmp_path / "m" / "seed-0", tmp_path / "other" / "seed-7")
    told = [json.loads((folder / "run.json").read_bytes())["data"] for folder in folders]
    assert told[0] == told[1]  # the same rows whatever the run's seed


def test_nothing_is_held_out_where_it_is_not_wanted(tmp_path: Path) -> None:
    report = tiny_finetune(tmp_path, "m", "data.dev_share=0.0", "run.steps=2", dev=None)
    (seed,) = report.seeds
    assert (report.dev_from, report.spread, report.best_seed, seed.best_step, seed.scores) == (
        "none",
        None,
        0,
        None,
        {},
    )
    assert (report.folder / "bundle" / "config.json").exists()


def test_a_run_by_the_clock_ends_on_it_and_keeps_a_journal(tmp_path: Path) -> None:
    report = tiny_finetune(tmp_path, "m", "run.steps=none", "run.minutes=0.02", "run.evaluations=none")
    (seed,) = report.seeds
    assert 1.2 <= seed.seconds < 20
    assert len(read_journal(tmp_path / "m" / "seed-0" / "journal.jsonl")) == seed.steps > 1


def test_epochs_are_counted_in_steps(tmp_path: Path) -> None:
    settings: list[Any] = []
    tiny_finetune(
        tmp_path, "m", "run.steps=none", "run.epochs=0.5", "run.evaluations=none",
        begins=lambda report, resolved: settings.append(resolved.run),
    )  # fmt: skip
    assert (settings[0].steps, settings[0].epochs, settings[0].evaluations) == (math.ceil(0.5 * 33 / 8), None, 1)


def test_numbers_train_with_a_last_batch_of_one(tmp_path: Path) -> None:
    """HED-02: 33 rows with batch 8; one float a row comes back, in the labels' units."""
    train = write_table(tmp_path / "n.tsv", [(text, value_of(text)) for text in texts(33)], "text", "score")
    report = tiny_finetune(
        tmp_path, "m", "run.steps=15", "optimizer.learning_rate=0.01", task="regression", train=train, dev=train
    )
    found = anaume.load(report.folder, device="cpu").predict(texts(33))
    values = [one.value for one in found]
    assert len(values) == 33
    assert all(type(value) is float for value in values)
    scores = report.seeds[0].scores
    wanted = [value_of(text) for text in texts(33)]
    assert scores["mse"] == pytest.approx(sum((a - b) ** 2 for a, b in zip(values, wanted, strict=True)) / 33, rel=1e-4)
    assert scores["pearson"] > 0.3
    assert 1.0 < sum(values) / 33 < 4.0


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("dog", "a")] * 4, "needs at least two labels; the training examples, from "),
        ([], "no rows in it"),
        ([("dog", "a"), ("", "b")], "row 3: field 'text' is blank"),
    ],
)
def test_bad_files_leave_nothing_behind(tmp_path: Path, rows: list[Any], said: str) -> None:
    train = write_table(tmp_path / "bad.tsv", rows, "text", "label")
    with pytest.raises(DataError) as caught:
        tiny_finetune(tmp_path, "m", train=train)
    assert "bad.tsv" in str(caught.value)
    assert said in str(caught.value)
    assert not (tmp_path / "m").exists()


def test_unknown_labels_in_dev_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    dev = write_table(tmp_path / "odd.tsv", [("dog", "animal"), ("bank", "plce")], "text", "label")
    with pytest.raises(
        DataError, match=r"odd\.tsv: row 3: .* the data has animal, plce; the model knows animal, place"
    ):
        tiny_finetune(tmp_path, "m", dev=dev)
    assert not (tmp_path / "m").exists()


def test_a_vocabulary_made_for_other_text_is_told(tmp_path: Path) -> None:
    """JA-05: above one piece in twenty, before hours are spent."""
    train = write_table(tmp_path / "ja.tsv", [("dog バス", "a"), ("bank", "b")] * 4, "text", "label")
    with pytest.warns(AnaumeWarning, match=r"33\.3% of the training rows' pieces \(4 of 12\) are unknown") as told:
        report = tiny_finetune(tmp_path, "m", "run.steps=1", "run.evaluations=1", train=train, dev=train)
    assert report.unknown_share == pytest.approx(1 / 3)
    assert any("the tokenizer strips the voicing marks of 4 kana" in str(one.message) for one in told)


def test_too_few_rows_to_hold_some_out_say_what_to_do(tmp_path: Path) -> None:
    train = write_table(tmp_path / "few.tsv", [("dog", "a"), ("dog", "b")], "text", "label")
    with pytest.raises(DataError, match=r"can't be split in two; give dev examples, or data\.dev_share=0"):
        tiny_finetune(tmp_path, "m", train=train, dev=None)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"seeds": 0}, "seeds must be a whole number and at least 1; got 0"),
        ({"task": "clasification"}, "there is no task 'clasification' (did you mean 'classification'?)"),
        ({"assignments": ("task.scheme=BIO",)}, "task.scheme means nothing to classification"),
        ({"assignments": ("model.max_length=99",)}, "model.max_length is 99; the bundle takes 40 tokens"),
        ({"assignments": ("run.epochs=2.0",)}, "run: give one of epochs, steps and minutes, not epochs and steps"),
        ({"tags": "x"}, "classification has no column 'tags'"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    given = dict(other)
    with pytest.raises(SettingsError) as caught:
        tiny_finetune(tmp_path, "m", *given.pop("assignments", ()), **given)
    assert said in str(caught.value)
    assert not (tmp_path / "m").exists()


DOG, CAT = TextExample(text="dog", label="a"), TextExample(text="cat", label="b")


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        ("classification", [DOG, CAT, TextExample(text="a")], r"^train\[2\]: no label, and one is to be learned"),
        ("classification", [DOG, "cat"], r"^train\[1\]: expected an example of anaume\.data\.labelled; got str 'cat'$"),
        ("regression", [TextExample(text="a", label=float("nan"))], r"^train\[0\]: regression needs a finite number"),
        ("multi-label", [DOG], r"^train\[0\]: expected a list of labels"),
        ("classification", [], r"^no examples to learn from$"),
        (
            "question-answering",
            [QuestionExample(id="7", question="cute", context="my dog", answers=(Answer("cat", 3),))],
            r"^none of the 1 training examples can be learned from: 1 questions are not learned: the answer does not "
            r"stand where it is said to, or fits in no window \(first: train\[0\]\)$",
        ),
    ],
)
def test_examples_that_are_handed_over_are_named_by_their_number(
    tmp_path: Path, task: str, given: list[Any], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        finetune_examples(
            task, given, tmp_path / "m", bundle=tiny_bundle("mlm", pooler=True), dev=given, seeds=1, device="cpu"
        )
    assert not (tmp_path / "m").exists()


def test_what_is_no_bundle_and_no_file_is_said(tmp_path: Path) -> None:
    wrong: Any = "all-MiniLM-L6-v2"
    with pytest.raises(SettingsError, match=r"expected a Bundle to start from; got .all-MiniLM-L6-v2.; anaume\.load"):
        anaume.finetune("classification", "t.tsv", tmp_path / "m", bundle=wrong)
    with pytest.raises(SettingsError, match="expected at least one labelled file; none came"):
        anaume.finetune("classification", [], tmp_path / "m", bundle=tiny_bundle("mlm", pooler=True))
