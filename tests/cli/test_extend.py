"""`anaume vocab extend`, and what comes after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import anaume
from commands import Run

TEXT = "the bank lent the dogs money\nthe dogs likes zebras\nzebras likes the bank\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("\ufeffMoneybag\r\nthe\r\n\r\nnew york\r\nmoneybag\r\nlent\r\n", encoding="utf-8")
    return path


def test_learned_words_are_added_and_the_change_is_told(
    run: Run, tiny_bundle_dir: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new"
    done = run("vocab", "extend", tiny_bundle_dir, text, "--add", 9, "-o", out)
    assert (done.code, done.err) == (0, "")
    new = anaume.load(out, device="cpu")
    size = new.tokenizer.vocab_size
    told = dict(line.split("  ", 1) for line in done.out.splitlines() if "  " in line)
    told = {name: value.strip() for name, value in told.items()}
    assert told["entries"] == f"{size - 2} -> {size}"
    assert told["learned"] == "2 of 9: the texts have no more to give"
    assert told["first"] == "zebras dogs"
    assert told["texts"] == "3 with 14 words"
    assert told["pieces per word"] == "1.143 -> 1.000"
    assert told["tokenizer"] == new.tokenizer.fingerprint
    assert new.tokenizer.encode("zebras").tokens == ["[CLS]", "zebras", "[SEP]"]
    assert f"anaume pretrain SHARDS --bundle {out} --minutes" in done.out.splitlines()[-1]


def test_json_says_all_of_it(run: Run, tiny_bundle_dir: Path, text: Path, words: Path, tmp_path: Path) -> None:
    done = run("vocab", "extend", tiny_bundle_dir, text, "--add", 1, "--words", words, "-o", tmp_path / "new", "--json")
    assert done.code == 0
    (warning,) = done.err.splitlines()
    assert "1 of 6 given words can't be entries and were left out, by number: 4 'new york'" in warning
    row = json.loads(done.out)
    new = anaume.load(tmp_path / "new", device="cpu").tokenizer
    assert (row["size"], row["size"] - row["size_before"]) == (new.vocab_size, row["learned"] + row["given"])
    assert (row["already"], row["repeated"], row["blank"]) == (2, 1, 1)
    assert [(refused["line"], refused["word"]) for refused in row["refused"]] == [(4, "new york")]
    assert [entry["token"] for entry in row["entries"]] == ["moneybag", "zebras"]
    assert row["entries"][0]["old_pieces"][0] == "money"
    assert [entry["given"] for entry in row["entries"]] == [True, False]
    assert row["unknown_share"] < row["unknown_share_before"]
    assert row["words"] == 14
    assert row["lost"] == []


def test_given_words_alone_need_no_text(run: Run, tiny_bundle_dir: Path, words: Path, tmp_path: Path) -> None:
    done = run("vocab", "extend", tiny_bundle_dir, "--words", words, "-o", tmp_path / "new", "--quiet")
    assert (done.code, done.err) == (0, "")
    assert "not measured: no text came" in done.out
    assert "1; left out: 2 entries already, 1 repeated, 1 blank, 1 can't be entries" in done.out
    assert anaume.load(tmp_path / "new", device="cpu").tokenizer.vocab[-1] == "moneybag"


def test_stdin_tables_and_their_columns(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("id\tbody\n1\tzebras\n2\tzebras\n", encoding="utf-8")
    done = run("vocab", "extend", tiny_bundle_dir, table, "--column", "body", "--add", 1, "-o", tmp_path / "a")
    assert done.code == 0
    again = run("vocab", "extend", tiny_bundle_dir, "-", "--add", 1, "-o", tmp_path / "b", stdin=b"zebras\nzebras\n")
    assert again.code == 0
    one, other = (anaume.load(tmp_path / name, device="cpu") for name in "ab")
    assert one.fingerprint == other.fingerprint


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "what shall be added? give --add N to learn words, --words LIST to bring some"),
        (["--add", "3"], 2, "--add learns words from text: name its files"),
        (["{text}", "--add", "-3"], 2, "add must be a whole number from 0"),
        (["{text}", "--add", "3", "--min-frequency", "0"], 2, "min_frequency must be"),
        (["{text}", "--add", "3", "--min-frequency", "50"], 1, "nothing to add"),
        (["-", "--add", "3", "--words", "-"], 2, "stdin ('-') is named twice"),
        (["nope.txt", "--add", "3"], 1, "no such file"),
        (["{text}", "--words", "nope.txt"], 1, "nope.txt"),
        (["{text}", "--add", "3", "-o", "{text}"], 1, "is a file"),
        (["{text}", "--add", "3", "-o", "{bundle}"], 2, "holds a bundle already"),
    ],
)
def test_it_refuses(
    run: Run, tiny_bundle_dir: Path, text: Path, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    filled = [part.format(text=text, bundle=tiny_bundle_dir) for part in arguments]
    out = [] if "-o" in filled else ["-o", tmp_path / "new"]
    done = run("vocab", "extend", tiny_bundle_dir, *filled, *out)
    assert (done.code, done.out) == (code, "")
    assert said in done.error()
    assert not (tmp_path / "new").exists()


def test_the_new_bundle_is_prepared_with_and_trained_on(
    run: Run, tiny_bundle_dir: Path, text: Path, tmp_path: Path
) -> None:
    new, shards, out = tmp_path / "new", tmp_path / "shards", tmp_path / "run"
    assert run("vocab", "extend", tiny_bundle_dir, text, "--add", 2, "-o", new).code == 0
    assert run("prepare", text, "--layout", "lines", "--bundle", new, "-o", shards, "--workers", 1).code == 0
    settings = [part for setting in ("data.seq_len=12", "run.batch_rows=2") for part in ("--set", setting)]
    done = run("pretrain", shards, "--bundle", new, "--steps", 2, "-o", out, *settings)
    assert done.code == 0
    before, after = anaume.load(new, device="cpu"), anaume.load(out / "bundle", device="cpu")
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    assert after.parts.record.objectives == ("mlm",)
    assert len(after.parts.record.stages) == 2
    rows = [bundle.model.embeddings.token_embeddings.weight[-1] for bundle in (before, after)]
    assert not rows[0].equal(rows[1])
    old = run("pretrain", shards, "--bundle", tiny_bundle_dir, "--steps", 2, "-o", tmp_path / "other", *settings)
    assert old.code == 2
    assert "prepare the corpus with --bundle" in old.err


def test_the_list_is_read_in_the_encoding_that_is_named(run: Run, tiny_bundle_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes("機\n".encode("cp932"))
    given = ["vocab", "extend", tiny_bundle_dir, "--words", tmp_path / "list.txt", "-o", tmp_path / "new", "--json"]
    assert "not utf-8" in run(*given).error()
    done = run(*given, "--encoding", "cp932")
    assert [entry["token"] for entry in json.loads(done.out)["entries"]] == ["機"]
