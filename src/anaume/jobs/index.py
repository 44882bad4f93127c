"""Build an index out of whole files, add to it, replace, and move it to another model; go on where a run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.data import STDIN, read_rows
from anaume.errors import DataError, SettingsError
from anaume.jobs.index_vectors import StoredPassages
from anaume.jobs.progress import progress_bar
from anaume.jobs.sources import scan_sources
from anaume.search.current import settle_index, start_index
from anaume.search.documents import Document, Survey, read_documents
from anaume.search.index import Index
from anaume.search.migrating import migrate_index
from anaume.search.quality import CodesRecall, measure_codes
from anaume.search.record import IndexRecord, Storage
from anaume.search.store import Current, Store
from anaume.search.table import record_of
from anaume.search.writing import Added, add_documents, survey_documents

Documents = Callable[[], Iterator[Document]]
Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, kw_only=True)
class IndexSummary:
    """What a run did to an index."""

    out: str
    finished_before: bool
    """True: it was there as this run would make it, and nothing was done."""
    documents: int
    """Documents written by this run."""
    replaced: int
    """How many of them took the place of others of their id."""
    there: int
    """Documents that were there already, unchanged."""
    blank: int
    """Documents without text, left out."""
    passages: int
    """Passages in the index now."""
    embedding_size: int
    fingerprint: str
    bundle: str
    storage: str
    codes_recall: CodesRecall | None
    """What int8 and binary codes lose; None where vectors are float32, or a run saw too few."""
    seconds: float
    """Loading the bundle apart."""
    messages: tuple[str, ...]
    """What was warned about, in words."""


def build_index(
    bundle: Bundle,
    paths: Paths,
    out: str | Path,
    *,
    id_column: str | None = None,
    vectors: bool = False,
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
    vectors    the files are what `anaume embed` wrote with this very bundle: their vectors are taken as they are
    overwrite  replace an index that is there. Without it, one begun from the same sources with the same settings is
               finished (`finished_before` when it was), any other is refused, naming what differs
    reading    column, format, encoding, errors, quoting, header: as in `read_rows`

    The others are those of `Index.create`. All rows are looked through before the first is embedded. Warns at most
    once. Raises SettingsError for wrong arguments, DataError naming file and row, BundleError for the bundle.
    """
    started, given = time.perf_counter(), _several(paths)
    length = bundle.embedding.max_length if vectors and passage_length is None else passage_length
    record = IndexRecord.of(
        bundle, bundle.fingerprint, storage=storage, rescore=rescore, passage_length=length, overlap=overlap
    )
    documents, stored = _documents(bundle, record, given, id_column, vectors, reading)
    store = Store(out)
    store.check_place()
    sources = scan_sources(given)
    # Looked through before the folder is made: what is refused leaves none behind.
    looked_through = _looked_through(documents()) if overwrite or not store.exists() else None
    with store.writing():
        before = None if overwrite else store.current()
        added, finished = Added(), False
        if before is not None:
            table = store.table(before.table)
            finished = _finished_before(before, record_of(table, store.path), record, sources.fingerprint, store.path)
        if not finished:
            if before is None:
                survey = looked_through or _looked_through(documents())
                table = start_index(store, record, sources=sources.fingerprint, building=True)
            else:
                survey = Survey()
                survey_documents(documents(), survey, table, store.path)
            with progress_bar("indexing", survey.documents, show=progress) as advance:
                added = add_documents(
                    documents(), survey, table, record, bundle, store.path, embed=stored, advance=advance
                )
            settle_index(store, table, record, building=False)
    return _summary(Index(store, bundle), added, started, finished_before=finished)


