"""One making of a corpus, stage by stage: survey, tokenizer, shards, record; each goes on where a stopped one was."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.data.atomic import atomic_file
from anaume.data.corpus.documents import DocumentReader, Reading
from anaume.data.corpus.filling import ShardMaker
from anaume.data.corpus.inputs import Inputs
from anaume.data.corpus.near import BYTES_A_DOCUMENT, near_copies
from anaume.data.corpus.parting import Parting
from anaume.data.corpus.shards import COUNTS, SPLITS, TOKENIZER, Shard, ShardCounts
from anaume.data.corpus.summary import later_notes
from anaume.data.corpus.survey import TRAIN, Survey, survey
from anaume.data.corpus.workers import Workers, usable_cores
from anaume.data.corpus.workspace import ADVICE, Workspace
from anaume.errors import AnaumeWarning, DataError
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer

log = get_logger(__name__)

Progress = Callable[[str, int, int | None], None]
"""Is told what is being done, how much of it is done, and how much there is (None: unknown)."""

HASHES = "hashes"
"""File of the workspace: the documents' hashes, while the corpus is made."""

# Below this, starting processes costs more than they save. Under the BERT rules seven tenths of the work is Rust's,
# which uses all cores from one process too.
_WORTH_PROCESSES = {"bert": 4_000_000, "mecab": 300_000}
_WORTH_CORES = {"bert": 4, "mecab": 2}
_MOST_WORKERS = 8  # of its own accord: each needs memory, and one process reads for all


class CorpusMaker:
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
            parting = Parting(
                self.reader,
                found,
                held_out=held_out,
                seed=self.seed,
                language=self.language,
                sources=_named(self.inputs),
            )
            shards = ShardMaker(self, pool, found.characters).make(iter(parting))
            self.notes += parting.notes
        return self._finish(tokenizer, found, learned, shards)

    def _survey(self, held_out: float, deduplicate: bool, sample: int) -> Survey:
        found = survey(
            self.reader,
            self.workspace.folder / HASHES,
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


def _open(folder: Path, entry: Mapping[str, Any]) -> Shard:
    return Shard(
        folder / entry["file"], ShardCounts(**{name: entry[name] for name in ShardCounts.__dataclass_fields__})
    )


def _worker_count(workers: int | None, tokenizer: Tokenizer, characters: int) -> int:
    if workers is not None:
        return workers
    words, cores = tokenizer.rules.words, usable_cores()
    if characters < _WORTH_PROCESSES[words] or cores < _WORTH_CORES[words]:
        return 0
    return min(cores, _MOST_WORKERS)


def _named(inputs: Inputs) -> str:
    names = [one.name for one in inputs.inputs]
    return names[0] if len(names) == 1 else f"{len(names)} inputs ({', '.join(names[:3])} ...)"
