"""finetune, evaluate and predict, from the command line: real runs of a tiny bundle, and hostile files."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

import anaume
from commands import Done, Run, begin, spawn
from helpers import PATIENCE
from tiny_labels import TINY_TUNING, class_of, texts, value_of, write_classes, write_json, write_table
from tiny_runs import tiny_bundle

SETS = [part for assignment in TINY_TUNING for part in ("--set", assignment)]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny bundle on disk; only read."""
    folder = tmp_path_factory.mktemp("start") / "b"
    tiny_bundle("mlm", pooler=True).save(folder)
    return folder


def finetune(run: Run, start: Path, train: Path, out: Path, *more: object, task: str = "classification") -> Done:
    return run("finetune", task, train, "--bundle", start, "-o", out, "--seeds", 1, "--device", "cpu", *SETS, *more)


@pytest.mark.parametrize("name", ["finetune", "evaluate", "predict"])
def test_help_says_what_it_does_with_examples(run: Run, name: str) -> None:
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"$ anaume {name} " in done.out
    assert "--column" in done.out
    assert "ROLE=NAME" in done.out


def test_a_model_that_always_answers_one_label_is_told(run: Run, start: Path, tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.tsv", list(zip(texts(33), ["a"] * 32 + ["b"], strict=True)), "text", "label")
    dev = write_table(tmp_path / "dev.tsv", list(zip(texts(8, 1), "abababab", strict=True)), "text", "label")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev)
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "learned nothing yet: no better than chance on the held-out rows; more --epochs" in said


def test_a_tagger_that_says_one_tag_is_told(run: Run, start: Path, tmp_path: Path) -> None:
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    train.write_text("dog O\nis O\ncute O\n\n" * 20 + "cat B-A\n", "utf-8")
    dev.write_text("cat B-A\nis O\ncute O\n", "utf-8")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, task="ner")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "learned nothing yet: no better than the commonest tag everywhere on the held-out rows" in said
    assert json.loads((tmp_path / "m" / "report.json").read_bytes())["seeds"][0]["scores"]["majority"] == 2 / 3


def test_a_model_that_finds_no_answer_is_told(run: Run, start: Path, tmp_path: Path) -> None:
    none = [{"question": "where is it", "context": "the dog is cute", "answers": []} for _ in range(40)]
    train = write_json(
        tmp_path / "train.jsonl", [*none[:-1], none[0] | {"answers": [{"text": "cute", "answer_start": 11}]}]
    )
    asked = {"answers": [{"text": "dog", "answer_start": 4}]}
    dev = write_json(tmp_path / "dev.jsonl", [*none[:3], none[0] | asked])
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, "--epochs", "2", task="question-answering")
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert 'learned nothing yet: no better than the answer "none" to every question on the held-out rows' in said


def test_a_tagger_that_finds_entities_has_learned_something(run: Run, start: Path, tmp_path: Path) -> None:
    """Its accuracy may be below that of O everywhere: words around entities get wrong tags."""
    train, dev = tmp_path / "train.conll", tmp_path / "dev.conll"
    train.write_text("cat B-A\ndog B-A\n\n" * 40 + "is O\n\n", "utf-8")
    dev.write_text("cat B-A\ndog O\ndog O\n", "utf-8")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, task="ner")
    scores = json.loads((tmp_path / "m" / "report.json").read_bytes())["seeds"][0]["scores"]
    assert scores["accuracy"] < scores["majority"]
    assert scores["f1"] > 0
    assert "learned" not in done.out


