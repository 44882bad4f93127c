"""Documents with the vectors that `anaume embed` made of them, a file in memory at a time."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from anaume.bundle import Bundle
from anaume.data import TEXT_COLUMNS, Row, join, read_about, read_vectors
from anaume.data.stored import StoredVectors
from anaume.errors import BundleError, DataError, nearest
from anaume.search.documents import Document, read_documents
from anaume.search.record import IndexRecord
from anaume.search.table import Passages
from anaume.search.vectors import kept


@dataclass(frozen=True, kw_only=True)
class EmbeddedDocument(Document):
    """A document whose vector is there."""

    vector: NDArray[np.float32]
    """(embedding_size,)"""


@dataclass(kw_only=True)
class StoredPassages:
    """Reads documents with their vectors, and makes passages of them: one a document, as it was embedded."""

    bundle: Bundle
    record: IndexRecord
    paths: Sequence[str | Path]
    id_column: str | None
    column: str | None
    """Of the text; None = as `read_rows` finds it."""
    seen: int = 0
    cut: int = 0
    _alike: bool = False

    def documents(self) -> Iterator[Document]:
        """Go through the documents of all files, in order.

        Raises DataError for files of different makers, without rows, or embedded under another prompt than the index's
        passages; BundleError when it was not this bundle that made them, both named.
        """
        if not self._alike:  # and not warned of twice: files are gone through twice
            _refuse_different(self.paths)
            self._alike = True
        vectors: deque[NDArray[np.float32]] = deque()

        def rows() -> Iterator[Row]:
            for path in self.paths:
                stored = read_vectors(path)
                self._refuse_other(stored)
                if stored.rows is None:
                    raise DataError(
                        f"{path}: a .npy file keeps no texts and no ids; embed to a .parquet or .jsonl file"
                    )
                for number, (fields, vector) in enumerate(zip(stored.rows, stored.vectors, strict=True), 1):
                    vectors.append(vector)
                    yield _row(fields, str(path), number, self.column)

        for document in read_documents(rows(), id_column=self.id_column):
            given: dict[str, Any] = {one.name: getattr(document, one.name) for one in dataclasses.fields(document)}
            yield EmbeddedDocument(**given, vector=vectors.popleft())

    def __call__(self, documents: list[Document]) -> list[Passages]:
        """Return each document as one passage; its coverage says how much of it the model had seen."""
        embedding = self.bundle.embedding
        prompt = embedding.prompts.get(self.record.passage_prompt or embedding.default_prompt or "", "")
        encodings = self.bundle.tokenizer.encode_batch(
            [prompt + one.text for one in documents], max_length=embedding.max_length
        )
        passages = [
            Passages(
                document=one,
                spans=[(0, len(one.text))],
                vectors=kept(cast(EmbeddedDocument, one).vector[None], self.record),
                coverage=np.array([encoding.coverage[0].share]),
            )
            for one, encoding in zip(documents, encodings, strict=True)
        ]
        self.seen += len(passages)
        self.cut += sum(float(one.coverage[0]) < 1.0 for one in passages)
        return passages

    def messages(self) -> list[str]:
        """Return what the user must be told."""
        if not self.cut:
            return []
        return [
            f"{self.cut} of {self.seen} documents were cut when they were embedded, and their ends can't be found: "
            "build the index from the texts, which cuts them into passages"
        ]

    def _refuse_other(self, stored: StoredVectors) -> None:
        """Raise for vectors that this bundle would not have made for this index."""
        bundle, record = self.bundle, self.record
        if stored.fingerprint not in (None, record.fingerprint):
            raise BundleError(
                f"{stored.source}: made by a model or settings of fingerprint {stored.fingerprint}, and "
                f"{bundle.parts.source or 'the bundle in memory'} makes vectors of fingerprint {record.fingerprint} "
                "(long texts cut, not averaged); embed the texts again"
            )
        if len(stored.vectors) and stored.vectors.shape[1] != record.embedding_size:
            raise DataError(
                f"{stored.source}: vectors of {stored.vectors.shape[1]} numbers under the fingerprint of a bundle that "
                f"makes {record.embedding_size}: the file was changed; embed the texts again"
            )
        default = bundle.embedding.default_prompt or ""
        used, needed = stored.metadata.get("as", default), record.passage_prompt or default
        if bundle.embedding.prompts and used != needed:
            raise DataError(f"{stored.source}: embedded as {used or 'nothing'!r}; passages are embedded as {needed!r}")


def _refuse_different(paths: Sequence[str | Path]) -> None:
    """Look at what made each file, before any is read; raise and warn as `join` does."""
    alike: StoredVectors | None = None
    for path in paths:
        fingerprint, metadata = read_about(path)
        nothing = np.empty((0, 0), np.float32)
        one = StoredVectors(source=str(path), vectors=nothing, fingerprint=fingerprint, metadata=metadata, rows=[])
        alike = one if alike is None else dataclasses.replace(join(alike, one), source=alike.source)


def _row(fields: dict[str, object], source: str, number: int, column: str | None) -> Row:
    name = column or next((name for name in TEXT_COLUMNS if name in fields), TEXT_COLUMNS[0])
    text = fields.get(name)
    if not isinstance(text, str):
        raise DataError(f"{source}: row {number}: field {name!r}: expected a text{nearest(name, fields)}")
    return Row(number=number, text=text, fields=fields, source=source, column=name)
