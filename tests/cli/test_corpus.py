"""prepare, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anaume
from anaume.data.corpus import open_corpus
from anaume.tokenization import Tokenizer
from commands import Run


@pytest.fixture
def books(tmp_path: Path) -> Path:
    folder = tmp_path / "books"
    folder.mkdir()
    for number in range(24):
        (folder / f"{number:02d}.txt").write_text(f"The dog number {number} is cute. He likes playing {number} games.")
    return folder


def test_prepare_learns_a_vocabulary_and_the_same_line_again_says_finished(run: Run, books: Path) -> None:
    out = books.parent / "shards"
    line = ["prepare", books, "--vocab-size", 100, "-o", out]
    done = run(*line)
    assert (done.code, done.out) == (0, "")
    assert "learned from" in done.err
    assert "train: 23 documents, 46 sentences" in done.err
    assert open_corpus(out).vocab_size <= 100
    again = run(*line)
    assert (again.code, again.err.count("\n")) == (0, 1)
    assert "made of the same texts with the same settings: nothing to do" in again.err
    other = run(*line, "--layout", "lines")
    assert other.code == 1
    assert "layout document is now lines" in other.error()
    assert run(*line, "--layout", "lines", "--overwrite").code == 0


def test_prepare_with_a_bundle_uses_its_tokenizer(run: Run, books: Path, tiny_bundle_dir: Path) -> None:
    out = books.parent / "shards"
    done = run("prepare", books, "--bundle", tiny_bundle_dir, "-o", out, "--held-out", 0.25, "--json")
    assert done.code == 0
    summary = json.loads(done.out)
    assert summary["tokenizer_fingerprint"] == Tokenizer.from_directory(tiny_bundle_dir).fingerprint
    assert (summary["train"]["documents"], summary["held_out"]["documents"]) == (18, 6)


def test_prepare_needs_a_vocabulary_from_one_place(run: Run, books: Path, tiny_bundle_dir: Path) -> None:
    out = books.parent / "shards"
    for extra in ([], ["--vocab-size", 90, "--bundle", tiny_bundle_dir]):
        done = run("prepare", books, "-o", out, *extra)
        assert done.code == 2
        assert "give --vocab-size N to learn a vocabulary, or --bundle B to use one that is there" in done.error()
    done = run("prepare", books, "-o", out, "--bundle", tiny_bundle_dir, "--cased")
    assert done.code == 2
    assert "brings its own rules; lower_case" in done.error()
    assert not out.exists()


def test_check_shows_what_there_is_and_what_leaked(run: Run, books: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_text("he likes playing 3 games\nno such line\n")
    second.write_text("dog number 4\n")
    done = run("check", books, "--vocab-size", 100, "--against", first, second)
    assert done.code == 0
    lines = {line.split("  ")[0]: line for line in done.out.splitlines()}
    assert lines["documents"].endswith(" 24")
    assert lines["sentences"].endswith(" 48")
    assert "ln of the vocabulary's size" in lines["loss at first"]
    assert lines[str(first)].split()[1:] == ["2", "1", "50.0%", "0", "0.0%", "0"]
    assert lines[str(second)].split()[1:] == ["1", "0", "0.0%", "1", "100.0%", "1"]
    assert done.err.count("occur whole in the training text") == 2
    record = json.loads(run("check", books, "--against", first, "--against", second, "--json").out)
    assert [overlap["whole_share"] for overlap in record["overlaps"]] == [0.5, 0.0]
    assert record["counts"] is None


def test_check_tells_what_it_needs_to_count_tokens(run: Run, books: Path) -> None:
    assert "not counted: give --bundle or --vocab-size" in run("check", books).out


def test_bad_bytes_are_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n\nthree \xff\n")
    for verb in (["check"], ["prepare", "--vocab-size", 90, "-o", tmp_path / "shards"]):
        done = run(*verb, tmp_path / "a.txt")
        assert done.code == 1
        assert "a.txt: line 3, byte 11: not utf-8" in done.error()
    assert not (tmp_path / "shards").exists()


def test_check_of_labelled_files_is_a_table_or_json(run: Run, tmp_path: Path, tiny_bundle_dir: Path) -> None:
    train, dev, more = (tmp_path / name for name in ("train.csv", "dev.csv", "more.csv"))
    train.write_text("body,stars\nthe dog is cute,good\nthe bank,bad\n" + "the river,good\n" * 8)
    dev.write_text("body,stars\nthe river,good\n")
    more.write_text("body,stars\na cat,odd\n")
    line = ["check", "--task", "classification", train, "--column", "text=body", "--column", "label=stars"]
    done = run(*line, "--dev", dev, more, "--bundle", tiny_bundle_dir)
    assert done.code == 1  # as a fine-tuning would end, but all is told before
    rows = {line.split("  ")[0]: line.split("  ")[1:] for line in done.out.splitlines() if line}
    assert [cell.strip() for cell in rows["examples"] if cell] == ["10", "2"]
    assert rows["most frequent label scores"][-1].strip() == "50.0% (always 'good')"
    assert rows["good"][-1].strip() == "1 (50.0%)"
    assert "warning: labels with fewer than 8 examples in train: 'bad'" in done.err
    assert "error: a fine-tuning would refuse this: " in done.err.splitlines()[-1]
    assert "more.csv: row 2: the labels of the data and of the model differ" in done.err.splitlines()[-1]
    done = run(*line, "--dev", dev, "--json")
    assert done.code == 0
    record = json.loads(done.out)
    assert record["train"]["labels"] == {"good": 9, "bad": 1}
    assert (record["overlap"], record["dev"]["long_share"], record["majority"]["accuracy"]) == (1, None, 1.0)


def test_check_counts_what_a_finetuning_of_the_bundle_cuts(run: Run, tmp_path: Path, tiny_bundle_dir: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\n" + "dog " * 100 + ",a\nthe bank,b\n")
    line = ["check", "--task", "classification", tmp_path / "t.csv", "--json"]

    def told(*more: object) -> tuple[int, int | None]:
        record = json.loads(run(*line, *more).out)
        return record["max_length"], record["train"]["long"]

    longest = anaume.load(tiny_bundle_dir, device="cpu").embedding.max_length
    assert told("--bundle", tiny_bundle_dir) == (longest, 1)
    assert told("--bundle", tiny_bundle_dir, "--max-length", 200) == (200, 0)
    assert told("--bundle", tiny_bundle_dir / "vocab.txt") == (512, 0)  # words alone have no length of their own
    assert told() == (512, None)


def test_check_shows_targets_and_many_labels(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "".join(f"text {number}\t{number}\n" for number in range(25)))
    assert "deviation   7.211" in run("check", "--task", "regression", path).out
    assert "... and 5 more" in run("check", "--task", "classification", path).out


def test_check_options_go_with_text_or_with_labelled_files(run: Run, books: Path) -> None:
    for line, told in (
        (["--dev", "x"], "--dev goes with --task"),
        (["--task", "ner", "--against", "x"], "are for training text"),
        (["--column", "text=a"], "training text has one column"),
        (["--task", "ner", "--column", "a"], "a column is given as ROLE=NAME"),
    ):
        done = run("check", books, *line)
        assert done.code == 2
        assert told in done.error()
