"""What holds for every command: help, exit codes, errors, streams, interrupts."""

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
from anaume.cli import running, text
from anaume.errors import DataError
from commands import Run, begin, spawn
from helpers import PATIENCE

ALL = [
    ["demo"],
    ["tokenize"],
    ["vocab", "train"],
    ["vocab", "report"],
    ["vocab", "extend"],
    ["info"],
    ["verify"],
    ["embed"],
    ["prepare"],
    ["check"],
    ["doctor"],
    ["pretrain"],
    ["inspect", "path"],
    ["inspect", "word"],
    ["inspect", "attention"],
    ["inspect", "neighbours"],
    ["inspect", "sizes"],
    ["inspect", "curves"],
    ["fill"],
    ["finetune"],
    ["evaluate"],
    ["predict"],
    ["mine"],
    ["index", "build"],
    ["index", "add"],
    ["index", "update"],
    ["index", "delete"],
    ["index", "migrate"],
    ["index", "compact"],
    ["index", "stats"],
    ["search"],
    ["export"],
    ["import"],
]


@pytest.mark.parametrize("verb", ALL, ids=" ".join)
def test_help_has_one_line_examples_and_the_common_options(run: Run, verb: list[str]) -> None:
    done = run(*verb, "--help")
    assert (done.code, done.err) == (0, "")
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    assert lines[0].startswith("Usage: anaume " + " ".join(verb))
    assert lines[1].endswith(".")
    assert f"$ anaume {' '.join(verb)}" in done.out
    for option in ("--device", "--verbose", "--quiet", "--log-json"):
        assert option in done.out
    assert max(len(line) for line in done.out.splitlines()) <= 80


def test_help_shows_what_stands_in_brackets(run: Run) -> None:
    assert "anaume[fast]" in run("embed", "--help").out  # unescaped, it would be taken for markup


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys; from anaume.cli import main; main(['--help']); main(['--version']); main(['embed', '--help']); "
        "heavy = ('torch', 'numpy', 'tokenizers', 'pyarrow', 'sklearn', 'matplotlib', 'transformers', 'safetensors'); "
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert f"anaume {anaume.__version__}" in done.stdout


def test_module_and_entry_point_are_one(run: Run) -> None:
    assert spawn("--version").out == run("--version").out == f"anaume {anaume.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["inspect", "frobnicate"],
        ["tokenize", "B", "text", "--frobnicate"],
        ["embed", "B", "f.txt", "-o", "a.npy", "-o", "b.npy"],
        ["embed", "B", "f.txt", "--long", "sometimes"],
        ["embed", "B", "f.txt", "--format", "word"],
        ["tokenize", "B", "text", "--cased", "--uncased"],
        ["info"],
        ["info", "B", "C"],
    ],
)
def test_wrong_use_is_2_and_one_line(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "-h shows how it is used" in done.error()
    row = json.loads(run(*arguments, "--log-json").err)
    assert (row["level"], "-h shows how it is used" in row["message"]) == ("error", True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("info", "anaume info: missing argument 'B' (Bundle: a directory or a name (all-MiniLM-L6-v2));"),
        ("finetune ner t.conll -o m", "missing option '--bundle' (The bundle to start from);"),
        (
            "finetune ner --dev d.conll t.conll -o m --bundle b",
            "'TRAIN' (Labelled files to learn from); --dev takes all",
        ),
        (
            "finetune ner t.conll -o m --bundle b --sed 3",
            "no such option: --sed (Possible options: --seed, --seeds, --set)",
        ),
        ("finetune ner t.conll -o m --bundle b --seeds two", "; got 'two'; anaume finetune -h"),
        ("finetune ner t.conll -o m --bundle b -o n", "given 2 times, last as 'n'; give it once; anaume"),
        ("check t.tsv --max-length 5 --max-length 6", "given 2 times, last as '6'"),
        ("finetune ner t.conll -o m --bundle b --seeds", "Option '--seeds' requires an argument"),
    ],
)
def test_wrong_use_says_what_is_wrong_and_what_came(run: Run, line: str, told: str) -> None:
    assert told in run(*line.split()).error()


