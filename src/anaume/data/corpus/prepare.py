"""Text files -> a tokenised corpus in shards: resumable, in bounded memory, with the same bytes every time.

The sources are read twice. The first pass hashes the documents (duplicates, held-out part) and takes the sample a
vocabulary is learned from; the second tokenises. Where a shard ends depends on the documents alone, so a run that was
killed reads again and tokenises only what no finished shard holds.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.data.corpus.documents import Document, DocumentReader, Layout, Reading
from anaume.data.corpus.filling import ShardMaker
from anaume.data.corpus.inputs import Inputs, find_inputs, sha256_of, spooled
from anaume.data.corpus.near import BYTES_A_DOCUMENT, near_copies, require_rensa
from anaume.data.corpus.shards import (
    COUNTS,
    FORMAT_VERSION,
    PARTIAL,
    RECORD,
    SPLITS,
    TOKENIZER,
    Shard,
    ShardCounts,
    Split,
    open_corpus,
)
from anaume.data.corpus.summary import PrepareSummary, later_notes, summarise
from anaume.data.corpus.survey import FEW_DOCUMENTS, LEFT_OUT, TRAIN, Survey, block_size, choose_blocks, survey
from anaume.data.corpus.workers import Workers, usable_cores
from anaume.data.corpus.workspace import ADVICE, Workspace, refuse_other
from anaume.data.files import STDIN, DecodeErrors, atomic_file
from anaume.data.records import Format
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer

log = get_logger(__name__)

Progress = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is done, and how much there is (None: unknown)."""

SAMPLE_CHARACTERS = 20_000_000
"""A vocabulary is learned from a sample of at most so many characters, spread over all sources."""

_SPOOL, _HASHES = "stdin", "hashes"
# Below this, starting processes costs more than they save. Under the BERT rules seven tenths of the work is Rust's,
# which uses all cores from one process too.
_WORTH_PROCESSES = {"bert": 4_000_000, "mecab": 300_000}
_WORTH_CORES = {"bert": 4, "mecab": 2}
_MOST_WORKERS = 8  # of its own accord: each needs memory, and one process reads for all


