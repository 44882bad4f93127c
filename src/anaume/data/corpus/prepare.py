"""Text files -> a tokenised corpus in shards: resumable, in bounded memory, with the same bytes every time.

The sources are read twice. The first pass hashes the documents (duplicates, held-out part) and takes the sample a
vocabulary is learned from; the second tokenises. Where a shard ends depends on the documents alone, so a run that was
killed reads again and tokenises only what no finished shard holds.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anaume.data.corpus.documents import Layout, Reading
from anaume.data.corpus.inputs import Inputs, find_inputs, sha256_of, spooled
from anaume.data.corpus.making import HASHES, CorpusMaker, Progress
from anaume.data.corpus.near import require_rensa
from anaume.data.corpus.sentences import language_code
from anaume.data.corpus.shards import FORMAT_VERSION, PARTIAL, RECORD, open_corpus
from anaume.data.corpus.summary import PrepareSummary, summarise
from anaume.data.corpus.workspace import Workspace, refuse_other
from anaume.data.files import STDIN, DecodeErrors
from anaume.data.records import Format
from anaume.errors import AnaumeWarning, SettingsError
from anaume.tokenization import Tokenizer

SAMPLE_CHARACTERS = 20_000_000
"""A vocabulary is learned from a sample of at most so many characters, spread over all sources."""

_SPOOL = "stdin"


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
    language = language_code(language)
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
        maker = CorpusMaker(workspace, inputs, reading, language, seed, near_duplicates, tell)
        try:
            size = sum(source["bytes"] for source in made_from["sources"])
            record = maker.make(
                tokenizer, vocab_size, vocab_settings or {}, sample_characters, held_out, deduplicate, workers, size
            )
        finally:
            keep = (keep or maker.noted) and not maker.in_vain
        record = {"format_version": FORMAT_VERSION, "versions": _versions(), **record, "made_from": made_from}
        workspace.finish(record, {_SPOOL, HASHES})
        keep = False
    finally:
        workspace.release(keep=keep)
    summary = summarise(target, record, kept=maker.kept, finished_before=False, seconds=time.perf_counter() - started)
    if summary.notes:
        warnings.warn("; ".join(summary.notes), AnaumeWarning, stacklevel=2)
    return summary


def require_tokenizer(given: object) -> None:
    """Raise SettingsError where neither a tokenizer nor None came."""
    if given is not None and not isinstance(given, Tokenizer):
        raise SettingsError(
            f"expected a Tokenizer; got {given!r:.60}: a bundle's is its .tokenizer, and Tokenizer.from_directory "
            "reads another"
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
    require_tokenizer(tokenizer)
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