def test_from_files_to_scores_and_predictions(run: Run, start: Path, tmp_path: Path) -> None:
    train, dev, out = (
        write_classes(tmp_path / "train.tsv", 33),
        write_classes(tmp_path / "dev.tsv", 20, 1),
        tmp_path / "m",
    )
    line = ("finetune", "classification", train, "--dev", dev, "--bundle", start, "-o", out, "--seeds", 2, *SETS)
    done = run(*line, "--epochs", 1, "--seed", 3, "--device", "cpu")
    assert done.code == 0, done.err
    assert "classification: 33 training rows, 20 dev rows (of its file, 1 of them in train too); 0.0% of" in done.err
    assert "seed 3: the classification head is drawn anew; left out, as they are not trained: mlm" in done.err
    assert "seed 4, step 5 of 5: on dev: loss" in done.err
    table = done.out.splitlines()
    assert table[0].split() == ["seed", "accuracy", "best", "step", "steps", "time"]
    assert [row.split()[0] for row in table[1:3]] == ["3", "4"]
    assert "over 2 seeds, 95 % interval" in done.out
    assert f"bundle {out / 'bundle'} (seed " in " ".join(done.out.split())
    assert table[-1] == f"try: anaume predict {out} FILE -o predictions.jsonl"

    again = run(*line, "--epochs", 1, "--seed", 3, "--device", "cpu", "-q")
    assert (again.code, again.out, again.err) == (0, done.out, "")
    other = run(*line, "--epochs", 2, "--seed", 3, "--device", "cpu", "-q")
    assert (other.code, other.out) == (2, "")
    assert "holds a run with other settings: run.steps: 9, there 5" in other.error()

    report = json.loads((out / "report.json").read_bytes())
    scored = run("evaluate", out, dev, "--json", "-q")
    told = json.loads(scored.out)
    best = next(seed for seed in report["seeds"] if seed["seed"] == report["best_seed"])
    assert (scored.code, scored.err) == (0, "")
    assert told["accuracy"] == best["scores"]["accuracy"]
    assert (told["task"], told["metric"], told["examples"], set(told["labels"])) == (
        "classification", "accuracy", 20, {"animal", "place"},
    )  # fmt: skip
    shown = run("evaluate", out, dev, "--against", out / "seed-3", "-q")
    assert shown.code == 0
    assert "accuracy less that of" in shown.out
    assert "(paired bootstrap over 20 rows)" in shown.out

    predicted = run("predict", out, dev, "-o", tmp_path / "p.jsonl", "--json")
    assert (predicted.code, json.loads(predicted.out)["examples"]) == (0, 20)
    assert "20 rows -> " in predicted.err
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text("utf-8").splitlines()]
    assert [(row["text"], row["label"]) for row in rows] == [(text, class_of(text)) for text in texts(20, 1)]
    found = anaume.load(out, device="cpu").predict([row["text"] for row in rows])
    assert [row["prediction"]["label"] for row in rows] == [one.label for one in found]
    lines = run("predict", out, "-", "--format", "txt", "-q", stdin=b"my dog\n\nthe river\n")
    assert (lines.code, [json.loads(row)["text"] for row in lines.out.splitlines()]) == (0, ["my dog", "", "the river"])


def test_files_behind_dev_are_all_held_out(run: Run, start: Path, tmp_path: Path) -> None:
    """The second is no training file."""
    paths = [write_classes(tmp_path / f"{number}.tsv", 30 + number, number) for number in range(3)]
    done = finetune(run, start, paths[0], tmp_path / "m", "--dev", *paths[1:], "--set", "run.steps=1", "--json")
    told = json.loads(done.out)
    assert (told["train_examples"], told["dev_examples"], told["dev_from"]) == (30, 63, "file")


def test_dev_rows_that_train_has_too_are_counted(run: Run, start: Path, tmp_path: Path) -> None:
    train, dev = write_classes(tmp_path / "train.tsv", 30, 0), tmp_path / "dev.tsv"
    header, *rows = train.read_text("utf-8").splitlines()
    dev.write_text("\n".join([header, rows[3], rows[4], "nobody wrote this\tanimal\n"]), "utf-8")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, "--set", "run.steps=1")
    assert "3 dev rows (of its file, 2 of them in train too)" in done.err
    assert "2 of 3 dev rows: they flatter the score" in done.out


def test_scores_of_entities_name_the_reading_and_count(run: Run, start: Path, tmp_path: Path) -> None:
    """NER-03, NER-04."""
    path = tmp_path / "t.conll"
    path.write_text("".join(f"{word} {tag}\n\n" for word, tag in (("dog", "B-A"), ("is", "O"), ("bank", "B-B")) * 3))
    done = finetune(run, start, path, tmp_path / "m", "--dev", path, "--set", "run.steps=1", "-q", task="ner")
    assert done.code == 0
    shown = run("evaluate", tmp_path / "m", path, "-q").out
    assert "strict f1" in shown
    assert "lenient (an I- with none of its type before it begins an entity), strict f1 apart" in shown
    rows = [line.split() for line in shown.splitlines() if line]
    assert rows[-3] == ["type", "precision", "recall", "f1", "tp", "fp", "fn"]
    assert [(row[0], int(row[4]) + int(row[6])) for row in rows[-2:]] == [("A", 3), ("B", 3)]


