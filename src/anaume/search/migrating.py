"""An index made anew by another model, and put in the place of the old one in one commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.errors import DataError
from anaume.search.current import settle_index
from anaume.search.documents import Survey
from anaume.search.record import IndexRecord
from anaume.search.store import PASSAGES, Store, said
from anaume.search.table import among, kinds_of, record_of, schema_of, stored_documents
from anaume.search.writing import Added, add_documents


@dataclass(frozen=True, kw_only=True)
class Migrated:
    """What a migration did."""

    before: IndexRecord
    after: IndexRecord
    added: Added
    finished_before: bool
    """True: the index was made by this model already, and nothing was done."""


def migrate_index(
    path: str | Path,
    bundle: Bundle,
    *,
    passage_length: int | None = None,
    overlap: int | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Migrated:
    """Embed every document of an index again, by another bundle, and then search that.

    passage_length, overlap  how documents are cut for it; None = as for a new index of this bundle

    Until the end the old index is what is found; then, in one commit, the new one. Broken off, the same call goes on.
    The old one stays on the disk until `compact`. Raises DataError where there is no index, or another process writes.
    """
    store = Store(path)
    with store.writing():
        current = store.current()
        if current is None:
            raise DataError(f"{path}: no index is there; anaume index build makes one")
        old = store.table(current.table)
        before = record_of(old, store.path)
        after = IndexRecord.of(
            bundle,
            bundle.fingerprint,
            storage=before.storage,
            rescore=before.rescore,
            passage_length=passage_length,
            overlap=overlap,
        )
        if before == after:
            return Migrated(before=before, after=after, added=Added(), finished_before=True)
        name = f"{PASSAGES}{current.number + 1}"
        if name in store.names() and record_of(store.table(name), store.path) == after:
            table = store.table(name)
        else:
            table = store.create(name, schema_of(after, kinds_of(old)))
        survey = Survey(kinds=kinds_of(old))
        documents = stored_documents(old, store.path)
        # What an earlier run wrote may since have been changed in the old index: that is written again.
        added = add_documents(documents, survey, table, after, bundle, store.path, replacing=True, advance=advance)
        _forget(table, old, store.path)
        settle_index(store, table, after, table=name)
    return Migrated(before=before, after=after, added=added, finished_before=False)


def _forget(table: Any, old: Any, where: str) -> None:
    """Delete what an earlier run copied and the old index has no more."""
    with said(where):
        if table.count_rows("_passage = 0") == old.count_rows("_passage = 0"):
            return
        there, here = (
            set(one.search().where("_passage = 0").select(["id"]).to_arrow()["id"].to_pylist()) for one in (old, table)
        )
        if gone := sorted(here - there):
            table.delete(among(gone))
