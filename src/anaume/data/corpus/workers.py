"""Processes that tokenise documents, one a core, for work that Python's one lock would hold back.

They are plain child processes that read tasks from stdin and answer on stdout. That needs no `if __name__ ==
"__main__"` in a user's script, works from a notebook, and ends by itself when the parent is killed: the pipe closes.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, cast

from anaume.data.corpus.documents import Document
from anaume.data.corpus.tokenise import DocumentEncoder, Tokenised
from anaume.errors import AnaumeError
from anaume.tokenization import Tokenizer


class Workers:
    """Tokenises runs of documents in `count` processes, or with 0 in this one.

    submit() gives a future; the caller bounds how many it holds. In this process two threads take turns: while Rust
    encodes for one, with all cores and without Python's lock, the other finds sentences.
    """

    def __init__(self, tokenizer: Tokenizer, language: str | None, count: int) -> None:
        self.count = count
        self._here = DocumentEncoder(tokenizer, language) if count == 0 else None
        self._all = [_start() for _ in range(count)]
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(max_workers=count or 2, thread_name_prefix="anaume-tokenise")
        for process in self._all:
            _send(process, (tokenizer, language))
            self._idle.put(process)

    def submit(self, documents: Sequence[Document]) -> Future[Tokenised]:
        """Tokenise documents, in order."""
        return self._threads.submit(self._here or self._ask, documents)

    def _ask(self, documents: Sequence[Document]) -> Tokenised:
        process = self._idle.get()
        try:
            _send(process, documents)
            assert process.stdout is not None
            answer = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            code = process.wait()
            how = f"by signal {-code}" if code < 0 else f"with code {code}"
            memory = "; was there too little memory? fewer workers need less" if code == -signal.SIGKILL else ""
            raise AnaumeError(f"a tokenising process was ended {how}{memory}; the same call goes on") from None
        finally:
            self._idle.put(process)
        if isinstance(answer, BaseException):
            raise answer
        return cast(Tokenised, answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            for process in self._all:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._all:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(OSError):  # it was ended before it had read everything
                process.stdin.close()
            process.wait()
            process.stdout.close()


def usable_cores() -> int:
    """Return the cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve() -> None:
    """Be a worker: the first message is (tokenizer, language), each further one a run of documents."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints goes to stderr
    try:
        encoder = DocumentEncoder(*pickle.load(source))
        while True:
            documents = pickle.load(source)
            answer: Any
            try:
                answer = encoder(documents)
            except Exception as error:
                answer = error
            pickle.dump(answer, target, protocol=5)
            target.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent is done, or gone


def _start() -> subprocess.Popen[bytes]:
    # What this process can import, the child can; and Rust's own threads would only fight over the cores.
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "false"}
    code = "from anaume.data.corpus.workers import serve; serve()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def _send(process: subprocess.Popen[bytes], message: object) -> None:
    assert process.stdin is not None
    pickle.dump(message, process.stdin, protocol=5)
    process.stdin.flush()