@pytest.mark.parametrize(
    "column", [("--column", "label=A,B,C"), ("--column", "label=flags", "--column", "names=A,B,C")]
)
def test_flags_are_labels_by_name(run: Run, start: Path, tmp_path: Path, column: tuple[str, ...]) -> None:
    """HED-01: from a command line, too."""
    rows = [{"text": text, "flags": [dog, 0, 1], "A": dog, "B": 0, "C": 1} for text, dog in (("dog", 1), ("river", 0))]
    path = write_json(tmp_path / "t.jsonl", rows * 4)
    out = tmp_path / "m"
    done = finetune(run, start, path, out, "--dev", path, *column, "--set", "run.steps=1", "-q", task="multi-label")
    assert (done.code, done.err) == (0, "")
    (found,) = anaume.load(out, device="cpu").predict(["dog"])
    assert set(found.record()["probabilities"]) == {"A", "C"}


def test_without_dev_rows_are_held_out_and_it_is_said(run: Run, start: Path, tmp_path: Path) -> None:
    done = finetune(run, start, write_classes(tmp_path / "t.tsv", 50), tmp_path / "m", "--set", "run.steps=1")
    assert done.code == 0
    assert "45 training rows, 5 dev rows (held out of the training rows)" in done.err
    assert "held out  5 rows of the training files, by a fixed seed" in done.out
    bare = finetune(
        run,
        start,
        tmp_path / "t.tsv",
        tmp_path / "bare",
        "--set",
        "run.steps=1",
        "--set",
        "data.dev_share=0.0",
        "--json",
    )
    assert (json.loads(bare.out)["spread"], json.loads(bare.out)["dev_from"]) == (None, "none")
    assert "50 training rows, 0 dev rows (none)" in bare.err


def test_a_score_that_is_not_defined_says_why(run: Run, start: Path, tmp_path: Path) -> None:
    train = write_table(tmp_path / "t.tsv", [(text, value_of(text)) for text in texts(20)], "text", "score")
    dev = write_table(tmp_path / "d.tsv", [("dog", 2), ("cat", 2)], "text", "score")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, "--set", "run.steps=1", task="regression")
    assert done.code == 0
    assert (
        "spearman not defined on the held-out rows (no correlation is defined: the labels are all the same)"
        in " ".join(done.out.split())
    )
    shown = run("evaluate", tmp_path / "m", dev, "-q")
    assert "spearman  not defined (no correlation is defined: the labels are all the same)" in shown.out


def test_thresholds_set_on_the_rows_that_are_scored_are_told(run: Run, start: Path, tmp_path: Path) -> None:
    rows = [{"text": text, "labels": [class_of(text)]} for text in texts(20)]
    done = finetune(
        run, start, write_json(tmp_path / "t.jsonl", rows), tmp_path / "m", "--set", "run.steps=1", task="multi-label"
    )
    assert "thresholds  set on the held-out rows, which flatters their score: report that of other rows" in done.out
    one = finetune(run, start, write_classes(tmp_path / "c.tsv", 20), tmp_path / "c", "--set", "run.steps=1")
    assert "thresholds  " not in one.out