def add_to_index(
    index: Index,
    paths: Paths,
    *,
    id_column: str | None = None,
    vectors: bool = False,
    replacing: bool = False,
    progress: bool = False,
    **reading: Any,
) -> IndexSummary:
    """Add the documents of files to an index, or, `replacing`, put them in the place of those of their ids.

    Documents that are there already, unchanged, are passed over: broken off, the same call goes on where it stopped.
    The other arguments are those of `build_index`; raises as `Index.add` does, naming file and row.
    """
    started, given, store = time.perf_counter(), _several(paths), index.store
    with store.writing():
        table, record = index.checked()
        documents, stored = _documents(index.bundle, record, given, id_column, vectors, reading)
        survey = Survey()
        survey_documents(documents(), survey, table, store.path, replacing=replacing)
        with progress_bar("indexing", survey.documents, show=progress) as advance:
            added = add_documents(
                documents(),
                survey,
                table,
                record,
                index.bundle,
                store.path,
                replacing=replacing,
                embed=stored,
                advance=advance,
            )
        settle_index(store, table, record)
    return _summary(index, added, started)


def migrate(
    path: str | Path,
    bundle: Bundle,
    *,
    passage_length: int | None = None,
    overlap: int | None = None,
    progress: bool = False,
) -> IndexSummary:
    """Embed every document of an index again, by another bundle; arguments and errors as in `migrate_index`."""
    started = time.perf_counter()
    with progress_bar("migrating", None, show=progress) as advance:
        done = migrate_index(path, bundle, passage_length=passage_length, overlap=overlap, advance=advance)
    return _summary(Index(Store(path), bundle), done.added, started, finished_before=done.finished_before)


def _several(paths: Paths) -> list[str | Path]:
    given: list[str | Path] = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SettingsError("expected at least one file to index; none came")
    return given


def _documents(
    bundle: Bundle,
    record: IndexRecord,
    paths: Sequence[str | Path],
    id_column: str | None,
    vectors: bool,
    reading: dict[str, Any],
) -> tuple[Documents, StoredPassages | None]:
    """Return what reads the documents of files, as often as it is called; and their vectors, where they have them."""
    if vectors:
        stored = StoredPassages(
            bundle=bundle, record=record, paths=paths, id_column=id_column, column=reading.get("column")
        )
        return stored.documents, stored
    if STDIN in map(str, paths):
        held = list(read_documents(read_rows(paths, **reading), id_column=id_column))
        return lambda: iter(held), None
    return lambda: read_documents(read_rows(paths, **reading), id_column=id_column), None


def _looked_through(documents: Iterator[Document]) -> Survey:
    """Return what documents have in common. Raises DataError for one that can't be indexed."""
    survey = Survey()
    for document in documents:
        survey.seen(document)
    return survey


def _summary(index: Index, added: Added, started: float, *, finished_before: bool = False) -> IndexSummary:
    """Return what a run did, and what the index holds after it."""
    record = index.record
    return IndexSummary(
        out=index.store.path,
        finished_before=finished_before,
        documents=added.documents,
        replaced=added.replaced,
        there=added.there,
        blank=added.blank,
        passages=len(index),
        embedding_size=record.embedding_size,
        fingerprint=record.fingerprint,
        bundle=record.bundle,
        storage=record.storage,
        codes_recall=measure_codes(added.sample, record),
        seconds=time.perf_counter() - started,
        messages=added.messages,
    )


def _finished_before(current: Current, was: IndexRecord, record: IndexRecord, sources: str, out: str) -> bool:
    """Whether the index is there as this run would make it; raise DataError when it was begun otherwise."""
    other = was.fingerprint != record.fingerprint
    advice = f"`index {'migrate` embeds it again' if other else 'add` adds to it'}, --overwrite replaces it"
    changes = was.changes(record)
    if not changes and not (sources and current.sources):
        raise DataError(f"{out} exists, and whether stdin holds what it was built from can't be told; {advice}")
    if current.sources != sources:
        changes.append("the files it was built from have other content now")
    if changes:
        raise DataError(f"{out} exists and was built otherwise: {'; '.join(changes)}; {advice}")
    return not current.building
