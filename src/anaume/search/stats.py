"""What an index holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.errors import DataError
from anaume.search.record import IndexRecord
from anaume.search.store import Store, said
from anaume.search.table import kinds_of, record_of


@dataclass(frozen=True, kw_only=True)
class IndexStats:
    """What an index holds."""

    documents: int
    passages: int
    bundle: str
    """Where its model lies; "" for one that was never saved."""
    fingerprint: str
    """Of its vectors."""
    precision: str
    embedding_size: int
    storage: str
    rescore: bool
    passage_length: int
    """The longest passage in tokens."""
    overlap: int
    search: str
    """"exact", or how many parts of the vectors a search looks through."""
    fields: dict[str, str]
    """Metadata that conditions can name, and its type."""
    waiting: int
    """Passages that no index has yet: they are found all the same, a little slower, until `compact`."""
    bytes: int
    """On the disk, as far as the present version needs it."""
    versions: int
    """Versions that are kept for whoever is reading them; `compact` forgets all but the last."""
    building: bool
    """Whether a build has not come to its end."""


def read_stats(path: str | Path) -> IndexStats:
    """Return what an index holds without opening its bundle, which may be gone; raises DataError."""
    store = Store(path)
    current = store.current()
    if current is None:
        raise DataError(f"{path}: no index is there; anaume index build makes one")
    table = store.table(current.table)
    return index_stats(store, table, record_of(table, store.path), current.probes)


def index_stats(store: Store, table: Any, record: IndexRecord, probes: int) -> IndexStats:
    """Return what an index holds."""
    current = store.current()
    with said(store.path):
        documents = table.count_rows("_passage = 0")
        indices = list(table.list_indices())
        return IndexStats(
            documents=documents,
            passages=table.count_rows(),
            bundle=record.bundle,
            fingerprint=record.fingerprint,
            precision=record.precision,
            embedding_size=record.embedding_size,
            storage=record.storage,
            rescore=record.rescore,
            passage_length=record.passage_length,
            overlap=record.overlap,
            search=f"{probes} parts of the vectors" if probes else "exact",
            fields=kinds_of(table),
            waiting=max((index.num_unindexed_rows for index in indices), default=0),
            bytes=table.stats()["total_bytes"] + sum(index.size_bytes or 0 for index in indices),
            versions=len(table.list_versions()),
            building=current is not None and current.building,
        )