def test_a_table_with_columns_of_other_names_bom_and_crlf(run: Run, start: Path, tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    rows = "".join(f'{number},"{text}",{class_of(text)}\r\n' for number, text in enumerate(texts(33)))
    path.write_bytes(b"\xef\xbb\xbfid,body,stars\r\n" + rows.encode())
    columns = ("--column", "text=body", "--column", "label=stars")
    done = finetune(run, start, path, tmp_path / "m", *columns, "--set", "run.steps=1", "-q")
    assert (done.code, done.err) == (0, "")
    found = run("predict", tmp_path / "m", path, "--column", "text=body", "-q")
    assert [json.loads(line)["id"] for line in found.out.splitlines()] == [str(number) for number in range(33)]
    assert "label" not in json.loads(found.out.splitlines()[0])


HOSTILE = [
    ("classification", b"sentence_x\tlabel_x\na\tb\n", 1, "no label column: none of its columns is called"),
    ("classification", b"text\tlabel\nmy dog\tx\nriver\t\n", 1, "bad.tsv: row 3: field 'label' is empty"),
    (
        "classification",
        b"text\tlabel\nmy dog\tx\nriver\tx\n",
        1,
        "needs at least two labels; the training examples",
    ),
    ("classification", b"text\tlabel\nmy dog\tx\n  \ty\n", 1, "bad.tsv: row 3: field 'text' is blank"),
    ("classification", b"text\tlabel\nmy dog\tx\nriver\n", 1, "bad.tsv: row 3"),
    ("classification", b"text\tlabel\nmy \xff dog\tx\n", 1, "bad.tsv"),
    ("classification", b"text\tlabel\n", 1, "no rows in it"),
    ("classification", b"", 1, "bad.tsv"),
    ("pair-classification", b"text\tlabel\nmy dog\tx\n", 1, "no column of a second text is known"),
    (
        "regression",
        b"text\tscore\nmy dog\t1\nriver\tnan\n",
        1,
        "bad.tsv: row 3: field 'score': expected a number, came 'nan'",
    ),
    ("regression", b"text\tscore\nmy dog\t1,5\n", 1, "write 1.5 with a point"),
    ("regression", b"text\tscore\nmy dog\t2\nriver\t2\n", 1, "have 2 every time"),
    ("multi-label", b"text\tlabels\nmy dog\ta||b\n", 1, "an empty label in 'a||b'"),
    ("chess", b"text\tlabel\nmy dog\tx\n", 2, "there is no task 'chess'; there are: classification"),
]


@pytest.mark.parametrize(("task", "content", "code", "said"), HOSTILE)
def test_bad_files_are_one_line_and_nothing_is_left(
    run: Run, start: Path, tmp_path: Path, task: str, content: bytes, code: int, said: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    done = finetune(run, start, path, tmp_path / "m", "--dev", path, task=task)
    assert (done.code, done.out) == (code, "")
    assert said in done.error()
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.tsv"]


NER, QA, CHOICE = "ner", "question-answering", "multiple-choice"
PART = '{"question": "q", "context": "c", "answers": '
FEW = [
    ("classification", "tsv", "text\tlabel\nmy dog\tx\n", "text\tlabel\nmy dog\ty\n"),
    ("classification", "tsv", "text\tlabel\nmy dog\tx\nriver\ty\n", "text\tlabel\nmy dog\tz\n"),
    ("classification", "tsv", "text\tlabel\nmy dog\tx\nriver\ty\n", None),
    ("multi-label", "tsv", "text\tlabels\nmy dog\tx\nriver\t\n", "text\tlabels\nmy dog\tz\n"),
    ("multi-label", "tsv", "text\tlabels\nmy dog\tx\nriver\tx\n", "text\tlabels\nmy dog\tx\n"),
    ("regression", "tsv", "text\tscore\nmy dog\t1\nriver\t1e31\n", "text\tscore\nmy dog\t1\n"),
    ("regression", "tsv", "text\tscore\nmy dog\t1\nriver\t2\n", "text\tpair\tscore\nmy dog\ta\t1\n"),
    ("classification", "tsv", "text\tpair\tlabel\na\tb\tx\na\tc\ty\n", "text\tlabel\nmy dog\tx\n"),
    (NER, "conll", "dog B-A\nis O\n", "dog B-B\n"),
    (NER, "conll", "dog B-A\nis O\n", "dog X\n"),
    (NER, "conll", "dog b-a\nis O\n", "dog O\n"),
    (NER, "conll", "dog S-A\ncat U-A\n", "dog O\n"),
    (NER, "conll", "dog NN\n", "dog NN\n"),
    (NER, "conll", "dog NN\nis VB\n", "dog B-A\n"),
    (NER, "jsonl", '{"text": "dog", "entities": [[0, 4, "A"]]}\n', "{}"),
    (QA, "jsonl", PART + "[]}\n", PART + "[]}\n"),
    (QA, "jsonl", PART + '[{"text": "d", "answer_start": 0}]}\n', PART + "[]}\n"),
    (CHOICE, "jsonl", '{"question": "q", "options": ["a"], "label": 0}\n', "{}"),
    (CHOICE, "jsonl", '{"question": "q", "options": ["a", "b"], "label": 3}\n', "{}"),
    ("features", "tsv", "text\tlabel\nmy dog\tx\nriver\tx\n", "text\tlabel\nmy dog\tx\n"),
]


@pytest.mark.parametrize(
    ("task", "ending", "train", "dev"), [*FEW, *((task, "tsv", text, text) for task, text, *_ in HOSTILE)]
)
def test_check_refuses_what_a_fine_tuning_refuses(
    run: Run, start: Path, tmp_path: Path, task: str, ending: str, train: str | bytes, dev: str | bytes | None
) -> None:
    path, held = tmp_path / f"train.{ending}", tmp_path / f"dev.{ending}"
    for place, text in (path, train), (held, dev or ""):
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
    more = [] if dev is None else ["--dev", held]
    tuned = finetune(run, start, path, tmp_path / "m", *more, task=task)
    checked = run("check", "--task", task, path, *more)
    assert checked.code == tuned.code > 0
    refusal, other = (done.err.splitlines()[-1].removeprefix("error: ") for done in (checked, tuned))
    if "a blank text" not in refusal and "no examples in it" not in refusal:  # which check counts, and says so
        assert refusal.removeprefix("a fine-tuning would refuse this: ") == other


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--bundle", "none-such"], 1, "nothing is called 'none-such'"),
        (["--dev", "none.tsv"], 1, "none.tsv"),
        (["--set", "run.step=3"], 2, "there is no setting run.step (did you mean 'steps'?)"),
        (["--set", "task.scheme=BIO"], 2, "task.scheme means nothing to classification"),
        (["--column", "body"], 2, "a column is given as ROLE=NAME, say text=body or label=stars; got 'body'"),
        (["--column", "tags=x"], 2, "classification has no column 'tags'"),
        (
            ["--column", "labelled=x"],
            2,
            "no task has a column 'labelled' (did you mean 'label'?); there are: text, pair",
        ),
        (["--column", "format=x"], 2, "no task has a column 'format'"),
        (
            ["--column", "text=a", "--column", "text=b"],
            2,
            "--column text= is given twice, as 'a' and 'b'; give it once",
        ),
        (["--epochs", "1", "--minutes", "1"], 2, "run: give one of epochs, steps and minutes"),
        (["--config", "none.toml"], 2, "none.toml: can't be read"),
    ],
)
def test_wrong_use_is_one_line(run: Run, start: Path, tmp_path: Path, more: list[str], code: int, said: str) -> None:
    train = write_classes(tmp_path / "t.tsv", 20)
    line = ["finetune", "classification", train, "-o", tmp_path / "m", *more]
    done = run(*line, *([] if "--bundle" in more else ["--bundle", start]), "-q")
    assert (done.code, done.out) == (code, "")
    assert said in done.error()
    assert not (tmp_path / "m").exists()


