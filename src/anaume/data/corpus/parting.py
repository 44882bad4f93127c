"""Which document goes to which part of a corpus: whole documents by their hashes, of few documents blocks of sentences.

The sources are read once more, and must hold what they held when they were surveyed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anaume.data.corpus.documents import Document, DocumentReader
from anaume.data.corpus.shards import SPLITS, Split
from anaume.data.corpus.survey import FEW_DOCUMENTS, LEFT_OUT, Survey, block_size, choose_blocks
from anaume.errors import DataError


class Parting:
    """The documents that stay, each with its part.

    sources: what to call them in an error. notes: what a person should know, complete when all is read.
    """

    def __init__(
        self, reader: DocumentReader, found: Survey, *, held_out: float, seed: int, language: str | None, sources: str
    ) -> None:
        self.reader = reader
        self.found = found
        self.held_out = held_out
        self.seed = seed
        self.language = language
        self.sources = sources
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[Split, Document]]:
        """Yield the documents in their order. Raises DataError when the sources have changed since the survey."""
        return self._few() if self.found.kept < FEW_DOCUMENTS else self._many()

    def _many(self) -> Iterator[tuple[Split, Document]]:
        """Yield the documents with their part of the corpus."""
        fates = self.found.fates()
        number = 0
        for document in self.reader:
            number += 1
            fate = next(fates, LEFT_OUT)
            if fate != LEFT_OUT:
                yield SPLITS[fate], document
        self._same_number(number)

    def _few(self) -> Iterator[tuple[Split, Document]]:
        """Yield few documents in blocks: what lies between two held-out blocks is a document of its own."""
        kept = [fate != LEFT_OUT for fate in self.found.fates()]
        hashes = [int(value) for value, stays in zip(self.found.hashes, kept, strict=True) if stays]
        counts = [len(document.split(self.language)[0]) for document in self._kept(kept)]
        chosen = choose_blocks(hashes, counts, self.held_out, self.seed)
        blocks = sum(map(len, chosen))
        if blocks:
            self.notes.append(
                f"too few documents to hold some out ({self.found.kept}, and at least {FEW_DOCUMENTS} are needed): "
                f"blocks of sentences are held out instead ({blocks:,}), and training sees the sentences around them"
            )
        elif self.held_out > 0:
            self.notes.append("nothing is held out: the text is a single sentence")
        for document, held in zip(self._kept(kept), chosen, strict=True):
            sentences = document.split(self.language)[0]
            if not held:
                yield "train", document
                continue
            size = block_size(len(sentences))
            run: list[str] = []
            for block, start in enumerate(range(0, len(sentences), size)):
                own = sentences[start : start + size]
                if block not in held:
                    run += own
                    continue
                if run:
                    yield "train", _of_sentences(run)
                yield "held-out", _of_sentences(own)
                run = []
            if run:
                yield "train", _of_sentences(run)

    def _kept(self, kept: Sequence[bool]) -> Iterator[Document]:
        number = 0
        for number, document in enumerate(self.reader, 1):
            if number > len(kept):
                break
            if kept[number - 1]:
                yield document
        self._same_number(number)

    def _same_number(self, number: int) -> None:
        if number != self.found.documents:
            raise DataError(
                f"{self.sources}: held {self.found.documents} documents when first read and {number} now; "
                "prepare again when nobody writes to it"
            )


def _of_sentences(sentences: list[str]) -> Document:
    return Document("\n".join(sentences), tuple(sentences))
