"""`anaume vocab train` and `report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anaume.tokenization import Tokenizer
from commands import Run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("the dog is cute\nthe dog likes playing\nthe cat, too\n" * 3, encoding="utf-8")
    return path


def test_vocab_train_writes_a_tokenizer_and_reports(run: Run, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "made"
    done = run("vocab", "train", corpus, "-o", out, "--vocab-size", 80)
    assert (done.code, done.err) == (0, "")
    told = dict(line.split(maxsplit=1) for line in done.out.splitlines() if " " in line)
    tokenizer = Tokenizer.from_directory(out)
    assert told["entries"].startswith(str(tokenizer.vocab_size))
    assert told["texts"] == "9"
    assert told["lost"] == "none"
    assert told["tokenizer"] == tokenizer.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.txt", "made"], "no temporary is left"


def test_vocab_train_twice_gives_the_same_and_json_says_so(run: Run, corpus: Path, tmp_path: Path) -> None:
    asked = ("vocab", "train", corpus, "--vocab-size", 60, "--cased", "--limit-alphabet", 10, "--json")
    first, second = (run(*asked, "-o", tmp_path / name) for name in ("a", "b"))
    assert json.loads(first.out)["tokenizer"] == json.loads(second.out)["tokenizer"]
    assert json.loads(first.out)["lost_characters"]
    assert first.err.startswith("warning: limit_alphabet=10 leaves out")
    assert Tokenizer.from_directory(tmp_path / "a").rules.lower_case is False


def test_vocab_train_reads_tables_and_stdin(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,the dog\n2,the cat\n", encoding="utf-8")
    done = run(
        "vocab", "train", table, "-", "--column", "body", "-o", tmp_path / "v", "--vocab-size", 60, stdin=b"a dog\n"
    )
    assert done.code == 0
    assert "##g" in Tokenizer.from_directory(tmp_path / "v").vocab


def test_a_text_that_is_a_files_name_is_a_text(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("zzz zzz zzz", encoding="utf-8")
    done = run("vocab", "train", "-", "-o", "v", "--vocab-size", 60, stdin=b"secret\n")
    assert done.code == 0
    assert "z" not in Tokenizer.from_directory("v").vocab


def test_vocab_train_asks_before_replacing(run: Run, corpus: Path, tmp_path: Path) -> None:
    asked = ("vocab", "train", corpus, "-o", tmp_path / "v", "--vocab-size")
    assert run(*asked, 60).code == 0
    before = (tmp_path / "v" / "vocab.txt").read_bytes()
    refused = run(*asked, 70, "--cased")
    assert (refused.code, refused.out) == (2, "")
    assert "--overwrite" in refused.error()
    assert (tmp_path / "v" / "vocab.txt").read_bytes() == before
    assert run(*asked, 52, "--overwrite").code == 0
    assert (tmp_path / "v" / "vocab.txt").read_bytes() != before


def test_vocab_train_never_replaces_more_than_a_tokenizer(run: Run, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    done = run("vocab", "train", corpus, "-o", folder, "--vocab-size", 60, "--overwrite")
    assert done.code == 2
    assert "model.safetensors" in done.error()
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["nope.txt", "--vocab-size", "60", "-o", "{out}"], 1, "no such file"),
        (["{corpus}", "--vocab-size", "9", "-o", "{out}"], 2, "too small"),
        (["{corpus}", "--vocab-size", "60", "-o", "{out}/no/parent"], 2, "does not exist"),
        (["{corpus}", "--vocab-size", "60", "-o", "{corpus}"], 2, "is a file"),
        (["{corpus}", "--vocab-size", "60", "-o", "{out}", "--words", "mecab", "--strip-accents"], 2, "mecab"),
        (["{corpus}", "--vocab-size", "60", "-o", "{out}", "--encoding", "martian"], 2, "martian"),
    ],
)
def test_vocab_train_refuses(
    run: Run, corpus: Path, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    out = tmp_path / "out"
    done = run("vocab", "train", *(part.format(corpus=corpus, out=out) for part in arguments))
    assert (done.code, done.out) == (code, "")
    assert expected in done.error()
    assert not out.exists()


def test_vocab_report_measures(run: Run, tiny_tokenizer_dir: Path, tmp_path: Path) -> None:
    texts = tmp_path / "t.jsonl"
    texts.write_text('{"text": "the dog 銀 銀"}\n{"text": "バス"}\n', encoding="utf-8")
    done = run("vocab", "report", tiny_tokenizer_dir, texts)
    assert (done.code, done.err) == (0, "")
    assert "characters lost" in done.out
    assert "銀" in done.out
    assert "lose their mark" in done.out
    row = json.loads(run("vocab", "report", tiny_tokenizer_dir, texts, "--json").out)
    assert (row["texts"], row["voiced_kana"]) == (2, 1)
    assert {"character": "銀", "count": 2} in row["lost_characters"]


def test_vocab_report_refuses_a_column_that_is_not_there(run: Run, tiny_tokenizer_dir: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,the dog\n", encoding="utf-8")
    done = run("vocab", "report", tiny_tokenizer_dir, table, "--column", "bodi")
    assert done.code == 1
    assert "did you mean 'body'?" in done.error()
