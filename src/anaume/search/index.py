"""Index: passages, their metadata and their vectors in one table that remembers which model made them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anaume.bundle import Bundle, EmbedTotals
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.search.current import settle_index, start_index
from anaume.search.documents import Survey, given_documents
from anaume.search.finding import POOL, Ranker, Searched, by_vector, find
from anaume.search.hits import Hit
from anaume.search.record import IndexRecord, Storage
from anaume.search.seal import Seal, refuse_other
from anaume.search.stats import IndexStats, index_stats
from anaume.search.store import PASSAGES, Store, said
from anaume.search.table import among, digests, record_of
from anaume.search.writing import Added, add_documents, survey_documents


class Index:
    """An index on disk, or in a bucket, with the bundle it is searched by.

    Make one with `Index.create`, open one with `anaume.open_index`. Every call looks which model made what is there
    now, and refuses another one (BundleError).
    """

    def __init__(self, store: Store, bundle: Bundle) -> None:
        self.store = store
        self.bundle = bundle
        self._seal = Seal(bundle)
        self._opened: tuple[str, Any] | None = None
        self._mixed_told = False
        self._probes = 0

    @classmethod
    def create(
        cls,
        path: str | Path,
        bundle: Bundle,
        *,
        storage: Storage = "float32",
        rescore: bool = False,
        passage_length: int | None = None,
        overlap: int | None = None,
        overwrite: bool = False,
    ) -> Self:
        """Make an empty index.

        path            a folder, or a bucket as LanceDB names it ("s3://bucket/path"; keys come from the environment)
        storage         "float32"; or "int8", "binary": codes a quarter and a 32nd of the size
        rescore         keep float32 vectors beside the codes, to score the best again
        passage_length  longer documents are cut into passages of at most so many tokens, special tokens and prompt
                        included; None = 256, or the bundle's max_length where that is less
        overlap         at most so many tokens of a passage are those of the one before; None = a quarter

        Raises SettingsError for wrong settings or an index that is there (unless overwrite), DataError for a place that
        can't be written.
        """
        fingerprint = bundle.fingerprint
        record = IndexRecord.of(
            bundle, fingerprint, storage=storage, rescore=rescore, passage_length=passage_length, overlap=overlap
        )
        store = Store(path)
        if not overwrite and store.exists():
            raise SettingsError(f"{path}: an index is there; open it, or give overwrite=True (--overwrite)")
        with store.writing():
            start_index(store, record)
        return cls(store, bundle)

    # -- what is there -------------------------------------------------------------------------------------------

    @property
    def record(self) -> IndexRecord:
        """What the index remembers of its model and settings."""
        return record_of(self.table(), self.store.path)

    def stats(self) -> IndexStats:
        """Return what the index holds."""
        table, record = self.checked()
        return index_stats(self.store, table, record, self._probes)

    def __len__(self) -> int:
        """Return the number of passages."""
        return int(self.table().count_rows())

    def table(self) -> Any:
        """Return the table that is the index now, at its latest version."""
        current = self.store.current()
        if current is None:
            raise DataError(f"{self.store.path}: no index is there any more")
        self._probes = current.probes
        if self._opened is None or self._opened[0] != current.table:
            self._opened = (current.table, self.store.table(current.table))
        table = self._opened[1]
        table.checkout_latest()
        return table

    def checked(self) -> tuple[Any, IndexRecord]:
        """Return the table and its record. Raises BundleError when another model made it."""
        table = self.table()
        record = record_of(table, self.store.path)
        refuse_other(record, self._seal.fingerprint(), self.bundle, self.store.path)
        if self.bundle.precision != record.precision and not self._mixed_told:
            self._mixed_told = True
            warnings.warn(
                f"{self.store.path} holds {record.precision} vectors and meets {self.bundle.precision} ones: near "
                "enough, not equal",
                AnaumeWarning,
                stacklevel=3,
            )
        return table, record

    # -- changing it ---------------------------------------------------------------------------------------------

    def add(self, rows: Iterable[Mapping[str, object]]) -> Added:
        """Add documents: mappings with "id", "text" and any other fields.

        A document that is there already, unchanged, is left as it is and counted; one that differs is refused (see
        `update`). All or nothing: when a row or a vector is refused, the index is as it was.
        Raises DataError naming the row, BundleError for another model or one that gives no numbers.
        """
        return self._write(rows, replacing=False)

    def update(self, rows: Iterable[Mapping[str, object]]) -> Added:
        """Put documents in the place of those of their ids; those of new ids are added. Arguments as in `add`.

        A document and all its passages change in one commit: whoever searches finds the old ones or the new ones.
        """
        return self._write(rows, replacing=True)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Remove documents; return how many. What is deleted is on the disk until `compact`.

        Raises DataError, and removes none, when an id is not there.
        """
        if isinstance(ids, str | bytes):
            raise SettingsError("ids must be a list; got one text: put it into a list")
        wanted = list(dict.fromkeys(str(one) for one in ids))
        with self.store.writing():
            table, _ = self.checked()
            there = digests(table, wanted, self.store.path)
            if missing := [one for one in wanted if one not in there]:
                more = f", nor are {len(missing) - 1} others" if len(missing) > 1 else ""
                raise DataError(f"{self.store.path}: document {missing[0]!r} is not there{more}; nothing was deleted")
            if wanted:
                with said(self.store.path):
                    table.delete(among(wanted))
        return len(wanted)

    def compact(self) -> IndexStats:
        """Forget what was deleted and replaced, and older versions; put together what is scattered."""
        with self.store.writing():
            table, record = self.checked()
            settle_index(self.store, table, record, compact=True)
            for name in self.store.names():
                if name.startswith(PASSAGES) and self._opened is not None and name != self._opened[0]:
                    self.store.drop(name)
        return self.stats()

    def _write(self, rows: Iterable[Mapping[str, object]], *, replacing: bool) -> Added:
        documents, survey, path = given_documents(rows), Survey(), self.store.path
        with self.store.writing():
            table, record = self.checked()
            survey_documents(documents, survey, table, path, replacing=replacing)
            added = add_documents(documents, survey, table, record, self.bundle, path, replacing=replacing)
            settle_index(self.store, table, record)
        return added

    # -- searching it --------------------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        where: str | None = None,
        hybrid: bool = False,
        rerank: Ranker | None = None,
    ) -> list[Hit]:
        """Return the passages that answer a query, best first.

        top_k   how many at most
        where   a condition on metadata in SQL, "lang = 'ja' AND year >= 2020"; odd names in backticks
        hybrid  look for the query's words, too (BM25), and put both rankings together by their reciprocal ranks
        rerank  a bundle of `ranking` or `late-interaction` (or what else has its `rank`): it orders the best 100

        Raises SettingsError for wrong arguments, BundleError when the index holds vectors of another model.
        """
        return self.search_all([query], top_k=top_k, where=where, hybrid=hybrid, rerank=rerank)[0]

    def search_all(
        self,
        queries: Sequence[str],
        *,
        top_k: int = 10,
        where: str | None = None,
        hybrid: bool = False,
        rerank: Ranker | None = None,
    ) -> list[list[Hit]]:
        """Return what `search` finds, for each of many queries; [] for none."""
        searched = self._searched()
        if isinstance(queries, str):
            raise SettingsError("queries must be a list of texts; got one text: put it into a list, or use search")
        top_k = _checked_top_k(top_k, searched)
        for number, query in enumerate(queries, 1):
            if isinstance(query, str) and not query.strip():
                which = f"query {number} of {len(queries)}" if len(queries) > 1 else "the query"
                raise SettingsError(f"{which} is empty; give it some words")
        vectors = self._embedded(queries, searched.record)
        found = []
        for query, vector in zip(queries, vectors, strict=True):
            try:
                hits = find(searched, query, vector, top_k=top_k, where=where, hybrid=hybrid, ranker=rerank)
            except DataError:
                # Its version may have been compacted away meanwhile: then the latest answers.
                version, searched = searched.table.version, self._searched()
                if searched.table.version == version:
                    raise
                hits = find(searched, query, vector, top_k=top_k, where=where, hybrid=hybrid, ranker=rerank)
            found.append(hits)
        return found

    def _embedded(self, queries: Sequence[str], record: IndexRecord) -> NDArray[np.float32]:
        """Return the vectors of queries, (n, embedding_size), and warn of what the model did not see."""
        stream = self.bundle.embed_stream([queries], as_=record.query_prompt or None, fingerprint=record.fingerprint)
        report, totals = next(stream), EmbedTotals()
        totals.add(report)
        told = list(dataclasses.replace(totals, cut=0).messages(self.bundle.embedding))
        if totals.cut:
            told.append(
                f"{totals.cut} of {totals.texts} queries were longer than {self.bundle.embedding.max_length} tokens, "
                f"and the model saw {totals.seen_of_cut / totals.cut:.0%} of them: ask in fewer words"
            )
        if told:
            warnings.warn("; ".join(told), AnaumeWarning, stacklevel=4)
        return report.vectors

    def search_vector(
        self, vector: NDArray[np.float32], *, fingerprint: str, top_k: int = 10, where: str | None = None
    ) -> list[Hit]:
        """Return the passages nearest to a vector (embedding_size,) that was made elsewhere.

        fingerprint  of what made it, as its report or file says

        Raises BundleError for another fingerprint, DataError for another size or numbers that are not finite.
        """
        searched = self._searched()
        top_k = _checked_top_k(top_k, searched)
        if fingerprint != searched.record.fingerprint:
            raise BundleError(
                f"{self.store.path} holds vectors with fingerprint {searched.record.fingerprint}, the query's is "
                f"{fingerprint}; embed the query with the index's bundle"
            )
        return by_vector(searched, np.asarray(vector), top_k, where)

    def _searched(self) -> Searched:
        table, record = self.checked()
        return Searched(table=table, record=record, path=self.store.path, probes=self._probes)


def _checked_top_k(top_k: int, searched: Searched) -> int:
    """Return how many passages can be found at most, a number that LanceDB takes."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or top_k < 1:
        raise SettingsError(f"top_k must be a whole number from 1; got {top_k!r}")
    return top_k if top_k <= POOL else min(top_k, max(POOL, searched.table.count_rows()))
