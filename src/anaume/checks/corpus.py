"""What a training text is made of, before any training: sizes, copies, languages, floors, leaked evaluation sets."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.checks.overlap import Overlap, OverlapFinder
from anaume.data import STDIN, read_rows
from anaume.data.corpus import Document, DocumentReader, Inputs, Layout, Reading, find_inputs
from anaume.data.corpus.entropy import unigram_entropy
from anaume.data.corpus.inputs import Opener, spooled
from anaume.data.corpus.making import Progress, learn_from_sample
from anaume.data.corpus.prepare import require_tokenizer
from anaume.data.corpus.sentences import language_code
from anaume.data.corpus.survey import LEFT_OUT, survey
from anaume.data.files import DecodeErrors
from anaume.data.records import Format
from anaume.data.rows import rows_of
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization import Tokenizer
from anaume.tokenization.bulk import BulkEncoder

LABEL = "label"
_SAMPLE_CHARACTERS = 5_000_000
_AT_ONCE = 1 << 19  # characters tokenised together
_MOST_LABELS = 200
_ROWS_LOOKED_AT = 1000  # for a label, in a file that may hold none
# Ends of ranges of code points, and what lies below each: the scripts told apart.
_SCRIPTS = ("latin", "kana", "kanji", "other", "blank")
_RANGES: tuple[tuple[int, int, str], ...] = (
    (0x09, 0x0D, "blank"), (0x1C, 0x20, "blank"), (0x85, 0x85, "blank"), (0xA0, 0xA0, "blank"),
    (0x2000, 0x200A, "blank"), (0x2028, 0x2029, "blank"), (0x3000, 0x3000, "blank"),
    (0x41, 0x5A, "latin"), (0x61, 0x7A, "latin"), (0xC0, 0xD6, "latin"), (0xD8, 0xF6, "latin"),
    (0xF8, 0x24F, "latin"), (0x1E00, 0x1EFF, "latin"), (0xFF21, 0xFF3A, "latin"), (0xFF41, 0xFF5A, "latin"),
    (0x3041, 0x3096, "kana"), (0x309D, 0x309F, "kana"), (0x30A1, 0x30FA, "kana"), (0x30FC, 0x30FF, "kana"),
    (0x31F0, 0x31FF, "kana"), (0xFF66, 0xFF9D, "kana"),
    (0x3005, 0x3007, "kanji"), (0x3400, 0x4DBF, "kanji"), (0x4E00, 0x9FFF, "kanji"), (0xF900, 0xFAFF, "kanji"),
    (0x20000, 0x3FFFF, "kanji"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """What a tokenizer makes of the text, copies of documents left out."""

    tokens: int
    words: int
    unknown: int
    vocab_size: int
    fingerprint: str
    learned: bool
    """True: a vocabulary was learned from a sample of the very text."""
    max_length: int
    long_documents: int
    """Documents that don't fit into max_length tokens, [CLS] and [SEP] among them."""
    long_share: float
    entropy_floor: float
    """Nats: the loss of guessing every token by how often it occurs, blind to its neighbours."""

    @property
    def pieces_per_word(self) -> float:
        """Tokens over words."""
        return self.tokens / self.words if self.words else 0.0

    @property
    def unknown_share(self) -> float:
        """Unknown over tokens, 0 to 1."""
        return self.unknown / self.tokens if self.tokens else 0.0

    @property
    def first_loss(self) -> float:
        """ln(vocab_size) nats: the loss of a model that has learned nothing yet."""
        return math.log(self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class CorpusCheck:
    """What `check_corpus` found."""

    documents: int
    """Not blank; copies among them."""
    sentences: int
    """Of the documents that are no copies."""
    characters: int
    duplicates: int
    """Documents that are exact copies of earlier ones."""
    scripts: dict[str, float]
    """Shares of the characters that are not blank: latin, kana, kanji, other (digits, punctuation, other scripts)."""
    counts: TokenCounts | None
    """None without a tokenizer and without a vocab_size."""
    labels: dict[str, int]
    """How often each value of the label column occurs in tables; empty where there is none."""
    overlaps: tuple[Overlap, ...]
    notes: tuple[str, ...]

    @property
    def duplicate_share(self) -> float:
        """Duplicates over documents, 0 to 1."""
        return self.duplicates / self.documents if self.documents else 0.0


def check_corpus(
    paths: str | Path | Sequence[str | Path],
    *,
    tokenizer: Tokenizer | None = None,
    vocab_size: int | None = None,
    against: str | Path | Sequence[str | Path] = (),
    against_columns: str | Sequence[str] = (),
    max_length: int = 512,
    label_column: str = LABEL,
    layout: Layout = "document",
    language: str | None = None,
    column: str | None = None,
    format: Format | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
    progress: Progress | None = None,
) -> CorpusCheck:
    """Look at a training text as `prepare_corpus` would read it. Bounded memory; two passes.

    tokenizer: counts tokens; or vocab_size, to learn a vocabulary of that size from a sample first.
    against: evaluation files, each row or line a text, held in memory; against_columns: their columns, if not the
        usual one; encoding, errors, quoting and header are theirs too. Reported are the texts that occur in the
        training text, whole or as a part.
    label_column: of tables, whose values are counted where it exists; rows without one count as "(none)".
    The rest as `prepare_corpus` takes it.

    Raises SettingsError, DataError, TokenizerError, MissingExtra.
    """
    if tokenizer is not None and vocab_size is not None:
        raise SettingsError("a tokenizer is given, so no vocabulary of vocab_size is learned; give one of them")
    require_tokenizer(tokenizer)
    if max_length < 3:
        raise SettingsError(f"max_length must be at least 3; came {max_length}")
    language = language_code(language)
    tell: Progress = progress or (lambda what, done, total: None)
    reading = Reading(layout=layout, column=column, encoding=encoding, errors=errors, quoting=quoting, header=header)
    inputs = find_inputs(paths, format=format)
    files = [against] if isinstance(against, str | Path) else list(against)
    columns = [against_columns] if isinstance(against_columns, str) else list(against_columns)
    finder = OverlapFinder(_evaluation(files, columns, reading)) if files else None
    with tempfile.TemporaryDirectory(prefix="anaume-check-") as folder:
        if STDIN in inputs.files:
            inputs = spooled(inputs, Path(folder) / "stdin")
        reader = DocumentReader(inputs.inputs, reading)
        found = survey(
            reader,
            Path(folder) / "hashes",
            held_out=0.0,
            deduplicate=True,
            seed=0,
            sample=_SAMPLE_CHARACTERS if vocab_size is not None else 0,
            tell=lambda done: tell("reading", done, None),
        )
        notes = [*inputs.notes, *reader.notes]
        if not found.documents:
            raise DataError("no text in it: every document is empty")
        learned = vocab_size is not None
        if vocab_size is not None:
            tell("learning a vocabulary", 0, None)
            tokenizer, _, warned = learn_from_sample(found, vocab_size, {})
            notes += warned
        counter = _Counter(tokenizer, language, max_length, finder)
        done = 0
        for fate, document in zip(found.fates(), reader, strict=False):
            done += len(document.text)
            counter.add(document, copy=fate == LEFT_OUT)
            tell("looking", done, found.characters)
        counter.flush()
        labels = _labels(inputs, reading, label_column)
    overlaps = finder.overlaps() if finder is not None else ()
    return CorpusCheck(
        documents=found.documents,
        sentences=counter.sentences,
        characters=found.characters,
        duplicates=found.duplicates,
        scripts=counter.scripts(),
        counts=counter.counts(learned=learned),
        labels=labels,
        overlaps=overlaps,
        notes=tuple(notes + [_leak(overlap) for overlap in overlaps if overlap.whole or overlap.part]),
    )


class _Counter:
    def __init__(
        self, tokenizer: Tokenizer | None, language: str | None, max_length: int, finder: OverlapFinder | None
    ) -> None:
        self.tokenizer = tokenizer
        self.encoder = None if tokenizer is None else BulkEncoder(tokenizer)
        self.language = language
        self.max_length = max_length
        self.finder = finder
        self.sentences = 0
        self._by_script = np.zeros(len(_SCRIPTS), dtype=np.int64)
        self._token_counts = np.zeros(0 if tokenizer is None else tokenizer.vocab_size, dtype=np.int64)
        self._words = self._long = self._documents = 0
        self._waiting: list[str] = []
        self._lengths: list[int] = []
        self._size = 0

    def add(self, document: Document, *, copy: bool) -> None:
        """Count a document; of a copy only the characters."""
        self._by_script += _count_scripts(document.text)
        if copy:
            return
        sentences, _ = document.split(self.language)
        self.sentences += len(sentences)
        self._documents += 1
        if self.finder is not None:
            self.finder.show(document.text, sentences)
        if self.encoder is None:
            return
        self._waiting += sentences
        self._lengths.append(len(sentences))
        self._size += len(document.text)
        if self._size >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Tokenise what waits."""
        if self.encoder is None or not self._lengths:
            return
        pieces = self.encoder.encode(self._waiting)
        self._token_counts += np.bincount(pieces.token_ids, minlength=len(self._token_counts))
        self._words += int(pieces.word_starts.sum())
        ends = np.cumsum(self._lengths)
        totals = np.concatenate([[0], np.cumsum(pieces.lengths)])
        per_document = totals[ends] - totals[ends - np.array(self._lengths)]
        self._long += int(np.count_nonzero(per_document > self.max_length - 2))
        self._waiting, self._lengths, self._size = [], [], 0

    def scripts(self) -> dict[str, float]:
        """Return the shares of the characters that are not blank."""
        told = self._by_script[:-1]
        total = max(int(told.sum()), 1)
        return {name: int(count) / total for name, count in zip(_SCRIPTS, told, strict=False)}

    def counts(self, *, learned: bool) -> TokenCounts | None:
        """Return what the tokenizer made of it."""
        if self.tokenizer is None:
            return None
        return TokenCounts(
            tokens=int(self._token_counts.sum()),
            words=self._words,
            unknown=int(self._token_counts[self.tokenizer.unk_id]),
            vocab_size=self.tokenizer.vocab_size,
            fingerprint=self.tokenizer.fingerprint,
            learned=learned,
            max_length=self.max_length,
            long_documents=self._long,
            long_share=self._long / self._documents if self._documents else 0.0,
            entropy_floor=unigram_entropy(self._token_counts),
        )


def _script_table() -> NDArray[np.uint8]:
    table = np.full(0x40000, _SCRIPTS.index("other"), dtype=np.uint8)
    for first, last, name in _RANGES:
        table[first : last + 1] = _SCRIPTS.index(name)
    return table


_TABLE = _script_table()


def _count_scripts(text: str) -> NDArray[np.int64]:
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    kinds = _TABLE[np.minimum(points, len(_TABLE) - 1)] if not text.isascii() else _TABLE[points]
    counts: NDArray[np.int64] = np.bincount(kinds, minlength=len(_SCRIPTS)).astype(np.int64)
    return counts


def _evaluation(
    files: Sequence[str | Path], columns: Sequence[str], reading: Reading
) -> Iterator[tuple[str, Iterator[str]]]:
    for path in files:
        yield str(path), _texts_of(path, columns, reading)


def _texts_of(path: str | Path, columns: Sequence[str], reading: Reading) -> Iterator[str]:
    inputs = find_inputs(path).inputs
    for column in columns or (None,):
        how = replace(reading, layout="lines", column=column)
        try:
            for document in DocumentReader(inputs, how):
                yield document.text
        except DataError as error:  # the column is chosen by another option here
            told = str(error).replace("column= (--column)", "against_columns= (--against-column)")
            raise DataError(told) from error


def _labels(inputs: Inputs, reading: Reading, name: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with closing(Opener(reading.encoding, reading.errors)) as opener, warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # told when the texts were read
        for one in inputs.inputs:
            if one.kind == "txt":
                continue
            if one.kind == "parquet":
                _count_labels((row.fields for row in read_rows(one.path, column=reading.column)), name, counts)
                continue
            with opener.open(one) as file:
                rows = rows_of(file, one.kind, reading.column, None, reading.quoting, reading.header)
                _count_labels((row.fields for row in rows), name, counts)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_labels(rows: Iterator[Mapping[str, Any]], name: str, counts: Counter[str]) -> None:
    """Count the labels of a file that has any; of a file whose first rows have none, no more is read."""
    without, found = 0, False
    for fields in rows:
        if fields.get(name) is None:
            without += 1
            if not found and without == _ROWS_LOOKED_AT:
                return
            continue
        found, label = True, str(fields[name])
        if label in counts or len(counts) < _MOST_LABELS:
            counts[label] += 1
        else:
            counts["(other values)"] += 1
    if found and without:
        counts["(none)"] += without


def _leak(overlap: Overlap) -> str:
    return (
        f"{overlap.source}: {overlap.whole} of {overlap.texts} texts occur whole in the training text, and "
        f"{overlap.part} more as a part: a score on it would be a score on text that was seen"
    )
