"""The processes of `benchmarks.embed`, one a row, seen from the benchmark: started when needed, told what to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.embed_rows import HERE, Row
from benchmarks.harness import ROOT, say


class RowFailed(Exception):
    """A tool that can't be run, in one line; the benchmark goes on without its row."""


Interpreter = Callable[[str], tuple[Path | None, str]]


class Workers:
    """Rows -> running processes. A row that failed once is not tried again in the same run."""

    def __init__(self, told: Mapping[str, Any], interpreter: Interpreter) -> None:
        self._told, self._interpreter = dict(told), interpreter
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.failed: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()

    def ask(self, row: Row, **order: Any) -> dict[str, Any]:
        """Have a row's process do something; returns its answer. Raises RowFailed."""
        if row.name in self.failed:
            raise RowFailed(self.failed[row.name])
        try:
            if row.name not in self._running:
                process = self._begin(row)
                self._running[row.name] = process
                self._answer(process)
            process = self._running[row.name]
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            return self._answer(process)
        except (RowFailed, OSError) as error:
            self._fail(row, str(error))
            raise RowFailed(self.failed[row.name]) from None

    def alone(self, row: Row, **order: Any) -> dict[str, Any]:
        """The same in a fresh process that ends afterwards."""
        process = self._begin(row)
        try:
            self._answer(process)
            assert process.stdin is not None
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            return self._answer(process)
        finally:
            process.kill()
            process.communicate()

    def cold(self, row: Row, text: str) -> float:
        """Seconds from a process's start to the first vector. Raises RowFailed."""
        start = time.perf_counter()
        process = self._begin(row, first=text)
        try:
            self._answer(process)
            return time.perf_counter() - start
        finally:
            process.kill()
            process.communicate()

    def _begin(self, row: Row, **more: Any) -> subprocess.Popen[str]:
        python, reason = (Path(sys.executable), "") if row.environment == HERE else self._interpreter(row.environment)
        if python is None:
            raise RowFailed(f"its environment is not there: {reason}")
        told = {**self._told, "tool": row.tool, "options": dict(row.options), **more}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
        environment["PYTHONDONTWRITEBYTECODE"] = ""  # what is installed is compiled once, and so is what stands in src/
        if row.environment == HERE:
            environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            [str(python), "-m", "benchmarks.embed_worker", json.dumps(told)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RowFailed(f"its process ended with code {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise RowFailed(answer["failed"])
        return answer

    def _fail(self, row: Row, reason: str) -> None:
        say(f"{row.name}: left out: {reason}")
        self.failed[row.name] = reason
        process = self._running.pop(row.name, None)
        if process is not None:
            process.kill()
            process.communicate()
