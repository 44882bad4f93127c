"""train_vocabulary: a directory that appears whole, and is replaced only when asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anaume.errors import DataError
from anaume.jobs import vocab
from anaume.jobs.vocab import train_vocabulary
from anaume.tokenization import Tokenizer

TEXTS = ["the dog is cute", "the cat likes the dog"] * 3


def test_the_report_is_of_all_texts_and_the_fit_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocab, "SAMPLE", 2)
    trained = train_vocabulary(iter(TEXTS), tmp_path / "v", vocab_size=70)
    assert (trained.report.texts, trained.sample.texts) == (6, 2)
    assert trained.tokenizer.fingerprint == Tokenizer.from_directory(tmp_path / "v").fingerprint
    assert trained.tokenizer.fingerprint == Tokenizer.train(TEXTS, vocab_size=70).fingerprint
    assert sorted(trained.files) == sorted(path.name for path in (tmp_path / "v").iterdir())


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    train_vocabulary(TEXTS, tmp_path / "v", vocab_size=70)
    assert (tmp_path / "v" / "vocab.txt").is_file()


@pytest.mark.parametrize("fault", ["texts", "saving", "swapping"])
def test_a_failure_leaves_the_old_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    folder = tmp_path / "v"
    train_vocabulary(TEXTS, folder, vocab_size=70)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    texts = TEXTS if fault != "texts" else []
    if fault == "saving":

        def full(self: Tokenizer, directory: Path) -> None:
            directory.mkdir()
            (directory / "vocab.txt").write_text("half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Tokenizer, "save", full)
    if fault == "swapping":
        real, calls = vocab.os.replace, []  # type: ignore[attr-defined]

        def once(source: Any, target: Any) -> None:
            calls.append(source)
            if len(calls) == 2:
                raise OSError(5, "Input/output error")
            real(source, target)

        monkeypatch.setattr(vocab.os, "replace", once)  # type: ignore[attr-defined]
    with pytest.raises((OSError, DataError)):
        train_vocabulary(texts, folder, vocab_size=60, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["v"]