def prepare_corpus(
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: Tokenizer | None = None,
    vocab_size: int | None = None,
    vocab_settings: Mapping[str, Any] | None = None,
    sample_characters: int = SAMPLE_CHARACTERS,
    layout: Layout = "document",
    language: str | None = None,
    column: str | None = None,
    format: Format | None = None,
    encoding: str = "utf-8",
    errors: DecodeErrors = "strict",
    quoting: bool | None = None,
    header: bool = True,
    held_out: float = 0.01,
    deduplicate: bool = True,
    near_duplicates: float | None = None,
    workers: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PrepareSummary:
    """Turn text files into a corpus: shards of token IDs that training maps into memory.

    paths: txt, csv, tsv, jsonl or parquet files, folders, globs, .zip archives, "-" for stdin, as `find_inputs` takes
        them; column, format, encoding, errors, quoting, header as `read_rows` does.
    out: the folder to make. It appears, whole, when all is done; until then the work lies in OUT.partial, and after a
        kill the same call goes on from there.
    tokenizer: what makes the tokens; or vocab_size, to learn a vocabulary of so many entries from a sample of
        sample_characters. vocab_settings: as `Tokenizer.train` takes them; unless they say `words`, Japanese text
        gets "mecab" and any other "bert".
    layout: what a txt file holds, see `Reading`. Rows of tables are documents.
    language: of the sentences, a code `sentencex` knows; None guesses English or Japanese, window by window.
    held_out: the share of documents kept out of training, 0 to 0.5, chosen by their hashes: at least one document;
        of fewer than 20 documents, blocks of sentences.
    deduplicate: leave out documents that are exact copies of earlier ones (by 64-bit hashes).
    near_duplicates: leave out documents, too, of whose runs of five words this share or more (0.8 is usual) is in an
        earlier one that stays: see `near`, needs rensa (extra `dedup`), and about 2.4 KB of memory a document, which is
        said before it begins. Its memory is not bounded as the rest is.
    workers: processes that tokenise; None = one a core, at most eight, and none (0: this process does it) for little
        text, or under the BERT rules on fewer than four cores.
    overwrite: replace a corpus that is there. Without it, one from the same sources and settings is left as it is
        (`finished_before`), and any other is refused, naming what differs.
    progress: is told how far it is.

    The same sources and settings give the same bytes, whatever the number of workers and however often stopped.
    Warns (AnaumeWarning) at most once. Raises SettingsError, DataError, TokenizerError, MissingExtra.
    """
    started = time.perf_counter()
    tell: Progress = progress or (lambda what, done, total: None)
    reading = Reading(layout=layout, column=column, encoding=encoding, errors=errors, quoting=quoting, header=header)
    _check(tokenizer, vocab_size, vocab_settings, held_out, workers, sample_characters, near_duplicates)
    target = Path(out)
    inputs = find_inputs(paths, format=format, without=(target, Path(f"{target}{PARTIAL}")))
    workspace = Workspace(target)
    keep = False
    try:
        if STDIN in inputs.files:
            inputs = spooled(inputs, workspace.folder / _SPOOL)
        settings = asdict(reading) | {
            "format": format,
            "language": language,
            "held_out": held_out,
            "deduplicate": deduplicate,
            "near_duplicates": near_duplicates,
            "seed": seed,
            "tokenizer": tokenizer.fingerprint if tokenizer is not None else None,
            "vocab_size": vocab_size,
            "vocab_settings": dict(sorted((vocab_settings or {}).items())) if tokenizer is None else None,
            "sample_characters": sample_characters if tokenizer is None else None,
            "format_version": FORMAT_VERSION,
        }
        made_from: dict[str, Any] = {"settings": settings, "sources": _sources(inputs, tell)}
        keep = not workspace.new  # a folder that was begun may hold hours of work: not this run's to remove
        if not overwrite and (target / RECORD).is_file():
            before = open_corpus(target).record
            refuse_other(target, before["made_from"], made_from)
            return summarise(target, before, kept=0, finished_before=True, seconds=time.perf_counter() - started)
        workspace.start(made_from, replace=overwrite)
        keep = bool(workspace.journal)
        maker = _Maker(workspace, inputs, reading, language, seed, near_duplicates, tell)
        try:
            size = sum(source["bytes"] for source in made_from["sources"])
            record = maker.make(
                tokenizer, vocab_size, vocab_settings or {}, sample_characters, held_out, deduplicate, workers, size
            )
        finally:
            keep = (keep or maker.noted) and not maker.in_vain
        record = {"format_version": FORMAT_VERSION, "versions": _versions(), **record, "made_from": made_from}
        workspace.finish(record, {_SPOOL, _HASHES})
        keep = False
    finally:
        workspace.release(keep=keep)
    summary = summarise(target, record, kept=maker.kept, finished_before=False, seconds=time.perf_counter() - started)
    if summary.notes:
        warnings.warn("; ".join(summary.notes), AnaumeWarning, stacklevel=2)
    return summary


class _Maker:
    """One run: survey, tokenizer, shards.

    noted: something worth going on from is in the journal; in_vain: nothing can come of it.
    """

    def __init__(
        self,
        workspace: Workspace,
        inputs: Inputs,
        reading: Reading,
        language: str | None,
        seed: int,
        near: float | None,
        tell: Progress,
    ) -> None:
        self.workspace = workspace
        self.inputs = inputs
        self.reader = DocumentReader(inputs.inputs, reading)
        self.language = language
        self.seed = seed
        self.near = near
        self.tell = tell
        self.notes: list[str] = list(inputs.notes)
        self.noted = self.in_vain = False
        self.kept = 0

    def make(
        self,
        tokenizer: Tokenizer | None,
        vocab_size: int | None,
        vocab_settings: Mapping[str, Any],
        sample_characters: int,
        held_out: float,
        deduplicate: bool,
        workers: int | None,
        source_bytes: int,
    ) -> dict[str, Any]:
        """Return the record of the corpus, all files but the record's written."""
        with ExitStack() as stack:
            pool = None
            if tokenizer is not None:  # the processes start while this one reads
                count = _worker_count(workers, tokenizer, source_bytes)
                pool = stack.enter_context(Workers(tokenizer, self.language, count))
            found = self._survey(held_out, deduplicate, 0 if tokenizer is not None else sample_characters)
            learned: dict[str, Any] | None = None
            if tokenizer is None:
                assert vocab_size is not None
                tokenizer, learned = self._learn(found, vocab_size, vocab_settings)
            else:
                tokenizer.save(self.workspace.folder / TOKENIZER)
            if pool is None:
                count = _worker_count(workers, tokenizer, found.characters)
                pool = stack.enter_context(Workers(tokenizer, self.language, count))
            documents = self._few(found, held_out) if found.kept < FEW_DOCUMENTS else self._many(found)
            shards = ShardMaker(self, pool, found.characters).make(documents)
        return self._finish(tokenizer, found, learned, shards)

    def _survey(self, held_out: float, deduplicate: bool, sample: int) -> Survey:
        found = survey(
            self.reader,
            self.workspace.folder / _HASHES,
            held_out=held_out,
            deduplicate=deduplicate,
            seed=self.seed,
            sample=sample,
            tell=lambda done: self.tell("reading", done, None),
            near=None if self.near is None else self._near,
        )
        self.notes += self.reader.notes
        if not found.documents:
            raise DataError(f"{_named(self.inputs)}: no text in it: every document is empty")
        return found

    def _near(self, documents: int, copies: NDArray[np.uint8]) -> int:
        assert self.near is not None
        need = f"{documents * BYTES_A_DOCUMENT / 1e6:,.0f} MB"
        log.info("near-duplicates of %s documents are looked for: up to %s of memory", f"{documents:,}", need)

        def tell(done: int) -> None:
            self.tell("comparing", done, None)

        return near_copies(self.reader, copies, threshold=self.near, seed=self.seed, tell=tell)

    def _learn(self, found: Survey, vocab_size: int, settings: Mapping[str, Any]) -> tuple[Tokenizer, dict[str, Any]]:
        folder = self.workspace.folder / TOKENIZER
        for entry in self.workspace.journal:
            if "learned" in entry:
                tokenizer = Tokenizer.from_directory(folder)
                if tokenizer.fingerprint != entry["fingerprint"]:
                    raise DataError(f"{folder}: was changed since it was learned; {ADVICE}")
                return tokenizer, entry["learned"]
        self.tell("learning a vocabulary", 0, None)
        tokenizer, characters, warned = learn_from_sample(found, vocab_size, settings)
        tokenizer.save(folder)
        report = tokenizer.training_report
        assert report is not None
        learned = {
            "sample_characters": characters,
            "source_characters": found.characters,
            "words": report.words,
            "distinct_words": report.distinct_words,
            "asked_size": report.asked_size,
            "rules": tokenizer.rules.to_dict(),
            "notes": warned,
        }
        self.note({"learned": learned, "fingerprint": tokenizer.fingerprint})
        return tokenizer, learned

    def note(self, entry: Mapping[str, Any]) -> None:
        """Journal something that a later run need not do again."""
        self.workspace.note(entry)
        self.noted = True

    def _many(self, found: Survey) -> Iterator[tuple[Split, Document]]:
        """Yield the documents with their part of the corpus."""
        fates = found.fates()
        number = 0
        for document in self.reader:
            number += 1
            fate = next(fates, LEFT_OUT)
            if fate != LEFT_OUT:
                yield SPLITS[fate], document
        self._same_number(number, found)

    def _few(self, found: Survey, held_out: float) -> Iterator[tuple[Split, Document]]:
        """Yield few documents in blocks: what lies between two held-out blocks is a document of its own."""
        kept = [fate != LEFT_OUT for fate in found.fates()]
        hashes = [int(value) for value, stays in zip(found.hashes, kept, strict=True) if stays]
        counts = [len(document.split(self.language)[0]) for document in self._kept(kept, found)]
        chosen = choose_blocks(hashes, counts, held_out, self.seed)
        blocks = sum(map(len, chosen))
        if blocks:
            self.notes.append(
                f"too few documents to hold some out ({found.kept}, and at least {FEW_DOCUMENTS} are needed): blocks "
                f"of sentences are held out instead ({blocks:,}), and training sees the sentences around them"
            )
        elif held_out > 0:
            self.notes.append("nothing is held out: the text is a single sentence")
        for document, held in zip(self._kept(kept, found), chosen, strict=True):
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

    def _kept(self, kept: Sequence[bool], found: Survey) -> Iterator[Document]:
        number = 0
        for number, document in enumerate(self.reader, 1):
            if number > len(kept):
                break
            if kept[number - 1]:
                yield document
        self._same_number(number, found)

    def _same_number(self, number: int, found: Survey) -> None:
        if number != found.documents:
            raise DataError(
                f"{_named(self.inputs)}: held {found.documents} documents when first read and {number} now; "
                "prepare again when nobody writes to it"
            )

    def _finish(
        self, tokenizer: Tokenizer, found: Survey, learned: dict[str, Any] | None, shards: list[dict[str, Any]]
    ) -> dict[str, Any]:
        counts = np.zeros((len(SPLITS), tokenizer.vocab_size), dtype=np.int64)
        words = 0
        for entry in shards:
            shard = _open(self.workspace.folder, entry)
            counts[SPLITS.index(entry["split"])] += np.bincount(shard.token_ids, minlength=tokenizer.vocab_size)
            words += int(np.count_nonzero(shard.word_starts))
        with atomic_file(self.workspace.folder / COUNTS) as file:
            np.save(file, counts)
        tokens = int(counts.sum())
        unknown = int(counts[:, tokenizer.unk_id].sum())
        if not tokens:
            self.in_vain = True
            raise DataError(f"{_named(self.inputs)}: no text in it: the tokenizer finds no piece in any document")
        self.notes += [] if learned is None else learned["notes"]
        self.notes += later_notes(self.reader.reading, shards, tokens, unknown)
        public = ("file", "split", "documents", "sentences", "tokens", "characters", "bytes", "sha256")
        return {
            "tokenizer_fingerprint": tokenizer.fingerprint,
            "vocab_size": tokenizer.vocab_size,
            "learned": learned,
            "documents_read": found.documents,
            "characters_read": found.characters,
            "duplicates": found.duplicates,
            "near_duplicates": found.near_duplicates,
            "tokens": tokens,
            "words": words,
            "unknown": unknown,
            "sentences_cut": sum(entry["cuts"] for entry in shards),
            "notes": list(dict.fromkeys(self.notes)),
            "shards": [{name: entry[name] for name in public} for entry in shards],
        }


def learn_from_sample(found: Survey, vocab_size: int, settings: Mapping[str, Any]) -> tuple[Tokenizer, int, list[str]]:
    """Learn a vocabulary from a survey's sample, copies and the held-out part left out.

    Unless the settings say `words`, Japanese text gets "mecab" and any other "bert". Returns the tokenizer, the
    characters it was learned from, and what was warned about.
    """
    japanese = found.japanese * 2 > found.characters
    flags = {"words": "mecab" if japanese else "bert"} | dict(settings)
    texts = found.sample.texts(lambda number: found.fate(number) == TRAIN)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AnaumeWarning)
        # A line end is a blank to every rule, and keeps a text that is a file's name from being read as that file.
        tokenizer = Tokenizer.train((f"{text}\n" for text in texts), vocab_size=vocab_size, **flags)
    return tokenizer, sum(map(len, texts)), [str(item.message) for item in caught]