def test_saying_nothing_shows_the_help(run: Run) -> None:
    for arguments in ([], ["inspect"]):
        done = run(*arguments)
        assert done.code == 2
        assert "Usage: anaume" in done.out + done.err
        assert "error" not in done.err


def test_a_switch_given_twice_is_fine(run: Run, tiny_tokenizer_dir: Path) -> None:
    assert run("-q", "tokenize", tiny_tokenizer_dir, "dog", "-q", "--json", "--json").code == 0


def test_common_options_stand_before_or_after_the_verb(run: Run, tiny_tokenizer_dir: Path) -> None:
    vocab = tiny_tokenizer_dir / "vocab.txt"
    assert run("tokenize", vocab, "dog").err.startswith(f"{vocab}: a bare vocabulary")
    assert run("tokenize", vocab, "dog", "-q").err == ""
    assert run("-q", "tokenize", vocab, "dog").err == ""
    for asked in (["--log-json", "tokenize"], ["tokenize", "--log-json"]):
        assert json.loads(run(*asked, vocab, "dog").err)["level"] == "info"
    for asked in (["--device", "cpu", "tokenize"], ["tokenize", "--device", "cpu"]):
        assert run(*asked, tiny_tokenizer_dir, "dog").err.endswith("--device has no effect\n")


def test_a_device_that_is_not_there_is_one_line(run: Run, tiny_bundle_dir: Path) -> None:
    done = run("info", tiny_bundle_dir, "--device", "warp")
    assert (done.code, done.out) == (2, "")
    assert "try auto or cpu" in done.error()


# -- errors --------------------------------------------------------------------------------------------------------


