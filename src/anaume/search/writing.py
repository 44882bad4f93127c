"""Documents -> passages -> vectors -> commits of whole documents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np

from anaume.bundle import Bundle, EmbedTotals
from anaume.errors import AnaumeError, AnaumeWarning, BundleError, DataError
from anaume.logs import get_logger
from anaume.search.documents import Document, Survey
from anaume.search.passages import cut_documents
from anaume.search.quality import VectorSample
from anaume.search.record import IndexRecord
from anaume.search.store import said
from anaume.search.table import Passages, digests, grow, kinds_of, replace, rows_of
from anaume.search.vectors import kept

log = get_logger(__name__)


class Embed(Protocol):
    """What makes passages and their vectors of documents."""

    def __call__(self, documents: list[Document], /) -> list[Passages]:
        """Return the passages of each document."""
        ...

    def messages(self) -> list[str]:
        """Return what the user must be told of all of them."""
        ...


COMMIT = 1024
"""Documents written in one commit: what a kill loses is the work on one commit."""
_COMMIT_CHARACTERS = 1 << 22  # of long documents fewer
_LOOKUP = 4096


@dataclass(kw_only=True)
class Added:
    """What a call did to an index."""

    documents: int = 0
    """Documents written."""
    passages: int = 0
    """Passages written."""
    replaced: int = 0
    """How many of them took the place of others of their id."""
    there: int = 0
    """Documents that were there already, unchanged."""
    blank: int = 0
    """Documents without text, left out."""
    messages: tuple[str, ...] = ()
    """What was warned about, in words."""
    totals: EmbedTotals = field(default_factory=EmbedTotals)
    sample: VectorSample = field(default_factory=VectorSample)
    """Some of the vectors, as they were before they were stored."""


def survey_documents(
    documents: Iterable[Document], survey: Survey, table: Any, where: str, *, replacing: bool = False
) -> None:
    """Look through documents before any is written.

    Raises DataError for an id given twice, or, unless `replacing`, one that is in the table with other content.
    """
    if replacing:
        for _ in _surveyed(documents, survey):
            pass
        return
    for chunk in _chunks(_surveyed(documents, survey), _LOOKUP):
        there = digests(table, [document.id for document in chunk], where)
        for document in chunk:
            if there.get(document.id, document.digest) != document.digest:
                raise DataError(
                    f"{document.place}: the id {document.id!r} is in {where} already, with other content; "
                    "`index update` replaces documents"
                )


def add_documents(
    documents: Iterable[Document],
    survey: Survey,
    table: Any,
    record: IndexRecord,
    bundle: Bundle,
    where: str,
    *,
    replacing: bool = False,
    embed: Embed | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Added:
    """Write documents that `survey` has seen; those that are there are passed over.

    replacing  write those that are there with other content, too, in place of it
    embed      what makes passages and vectors of documents; None = the bundle

    When something is refused, the table is put back to what it was. After an interruption it holds what was committed,
    and the same call goes on from there.
    """
    for name, kind in kinds_of(table).items():
        if kind == "string" and name in survey.kinds:
            survey.take(name, kind)
    grow(table, survey.kinds, where)
    added, before = Added(blank=survey.blank), table.version
    with said(where):
        new_table = table.count_rows() == 0
    try:
        for chunk in _commits(document for document in documents if document.text.strip()):
            # The survey has seen to it that no id comes twice: what this call writes need not be looked for.
            there = {} if new_table else digests(table, [document.id for document in chunk], where)
            new = [
                document
                for document in chunk
                if document.id not in there or (replacing and there[document.id] != document.digest)
            ]
            if new:
                written = embed_documents(new, bundle, record, added.totals) if embed is None else embed(new)
                added.sample.take(written)
                rows = rows_of(written, record, table.schema)
                if old := [document.id for document in new if document.id in there]:
                    replace(table, rows, old, where)
                else:
                    with said(where):
                        table.add(rows)
                added.passages += rows.num_rows
                added.replaced += len(old)
            added.documents += len(new)
            added.there += len(chunk) - len(new)
            advance(len(chunk))
            log.debug("%d documents written", added.documents)
    except AnaumeError:
        if table.version != before:
            with said(where):
                table.restore(before)
        raise
    told = added.totals.messages(bundle.embedding) if embed is None else embed.messages()
    messages = [*survey.messages(), *told]
    added.messages = tuple(messages)
    if messages:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=3)
    return added


def embed_documents(
    documents: list[Document], bundle: Bundle, record: IndexRecord, totals: EmbedTotals
) -> list[Passages]:
    """Cut documents into passages and embed these. Raises BundleError naming a document that gets no numbers."""
    spans = cut_documents([one.text for one in documents], bundle.tokenizer, record.room(bundle), record.overlap)
    texts = [document.text[start:end] for document, parts in zip(documents, spans, strict=True) for start, end in parts]
    stream = bundle.embed_stream([texts], as_=record.passage_prompt or None, fingerprint=record.fingerprint)
    report = next(stream)
    totals.add(report)
    owners = [document for document, parts in zip(documents, spans, strict=True) for _ in parts]
    finite = np.isfinite(report.vectors).all(axis=1)
    if not finite.all():
        broken = owners[int(finite.argmin())]
        raise BundleError(
            f"{broken.place}: the model gives document {broken.id!r} a vector that is not finite: its weights are "
            "damaged or overflow; nothing was added"
        )
    vectors, written, at = kept(report.vectors, record), [], 0
    for document, parts in zip(documents, spans, strict=True):
        rows = slice(at, at + len(parts))
        written.append(Passages(document=document, spans=parts, vectors=vectors[rows], coverage=report.coverage[rows]))
        at += len(parts)
    return written


def _surveyed(documents: Iterable[Document], survey: Survey) -> Iterator[Document]:
    for document in documents:
        survey.seen(document)
        yield document


def _chunks(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    rest = iter(documents)
    while chunk := list(islice(rest, size)):
        yield chunk


def _commits(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    characters = 0
    for document in documents:
        chunk.append(document)
        characters += len(document.text)
        if len(chunk) >= COMMIT or characters >= _COMMIT_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