def _of_sentences(sentences: list[str]) -> Document:
    return Document("\n".join(sentences), tuple(sentences))


def _open(folder: Path, entry: Mapping[str, Any]) -> Shard:
    return Shard(
        folder / entry["file"], ShardCounts(**{name: entry[name] for name in ShardCounts.__dataclass_fields__})
    )


def _check(
    tokenizer: Tokenizer | None,
    vocab_size: int | None,
    vocab_settings: Mapping[str, Any] | None,
    held_out: float,
    workers: int | None,
    sample_characters: int,
    near_duplicates: float | None,
) -> None:
    if (tokenizer is None) == (vocab_size is None):
        raise SettingsError("expected either a tokenizer or a vocab_size to learn one; give one of them")
    if tokenizer is not None and vocab_settings:
        raise SettingsError(f"a tokenizer is given, so nothing is learned with {', '.join(vocab_settings)}")
    if not 0 <= held_out <= 0.5:
        raise SettingsError(f"held_out is a share from 0 to 0.5; came {held_out}")
    if workers is not None and workers < 0:
        raise SettingsError(f"workers must be at least 0 (0: tokenise in this process); came {workers}")
    if sample_characters < 1:
        raise SettingsError(f"sample_characters must be at least 1; came {sample_characters}")
    if near_duplicates is not None:
        if not 0 < near_duplicates <= 1:
            raise SettingsError(f"near_duplicates is a share above 0, up to 1; came {near_duplicates}")
        require_rensa()


def _worker_count(workers: int | None, tokenizer: Tokenizer, characters: int) -> int:
    if workers is not None:
        return workers
    words, cores = tokenizer.rules.words, usable_cores()
    if characters < _WORTH_PROCESSES[words] or cores < _WORTH_CORES[words]:
        return 0
    return min(cores, _MOST_WORKERS)


def _sources(inputs: Inputs, tell: Progress) -> list[dict[str, Any]]:
    kinds = {one.path: one.kind for one in inputs.inputs if one.member is None}
    names = {one.path: one.name for one in inputs.inputs if one.member is None}
    sources = []
    for number, path in enumerate(inputs.files):
        tell("hashing", number, len(inputs.files))
        digest, size = sha256_of(path)
        sources.append({"name": names.get(path, path), "kind": kinds.get(path, "zip"), "sha256": digest, "bytes": size})
    return sources


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    packages = ("anaume", "tokenizers", "sentencex", "pyarrow", "numpy")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _named(inputs: Inputs) -> str:
    names = [one.name for one in inputs.inputs]
    return names[0] if len(names) == 1 else f"{len(names)} inputs ({', '.join(names[:3])} ...)"
