"""Documents with the vectors that `anaume embed` made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anaume.bundle import Bundle
from anaume.data import TEXT_COLUMNS, Row, join, read_vectors
from anaume.errors import BundleError, DataError, nearest
from anaume.search.documents import Document, read_documents
from anaume.search.record import IndexRecord
from anaume.search.table import Passages
from anaume.search.vectors import kept


@dataclass
class StoredPassages:
    """Makes passages of documents whose vectors are there: one a document, as it was embedded."""

    bundle: Bundle
    record: IndexRecord
    vectors: dict[str, NDArray[np.float32]]
    """id -> (embedding_size,)"""
    seen: int = 0
    cut: int = 0

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
                vectors=kept(self.vectors[one.id][None], self.record),
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


def read_vector_files(
    bundle: Bundle, record: IndexRecord, paths: Sequence[str | Path], *, id_column: str | None, column: str | None
) -> tuple[list[Document], StoredPassages]:
    """Read vector files, whole, into memory.

    Raises DataError for files of different makers, without rows, or embedded under another prompt than the index's
    passages; BundleError when it was not this bundle that made them, both named.
    """
    files = [read_vectors(path) for path in paths]
    stored = reduce(join, files)
    if stored.fingerprint not in (None, record.fingerprint):
        raise BundleError(
            f"{stored.source}: made by a model or settings of fingerprint {stored.fingerprint}, and "
            f"{bundle.parts.source or 'the bundle in memory'} makes vectors of fingerprint {record.fingerprint} (long "
            "texts cut, not averaged); embed the texts again"
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
    rows = []
    for path, one in zip(paths, files, strict=True):
        if one.rows is None:
            raise DataError(f"{path}: a .npy file keeps no texts and no ids; embed to a .parquet or .jsonl file")
        rows += [_row(fields, str(path), number, column) for number, fields in enumerate(one.rows, 1)]
    documents = list(read_documents(rows, id_column=id_column))
    vectors = {document.id: vector for document, vector in zip(documents, stored.vectors, strict=True)}
    return documents, StoredPassages(bundle, record, vectors)


def _row(fields: dict[str, object], source: str, number: int, column: str | None) -> Row:
    name = column or next((name for name in TEXT_COLUMNS if name in fields), TEXT_COLUMNS[0])
    text = fields.get(name)
    if not isinstance(text, str):
        raise DataError(f"{source}: row {number}: field {name!r}: expected a text{nearest(name, fields)}")
    return Row(number=number, text=text, fields=fields, source=source, column=name)