def broken(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(text, "open_tokenizer", fail)


def test_our_errors_are_one_line_and_a_traceback_only_when_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(DataError("file: row 3:\nno text\x1b[2J"), monkeypatch)
    done = run("tokenize", "B", "text")
    assert (done.code, done.err) == (1, "error: file: row 3: no text\\x1b[2J\n")
    verbose = run("tokenize", "B", "text", "-v").err
    assert "Traceback" in verbose
    assert verbose.endswith(done.err)
    row = json.loads(run("tokenize", "B", "text", "--log-json").err)
    assert (row["level"], row["message"]) == ("error", done.err.removeprefix("error: ").rstrip())


def test_anything_else_is_called_our_bug(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(KeyError("lost"), monkeypatch)
    done = run("tokenize", "B", "text")
    assert done.code == 1
    assert "this is a bug in anaume" in done.error()
    assert "KeyError: 'lost'" in run("tokenize", "B", "text", "-v").err


def test_an_interrupt_that_a_library_wrapped_is_still_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("the tokenizer's callback failed") from None

    monkeypatch.setattr(text, "open_tokenizer", fail)
    done = run("tokenize", "B", "text")
    assert (done.code, done.err) == (130, "error: interrupted\n")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "the process is left as it was"


def test_an_ignored_interrupt_stays_ignored(run: Run, tiny_tokenizer_dir: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert run("tokenize", tiny_tokenizer_dir, "dog").code == 0
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


# -- consoles ------------------------------------------------------------------------------------------------------

HARD = "肯定 否定 😀 é"


@pytest.mark.parametrize("encoding", ["ascii", "cp932", "latin-1", "cp1252"])
def test_no_console_is_too_poor(run: Run, tiny_bundle_dir: Path, tmp_path: Path, encoding: str) -> None:
    """CLI-01"""
    lines = tmp_path / "否定.txt"
    lines.write_text(f"the dog {HARD}\ndog {HARD}\n", encoding="utf-8")
    commands: list[list[object]] = [
        ["tokenize", tiny_bundle_dir, HARD],
        ["vocab", "report", tiny_bundle_dir, lines],
        ["info", tiny_bundle_dir],
        ["inspect", "path", tiny_bundle_dir, HARD],
        ["inspect", "word", tiny_bundle_dir, "dog", lines],
        ["inspect", "attention", tiny_bundle_dir, HARD],
        ["inspect", "neighbours", tiny_bundle_dir, "dog", lines, "--in", f"a dog {HARD}"],
        ["embed", tiny_bundle_dir, lines, "-o", tmp_path / "否定.npy"],
    ]
    for command in commands:
        done = run(*command, encoding=encoding)
        assert done.code == 0, done.err
        assert "Traceback" not in done.err
        for line in run(*command, "--json", encoding=encoding).out.splitlines():
            json.loads(line)
    shown = run("tokenize", tiny_bundle_dir, HARD, encoding=encoding).out
    assert r"\U0001f600" in shown
    assert json.loads(run("tokenize", tiny_bundle_dir, HARD, "--json", encoding=encoding).out)["text"] == HARD
    missing = run("tokenize", "否定/😀", "text", encoding=encoding)
    assert missing.code == 1
    assert r"\U0001f600" in missing.error()


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "cp932"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONUTF8": "0", "LC_ALL": "C"}],
    ids=str,
)
def test_a_real_console_that_is_not_utf_8(tiny_tokenizer_dir: Path, environment: dict[str, str]) -> None:
    """CLI-01"""
    done = spawn("tokenize", tiny_tokenizer_dir, "-", stdin=f"{HARD}\r\n".encode(), **environment)
    assert (done.code, done.err) == (0, "")
    assert "\r" not in done.out
    if "PYTHONUTF8" not in environment:
        assert r"\U0001f600" in done.out


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere arguments are Unicode whatever the locale")
def test_texts_of_the_command_line_are_read_whatever_the_locale(
    tiny_tokenizer_dir: Path, tiny_bundle_dir: Path
) -> None:
    """CLI-01: under LC_ALL=C Python hands on bytes it can't read as lone surrogates, which a tokenizer drops."""
    poor = {"PYTHONUTF8": "0", "LC_ALL": "C"}
    done = spawn("tokenize", tiny_tokenizer_dir, "dog 銀行", "--pair", HARD, "--json", **poor)
    record = json.loads(done.out)
    assert (record["text"], record["pair"]) == ("dog 銀行", HARD)
    asked = ["inspect", "attention", tiny_bundle_dir, "銀", "--from", "銀", "--json"]
    assert spawn(*asked, **poor).out == spawn(*asked).out


def test_lone_surrogates_crash_nothing(run: Run, tiny_tokenizer_dir: Path) -> None:
    assert run("tokenize", tiny_tokenizer_dir, "dog \udc80").code == 0
    assert json.loads(run("tokenize", tiny_tokenizer_dir, "dog \udc80", "--json").out)["text"] == "dog \udc80"


def test_a_closed_pipe_ends_quietly(tiny_tokenizer_dir: Path, tmp_path: Path) -> None:
    """CLI-01"""
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"the dog\n" * 20_000)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "anaume", "tokenize", str(tiny_tokenizer_dir), "-", "--json"]
    with lines.open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (running.PIPE_CLOSED, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_line(tiny_tokenizer_dir: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "anaume", "tokenize", str(tiny_tokenizer_dir), "dog"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"error: No space left on device\n")


def test_a_result_for_a_closed_stdout_is_not_lost_in_silence(tiny_tokenizer_dir: Path) -> None:
    line = 'exec "$0" -m anaume tokenize "$1" dog >&-'
    done = subprocess.run(["sh", "-c", line, sys.executable, str(tiny_tokenizer_dir)], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr == b"error: stdout is closed, so the result is lost: leave it open, or name a file with -o\n"


def test_what_needs_no_stdout_does_without_one(tiny_bundle_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the dog\n", encoding="utf-8")
    line = 'exec "$0" -m anaume embed "$1" in.txt -o out.npy --quiet >&-'
    command = ["sh", "-c", line, sys.executable, str(tiny_bundle_dir)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "out.npy").exists()


# -- interrupts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_embed_leaves_nothing_behind(tiny_bundle_dir: Path, tmp_path: Path, number: int) -> None:
    """CLI-01"""
    (tmp_path / "older.npy").write_bytes(b"older")
    line = ["embed", tiny_bundle_dir, "-", "-o", tmp_path / "older.npy", "--overwrite"]
    process = begin(*line, stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(b"the dog\n")
    process.stdin.flush()
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob(".anaume-*.tmp")):  # it waits for more of stdin, its output open
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"error: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["older.npy"]
    assert (tmp_path / "older.npy").read_bytes() == b"older"
