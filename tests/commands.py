"""Running the command line in tests: in this process, which is fast, or in one of its own, which is real."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from anaume.cli import main
from helpers import PATIENCE


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def error(self) -> str:
        """The one line on stderr, which says an error and no more."""
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        return line


Run = Callable[..., Done]


def runner(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return run(*arguments, stdin=b"", encoding="utf-8"): the command in this process, with streams of its own."""

    def run(*arguments: object, stdin: bytes = b"", encoding: str = "utf-8") -> Done:
        streams = {
            name: io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n") for name in ("stdout", "stderr")
        }
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding=encoding))
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            code = main([str(argument) for argument in arguments])
        raw = {name: stream.detach() for name, stream in streams.items() if not stream.flush()}
        texts = {name: buffer.getvalue().decode(encoding) for name, buffer in raw.items()}  # type: ignore[attr-defined]
        return Done(code, texts["stdout"], texts["stderr"])

    return run


def spawn(*arguments: object, stdin: bytes = b"", **environment: str) -> Done:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "anaume", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | environment,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def begin(*arguments: object, **how: Any) -> subprocess.Popen[bytes]:
    """Begin the command in a process of its own, which hears Ctrl-C even where the tests were begun deaf to it."""
    command = [sys.executable, "-m", "anaume", *map(str, arguments)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here would be ignored there
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
    finally:
        signal.signal(signal.SIGINT, before)
