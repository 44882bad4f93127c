"""`anaume tokenize`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anaume.tokenization import Tokenizer
from commands import Run


def test_tokenize_aligns_tokens_with_the_characters_they_stand_for(run: Run, tiny_tokenizer_dir: Path) -> None:
    done = run("tokenize", tiny_tokenizer_dir, "My DOG", "--pair", "likes")
    assert (done.code, done.err) == (0, "")
    names, *rows, last = done.out.splitlines()
    assert names.split() == ["token", "ID", "segment", "position", "offsets", "characters"]
    cells = [row.split() for row in rows]
    assert [row[0] for row in cells] == ["[CLS]", "my", "dog", "[SEP]", "likes", "[SEP]"]
    assert [row[2] for row in cells] == ["0", "0", "0", "0", "1", "1"]
    assert [row[3] for row in cells] == list("012345")
    assert cells[2][4:] == ["3:6", "DOG"]
    assert cells[4][4:] == ["0:5", "likes"]
    assert last == "6 tokens; 0 of 3 pieces unknown; all of it kept"


def test_tokenize_columns_stay_aligned_beside_wide_characters(run: Run, tmp_path: Path) -> None:
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n銀\n行\nab\n", encoding="utf-8")
    lines = run("tokenize", vocab, "銀行 ab", "--cased").out.splitlines()
    # Two cells to a kanji: the row's text is one character shorter, and looks as wide.
    assert lines[2].index(" 5 ") == lines[4].index(" 7 ") - 1


def test_tokenize_as_json_equals_the_encoding(run: Run, tiny_bundle_dir: Path) -> None:
    row = json.loads(run("tokenize", tiny_bundle_dir, "the dog likes", "--max-length", 4, "--json").out)
    encoding = Tokenizer.from_directory(tiny_bundle_dir).encode("the dog likes", max_length=4)
    assert row["token_ids"] == encoding.token_ids
    assert row["tokens"] == encoding.tokens
    assert [tuple(span) for span in row["offsets"]] == encoding.offsets
    assert row["position_ids"] == [0, 1, 2, 3]
    assert row["coverage"] == [{"share": 2 / 3, "kept": 2, "total": 3, "start": 0, "end": 8}]


def test_tokenize_says_what_was_cut_and_what_is_unknown(run: Run, tiny_tokenizer_dir: Path) -> None:
    out = run("tokenize", tiny_tokenizer_dir, "dog 銀 dog dog", "--max-length", 4).out
    assert out.splitlines()[-1] == "4 tokens; 1 of 2 pieces unknown; 50.0% of the text kept (2 of 4 pieces)"


def test_tokenize_reads_lines_from_stdin_without_their_ends(run: Run, tiny_tokenizer_dir: Path) -> None:
    done = run("tokenize", tiny_tokenizer_dir, "-", "--json", stdin="the dog\r\n銀行\u2028x\n\nlast".encode())
    lines = done.out.removesuffix("\n").split("\n")
    assert [json.loads(line)["text"] for line in lines] == ["the dog", "銀行\u2028x", "", "last"]
    blocks = run("tokenize", tiny_tokenizer_dir, "-", stdin=b"the dog\r\ncute\r\n").out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["the dog", "cute"]


def test_lines_of_stdin_in_another_encoding_are_refused_with_what_to_do(run: Run, tiny_tokenizer_dir: Path) -> None:
    error = run("tokenize", tiny_tokenizer_dir, "-", stdin="the dog\n銀行\n".encode("cp932")).error()
    assert "<stdin>: line 2, byte 8: not utf-8" in error
    assert "iconv" in error
    assert "--encoding" not in error  # an option that it doesn't have


def test_tokenize_shows_control_characters_as_escapes(run: Run, tiny_tokenizer_dir: Path) -> None:
    out = run("tokenize", tiny_tokenizer_dir, "-", stdin=b"\x1b[31mred\ttab").out
    assert "\x1b" not in out
    assert out.startswith(r"\x1b[31mred\ttab")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_a_tokenizers_file_will_do(run: Run, tiny_tokenizer_dir: Path, name: str) -> None:
    whole = run("tokenize", tiny_tokenizer_dir, "the dog", "--json").out
    one = run("tokenize", tiny_tokenizer_dir / name, "the dog", "--json")
    assert one.out == whole
    assert ("rules of an uncased BERT" in one.err) == (name == "vocab.txt")


def test_a_bare_vocabulary_takes_its_rules_from_options(run: Run, tmp_path: Path) -> None:
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nDog\ndog\n", encoding="utf-8")
    assert json.loads(run("tokenize", vocab, "Dog", "--cased", "--json").out)["tokens"][1] == "Dog"
    assert json.loads(run("tokenize", vocab, "Dog", "--uncased", "--json").out)["tokens"][1] == "dog"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["nowhere/at/all", "text"], 1, "nothing is called"),
        (["{tokenizer}", "text", "--max-length", "1"], 2, "max_length"),
        (["{tokenizer}", "text", "--cased"], 2, "brings its own rules"),
        (["{tokenizer}/special_tokens_map.json", "text"], 1, "tokenizer.json"),
    ],
)
def test_tokenize_refuses(run: Run, tiny_tokenizer_dir: Path, arguments: list[str], code: int, expected: str) -> None:
    done = run("tokenize", *(part.format(tokenizer=tiny_tokenizer_dir) for part in arguments))
    assert (done.code, done.out) == (code, "")
    assert expected in done.error()


@pytest.mark.parametrize("arguments", [[], ["B"], ["B", "text", "more"], ["B", "text", "--max-length", "many"]])
def test_tokenize_without_its_arguments_is_wrong_use(run: Run, arguments: list[str]) -> None:
    done = run("tokenize", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.error().startswith("error: anaume tokenize: ")