def test_an_unseen_label_in_dev_is_refused_with_both_lists(run: Run, start: Path, tmp_path: Path) -> None:
    train = write_classes(tmp_path / "t.tsv", 20)
    dev = write_table(tmp_path / "d.tsv", [("dog", "beast")], "text", "label")
    done = finetune(run, start, train, tmp_path / "m", "--dev", dev, "-q")
    assert done.code == 1
    assert "d.tsv: row 2: the labels of the data and of the model differ: the data has beast; the model" in done.error()


def test_bad_files_for_a_model_that_is_there(run: Run, tuned_dir: Path, start: Path, tmp_path: Path) -> None:
    listed = write_json(tmp_path / "l.jsonl", [{"text": "a", "label": ["x"]}])
    done = run("evaluate", tuned_dir, listed, "-q")
    assert done.code == 1
    assert "l.jsonl: row 1: field 'label': expected one label, came list" in done.error()
    odd = write_json(tmp_path / "o.jsonl", [{"a": "x", "b": "y", "c": 3}])
    done = run("predict", tuned_dir, odd, "-o", tmp_path / "p.jsonl", "-q")
    assert done.code == 1
    assert "o.jsonl: none of its columns is called text" in done.error()
    done = run("predict", start, listed, "-q")
    assert done.code == 2
    assert "predicting needs a head trained for a task, this bundle has: mlm" in done.error()
    done = run("predict", tuned_dir, listed, "--json", "-q")
    assert (done.code, done.out) == (2, "")
    assert "--json prints the summary on stdout" in done.error()
    done = run("predict", tuned_dir, "-", "-q", stdin=b"text\tlabel\na\tanimal\nb\tplace\n")
    assert (done.code, done.out) == (1, "")
    assert "<stdin>: its lines look like a table parted by tabs" in done.error()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["l.jsonl", "o.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_saved_and_the_same_line_goes_on(start: Path, tmp_path: Path, number: signal.Signals) -> None:
    train, out = write_classes(tmp_path / "t.tsv", 60), tmp_path / "m"
    line = [
        "finetune",
        "classification",
        train,
        "--bundle",
        start,
        "-o",
        out,
        "--seeds",
        2,
        *SETS,
        "--set",
        "run.steps=400",
    ]
    with begin(*line) as process:
        metrics, deadline = out / "seed-0" / "metrics.jsonl", time.monotonic() + PATIENCE
        while not metrics.exists() or metrics.stat().st_size == 0:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "stopped in seed 0, saved; the same line goes on from there"
    assert not (out / "report.json").exists()
    done = spawn(*line)
    assert done.code == 0, done.err
    assert "seed 0: goes on at step" in done.err
    assert json.loads((out / "report.json").read_bytes())["seeds"][1]["steps"] == 400
