"""Build an index out of whole files, and go on where an earlier run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.data import STDIN, read_rows
from anaume.errors import DataError, SettingsError
from anaume.jobs.progress import progress_bar
from anaume.jobs.sources import scan_sources
from anaume.search.documents import Document, Survey, read_documents
from anaume.search.index import Index, start_table
from anaume.search.record import IndexRecord, Storage
from anaume.search.store import PASSAGES, Current, Store
from anaume.search.table import record_of
from anaume.search.writing import Added, add_documents, survey_documents

Documents = Callable[[], Iterator[Document]]


@dataclass(frozen=True, kw_only=True)
class IndexSummary:
    """What a run did to an index."""

    out: str
    finished_before: bool
    """True: the index was there, built from the same sources with the same settings, and nothing was done."""
    documents: int
    """Documents written by this run."""
    there: int
    """Documents that were there already."""
    blank: int
    """Documents without text, left out."""
    passages: int
    """Passages in the index now."""
    embedding_size: int
    fingerprint: str
    bundle: str
    seconds: float
    """Loading the bundle apart."""
    messages: tuple[str, ...]
    """What was warned about, in words."""


def build_index(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    id_column: str | None = None,
    storage: Storage = "float32",
    rescore: bool = False,
    passage_length: int | None = None,
    overlap: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **reading: Any,
) -> IndexSummary:
    """Build an index from files: every row a document, with its id, its text and whatever else it has.

    paths      txt, csv, tsv, jsonl or parquet; "-" is stdin, which is then held in memory
    out        a folder, or a bucket ("s3://bucket/path")
    id_column  the column of the ids; None = "id", and where there is none, "file name:row number"
    overwrite  replace an index that is there. Without it, one begun from the same sources with the same settings is
               finished (`finished_before` when it was), any other is refused, naming what differs
    reading    column, format, encoding, errors, quoting, header: as in `read_rows`

    The others are those of `Index.create`. All rows are looked through before the first is embedded. Warns at most
    once. Raises SettingsError for wrong arguments, DataError naming file and row, BundleError for the bundle.
    """
    started = time.perf_counter()
    given: list[str | Path] = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SettingsError("expected at least one file to index; none came")
    documents = documents_of(given, id_column, reading)
    fingerprint = bundle.fingerprint
    record = IndexRecord.of(
        bundle, fingerprint, storage=storage, rescore=rescore, passage_length=passage_length, overlap=overlap
    )
    store, sources = Store(out), scan_sources(given)
    with store.writing():
        before = store.current()
        added, finished = Added(), False
        if before is not None and not overwrite:
            table = store.table(before.table)
            finished = _finished_before(before, record_of(table, str(out)), record, sources.fingerprint, out)
        if not finished:
            survey = Survey()
            if before is None or overwrite:
                number = 1 if before is None else before.number + 1
                for document in documents():
                    survey.seen(document)
                current = Current(table=f"{PASSAGES}{number}", sources=sources.fingerprint, building=True)
                table = start_table(store, record, current)
                if before is not None:
                    store.drop(before.table)
            else:
                current = before
                survey_documents(documents(), survey, table, str(out))
            with progress_bar("indexing", survey.documents, show=progress) as advance:
                added = add_documents(documents(), survey, table, record, bundle, str(out), advance=advance)
            store.point(Current(table=current.table, sources=current.sources))
    index = Index(store, bundle)
    return summary_of(index, added, started, finished_before=finished)


def documents_of(paths: Sequence[str | Path], id_column: str | None, reading: dict[str, Any]) -> Documents:
    """Return what reads the documents of files, as often as it is called."""
    if STDIN in map(str, paths):
        held = list(read_documents(read_rows(paths, **reading), id_column=id_column))
        return lambda: iter(held)
    return lambda: read_documents(read_rows(paths, **reading), id_column=id_column)


def summary_of(index: Index, added: Added, started: float, *, finished_before: bool = False) -> IndexSummary:
    """Return what a run did, and what the index holds after it."""
    record = index.record
    return IndexSummary(
        out=index.store.path,
        finished_before=finished_before,
        documents=added.documents,
        there=added.there,
        blank=added.blank,
        passages=len(index),
        embedding_size=record.embedding_size,
        fingerprint=record.fingerprint,
        bundle=record.bundle,
        seconds=time.perf_counter() - started,
        messages=added.messages,
    )


def _finished_before(current: Current, was: IndexRecord, record: IndexRecord, sources: str, out: str | Path) -> bool:
    """Whether the index is there as this run would make it; raise DataError when it was begun otherwise."""
    changes = was.changes(record)
    if not changes and not (sources and current.sources):
        raise DataError(
            f"{out} exists, and whether stdin holds what it was built from can't be told; `index add` adds to it, "
            "--overwrite replaces it"
        )
    if current.sources != sources:
        changes.append("the files it was built from have other content now")
    if changes:
        raise DataError(
            f"{out} exists and was built otherwise: {'; '.join(changes)}. `index add` adds to it, --overwrite "
            "replaces it"
        )
    return not current.building
