"""Documents become shards: cut into tasks, tokenised elsewhere, put together in order, written, noted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.documents import Document
from anaume.data.corpus.shards import SPLITS, Split, write_shard
from anaume.data.corpus.tokenise import Tokenised
from anaume.data.corpus.workers import Workers
from anaume.data.corpus.workspace import Workspace
from anaume.logs import get_logger

log = get_logger(__name__)

SHARD_CHARACTERS = 1 << 24
"""A shard is closed by the document that fills it; about four million tokens of English."""

_TASK_CHARACTERS = 1 << 19


class Keeper(Protocol):
    """Who keeps the journal of a run and is told how far it is."""

    workspace: Workspace
    tell: Callable[[str, int, int | None], None]
    kept: int
    """Shards that an earlier, stopped run had finished."""

    def note(self, entry: dict[str, Any]) -> None:
        """Write an entry into the journal."""
        ...


class ShardMaker:
    """Cuts the stream of documents into tasks, and what comes back into shards."""

    def __init__(self, keeper: Keeper, pool: Workers, characters: int) -> None:
        self.keeper = keeper
        self.folder = keeper.workspace.folder
        self.pool = pool
        self.characters = characters
        self.finished = {entry["file"]: entry for entry in keeper.workspace.journal if "file" in entry}
        self.waiting: deque[tuple[_Filling, Future[Tokenised], bool]] = deque()
        self.made: list[dict[str, Any]] = []

    def make(self, documents: Iterator[tuple[Split, Document]]) -> list[dict[str, Any]]:
        """Return the entries of all shards, in the order of their names, train first."""
        filling = {split: self._next(split, 0) for split in SPLITS}
        seen = 0
        for split, document in documents:
            shard = filling[split]
            size = len(document.text)
            seen += size
            shard.size += size
            if not shard.done:
                shard.task.append(document)
                shard.task_size += size
            full = shard.size >= SHARD_CHARACTERS
            if shard.task and (full or shard.task_size >= _TASK_CHARACTERS):
                self._submit(shard, last=full)
                self.keeper.tell("tokenising", seen, self.characters)
            if full:
                filling[split] = self._next(split, shard.number + 1)
        for shard in filling.values():
            if shard.task or shard.begun:
                self._submit(shard, last=True)
        while self.waiting:
            self._collect()
        self.keeper.tell("tokenising", self.characters, self.characters)
        return sorted(self.made, key=lambda entry: (SPLITS.index(entry["split"]), entry["file"]))

    def _next(self, split: Split, number: int) -> _Filling:
        name = f"{split}-{number:05d}.arrow"
        entry = self.finished.get(name)
        if entry is not None and entry["documents"]:
            path = self.folder / name
            size = path.stat().st_size if path.is_file() else None
            if size != entry["bytes"]:
                entry = None  # the journal is ahead of the file only when somebody removed it
        if entry is not None:
            self.keeper.kept += 1
            if entry["documents"]:
                self.made.append(entry)
        return _Filling(split, number, name, done=entry is not None)

    def _submit(self, shard: _Filling, *, last: bool) -> None:
        while len(self.waiting) > 2 * (self.pool.count or 1):
            self._collect()
        self.waiting.append((shard, self.pool.submit(shard.task), last))
        shard.task, shard.task_size, shard.begun = [], 0, True

    def _collect(self) -> None:
        shard, future, last = self.waiting.popleft()
        shard.parts.append(future.result())
        if last:
            entry = shard.write(self.folder)
            self.keeper.note(entry)
            if entry["documents"]:
                self.made.append(entry)
            log.debug("%s: %d tokens", entry["file"], entry["tokens"])


class _Filling:
    """A shard on its way."""

    def __init__(self, split: Split, number: int, name: str, *, done: bool) -> None:
        self.split = split
        self.number = number
        self.name = name
        self.done = done  # an earlier run wrote it: its documents are only counted
        self.begun = False
        self.size = 0
        self.task: list[Document] = []
        self.task_size = 0
        self.parts: list[Tokenised] = []

    def write(self, folder: Path) -> dict[str, Any]:
        parts, self.parts = self.parts, []
        token_ids = np.concatenate([part.token_ids for part in parts])
        word_starts = np.concatenate([part.word_starts for part in parts])
        sentences = _starts([part.sentence_lengths for part in parts])
        documents = _starts([part.document_lengths for part in parts])
        size, digest = 0, ""
        if len(token_ids):
            size, digest = write_shard(folder / self.name, token_ids, word_starts, sentences, documents)
        return {
            "file": self.name,
            "split": self.split,
            "documents": len(documents) - 1,
            "sentences": len(sentences) - 1,
            "tokens": len(token_ids),
            "characters": sum(part.characters for part in parts),
            "bytes": size,
            "sha256": digest,
            "unknown": sum(part.unknown for part in parts),
            "cuts": sum(part.cuts for part in parts),
            "empty": sum(part.empty for part in parts),
            "single": int(np.count_nonzero(np.diff(documents) == 1)),
        }


def _starts(lengths: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths), dtype=np.int64)])
