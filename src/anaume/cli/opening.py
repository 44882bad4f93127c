"""From what a user typed to a bundle or a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.bundle import Bundle
    from anaume.bundle.choosing import EngineName
    from anaume.engines import Precision
    from anaume.tokenization import Tokenizer

log = get_logger(__name__)


def open_bundle(
    name: str, *, device: str = "auto", precision: Precision = "float32", engine: EngineName = "auto"
) -> Bundle:
    """Open a bundle by directory or name. Raises BundleError or TokenizerError."""
    import anaume

    return anaume.load(name, precision=precision, device=device, engine=engine)


def open_tokenizer(name: str, **flags: Any) -> Tokenizer:
    """Open the tokenizer of a bundle (its weights stay on disk), a tokenizer's directory or one of its files.

    flags  TokenizerRules fields, for a vocab.txt, which holds words and no rules; None values count as not given

    Raises TokenizerError, BundleError, and SettingsError for flags given to what has its own rules.
    """
    from anaume.tokenization import Tokenizer

    flags = {key: value for key, value in flags.items() if value is not None}
    path = Path(name)
    if path.is_file() and path.suffix.lower() != ".json":
        if not flags:
            log.info("%s: a bare vocabulary; taken with the rules of an uncased BERT, unless options say others", name)
        return Tokenizer.from_vocab(path, **flags)
    if flags:
        raise SettingsError(f"{name} brings its own rules: --words, --subwords and --cased are for a vocab.txt")
    if path.is_file():
        return Tokenizer.from_file(path)
    if _is_tokenizer(path):
        return Tokenizer.from_directory(path)  # a tokenizer alone: torch need not even be imported
    from anaume.bundle import find_bundle, read_tokenizer

    return read_tokenizer(find_bundle(name))


def longest_text(name: str) -> int | None:
    """Return how many tokens a bundle takes, as `anaume finetune` will cut there; None for a tokenizer alone."""
    from anaume.bundle import find_bundle, read_max_length

    path = Path(name)
    return None if path.is_file() else read_max_length(path if _is_tokenizer(path) else find_bundle(name))


def _is_tokenizer(path: Path) -> bool:
    names = ("config.json", "modules.json")
    return (path / "vocab.txt").is_file() and not any((path / name).is_file() for name in names)


def typed(text: str) -> str:
    """Return a text of the command line as it was typed: UTF-8, also where the locale says ASCII (LC_ALL=C).

    Python hands on bytes that the locale can't read as lone surrogates, and a tokenizer would drop every one.
    """
    if not any("\udc80" <= character <= "\udcff" for character in text):
        return text
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeError:
        return text


def stdin_lines() -> Iterator[str]:
    """Go through the lines of stdin: UTF-8, without their ends. Raises DataError for other bytes."""
    from anaume.data import open_text

    with open_text("-") as file:
        file.advice = "send it as UTF-8: iconv -f CP932 -t UTF-8 (or what it is in)"
        yield from file.lines()
