"""Embed whole files: read, embed and write chunk by chunk, and say once what the model saw."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume import __version__
from anaume.bundle import Bundle, EmbedReport, EmbedTotals, LongPolicy
from anaume.data import (
    STDIN,
    Row,
    VectorWriter,
    open_vectors,
    read_about,
    read_rows,
    sidecar_path,
    vector_format,
    vector_lines,
)
from anaume.engines import Vectors
from anaume.errors import AnaumeError, AnaumeWarning, DataError, SettingsError
from anaume.jobs.kept_vectors import KeptVectors, kept_vectors
from anaume.jobs.progress import progress_bar
from anaume.jobs.sources import Sources, scan_sources
from anaume.logs import get_logger

log = get_logger(__name__)

CHUNK = 4096
"""Texts read, embedded and written at once: enough to sort by length with little padding, few enough for progress."""
PARQUET = ".parquet"
_ADVICE = "overwrite=True (--overwrite) replaces it"
_USUAL = {"encoding": "utf-8", "errors": "strict", "header": True}


@dataclass(frozen=True, kw_only=True)
class EmbedSummary:
    """What a run of `embed_file` did."""

    out: str
    """The file written; "-" for stdout."""
    finished_before: bool
    """True: the file was there, made from the same sources with the same settings, and nothing was done."""
    texts: int
    embedding_size: int
    seconds: float
    """Of reading, embedding and writing; loading the bundle apart."""
    coverage: float
    """The mean share of a text's pieces that the model saw, 0 to 1."""
    cut: int
    """Texts it did not see whole."""
    pieces: int
    unknown: int
    unknown_share: float
    """The share of the pieces that the vocabulary does not hold, 0 to 1."""
    precision: str
    device: str
    fingerprint: str
    messages: tuple[str, ...]
    """What was warned about, in words."""

    @property
    def texts_per_second(self) -> float:
        """Texts over seconds, 0 when nothing was done."""
        return self.texts / self.seconds if self.seconds > 0 else 0.0


def embed_file(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    out: str | Path | None,
    *,
    as_: str | None = None,
    long: LongPolicy = "truncate",
    overwrite: bool = False,
    progress: bool = False,
    **reading: Any,
) -> EmbedSummary:
    """Embed every row of one or more files into a vector file, in order, in bounded memory.

    Killed or interrupted, the same call goes on after the last chunk of 4,096 texts (of files, not of stdin; what is
    made so far lies in a hidden folder beside `out`).

    paths      txt, csv, tsv, jsonl or parquet; "-" is stdin
    out        .npy, .jsonl or .parquet, which appears whole when all is done; None = JSON lines on stdout
    as_, long  as in `Bundle.embed_report`
    overwrite  replace an output that is there. Without it, one made from the same sources with the same settings is
               left as it is (`finished_before`), any other is refused, naming what differs
    progress   a bar on stderr, if that is a terminal
    reading    column, format, encoding, errors, quoting, header: as in `read_rows`

    Warns at most once, with the counts of the whole run. Raises SettingsError for wrong arguments, DataError for a
    file, a row or an output, BundleError for the bundle.
    """
    given: list[str | Path] = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise SettingsError("expected at least one file to embed; none came")
    started = time.perf_counter()
    fingerprint = bundle.fingerprint_for(long)
    totals = write_vectors(
        bundle, given, out, fingerprint, as_=as_, long=long, overwrite=overwrite, progress=progress, **reading
    )
    seen = totals or EmbedTotals()
    messages = seen.messages(bundle.embedding)
    if messages:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=2)
    return EmbedSummary(
        out=STDIN if out is None else str(out),
        finished_before=totals is None,
        texts=seen.texts,
        embedding_size=bundle.embedding_size,
        seconds=time.perf_counter() - started,
        coverage=seen.seen / seen.texts if seen.texts else 1.0,
        cut=seen.cut,
        pieces=seen.pieces,
        unknown=seen.unknown,
        unknown_share=seen.unknown / seen.pieces if seen.pieces else 0.0,
        precision=bundle.precision,
        device=bundle.device,
        fingerprint=fingerprint,
        messages=messages,
    )


def write_vectors(
    bundle: Bundle,
    given: Sequence[str | Path],
    out: str | Path | None,
    fingerprint: str,
    *,
    as_: str | None = None,
    long: LongPolicy = "truncate",
    overwrite: bool = False,
    progress: bool = False,
    **reading: Any,
) -> EmbedTotals | None:
    """Do the work of `embed_file`, which has the arguments; return what the model saw, None when all was there before.

    fingerprint  what `bundle.fingerprint_for(long)` gave
    """
    rows = read_rows(given, **reading)  # what is wrong with names and settings is said before any work
    if out is not None:
        vector_format(out)
        _refuse_own_input(given, out)
    sources = scan_sources(given)
    made_by = _made_by(bundle, sources, as_, long, reading)
    if out is not None and not overwrite and _finished_before(Path(out), fingerprint, made_by):
        return None
    totals = EmbedTotals()
    chunks = _chunks(rows)
    # What could be lost is more than one chunk, of sources that can be read again.
    lasting = bool(sources.fingerprint) and (sources.lines is None or sources.lines > CHUNK)
    with (
        _kept(out, bundle.embedding_size, {"fingerprint": fingerprint, **made_by} if lasting else None) as kept,
        _writer(out, fingerprint, bundle.embedding_size, made_by) as writer,
        progress_bar("embedding", sources.lines, show=progress) as advance,
    ):
        for chunk, vectors in _embedded_before(kept, chunks, totals):
            writer.write(chunk, vectors)
            advance(len(chunk))
        for chunk, report in _embedded(bundle, chunks, as_, long, fingerprint):
            writer.write(chunk, report.vectors)
            totals.add(report)
            if kept is not None:
                kept.add(report.vectors, dataclasses.asdict(totals))
            advance(len(chunk))
            log.debug("%d texts embedded and written", totals.texts)
    return totals


def refuse_made_otherwise(
    bundle: Bundle, out: Path, fingerprint: str, *, as_: str | None, long: LongPolicy, **reading: Any
) -> None:
    """Raise DataError for a vector file that was made by another model or with other settings, whatever its texts."""
    made_by = _made_by(bundle, Sources("", None), as_, long, reading)
    _refuse_changed(out, out, fingerprint, made_by, but="sources")


@contextmanager
def _kept(out: str | Path | None, size: int, settings: Mapping[str, str] | None) -> Iterator[KeptVectors | None]:
    """Give what a killed run of the same settings made; None where nothing is kept.

    It goes once the output is whole, and with what is wrong with data or model, which would come again.
    """
    if out is None or settings is None:
        yield None
        return
    with kept_vectors(Path(out), size, {**settings, "anaume": __version__, "chunk": str(CHUNK)}) as kept:
        try:
            yield kept
        except AnaumeError:
            if kept is not None:
                kept.forget()
            raise
        if kept is not None:
            kept.forget()


def _embedded_before(
    kept: KeptVectors | None, chunks: Iterator[list[Row]], totals: EmbedTotals
) -> Iterator[tuple[list[Row], Vectors]]:
    """Yield what a killed run embedded, its rows read again; `totals` then counts them, too."""
    if kept is None or not kept.chunks:
        return
    for (about, vectors), chunk in zip(kept.read(), chunks, strict=False):
        yield chunk, vectors
        totals.__dict__.update(about["totals"])
    log.info("going on after %s texts that a run before this one has embedded", f"{totals.texts:,}")


def _embedded(
    bundle: Bundle, chunks: Iterator[list[Row]], as_: str | None, long: LongPolicy, fingerprint: str
) -> Iterator[tuple[list[Row], EmbedReport]]:
    """Yield chunks of rows with what became of them."""
    waiting: list[list[Row]] = []  # never more than one: the stream asks for a chunk when it is to be embedded

    def texts() -> Iterator[list[str]]:
        for chunk in chunks:
            waiting.append(chunk)
            yield [row.text for row in chunk]

    # A text that is too long is found by what came of it, so that the message can name file and row.
    policy: LongPolicy = "truncate" if long == "error" else long
    for report in bundle.embed_stream(texts(), as_=as_, long=policy, fingerprint=fingerprint):
        chunk = waiting.pop()
        if long == "error" and report.cut:
            raise _too_long(bundle, [row for row, share in zip(chunk, report.coverage, strict=True) if share < 1.0])
        yield chunk, report


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield up to CHUNK rows at a time.

    A chunk ends with its Parquet file: texts are embedded in the company of their chunk, and the last bits of a shard's
    vectors shall not depend on which other shards are in the run.
    """
    chunk: list[Row] = []
    for row in rows:
        if chunk and row.source != chunk[0].source and chunk[0].source.lower().endswith(PARQUET):
            yield chunk
            chunk = []
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _too_long(bundle: Bundle, rows: list[Row]) -> DataError:
    pieces = bundle.tokenizer.encode(rows[0].text).pieces
    more = f", nor do {len(rows) - 1} more near it" if len(rows) > 1 else ""
    return DataError(
        f"{rows[0].place}: the text has {pieces} pieces and does not fit into {bundle.embedding.max_length} tokens "
        f"(max_length){more}: split it, or use long='window' or long='truncate'"
    )


@contextmanager
def _writer(out: str | Path | None, fingerprint: str, size: int, made_by: Mapping[str, str]) -> Iterator[VectorWriter]:
    if out is None:
        stream = sys.stdout.buffer
        sys.stdout.flush()
        yield vector_lines(stream, fingerprint=fingerprint, size=size, extra=made_by)
        stream.flush()
        return
    with open_vectors(out, fingerprint=fingerprint, size=size, extra=made_by) as writer:
        yield writer


def _made_by(
    bundle: Bundle, sources: Sources, as_: str | None, long: LongPolicy, reading: Mapping[str, Any]
) -> dict[str, str]:
    """What is kept beside the vectors: the settings of the run, so that the same run can be told from another."""
    told = {key: value for key, value in sorted(reading.items()) if value is not None and value != _USUAL.get(key)}
    settings = {
        "precision": bundle.precision,
        "as": as_ or bundle.embedding.default_prompt or "",
        "long": long,
        "reading": " ".join(f"{key}={value}" for key, value in told.items()),
        "sources": sources.fingerprint,
    }
    return {key: value for key, value in settings.items() if value}


def _finished_before(out: Path, fingerprint: str, made_by: Mapping[str, str]) -> bool:
    """Whether `out` is there already as this run would write it; raise DataError when something else is."""
    beside = sidecar_path(out) if vector_format(out) == ".npy" else None
    there = [path for path in (out, beside) if path is not None and os.path.lexists(path)]
    if not there:
        return False
    _refuse_changed(out, there[0], fingerprint, made_by)
    if "sources" not in made_by:
        raise DataError(f"{out} exists, and whether stdin holds what it was made of can't be told; {_ADVICE}")
    return True


def _refuse_changed(out: Path, named: Path, fingerprint: str, made_by: Mapping[str, str], *, but: str = "") -> None:
    """Raise DataError unless the file was made so, one setting apart."""
    try:
        found, settings = read_about(out)
    except DataError as error:
        raise DataError(f"{named} exists and is no finished output of anaume ({error}); {_ADVICE}") from None
    wanted = {"fingerprint": fingerprint, **made_by}
    before = {"fingerprint": found, **settings}
    names = [name for name in dict.fromkeys([*wanted, *before]) if name != but]
    changed = [(name, before.get(name), wanted.get(name)) for name in names if before.get(name) != wanted.get(name)]
    if changed:
        changes = ", ".join(f"{name} {_short(was)} is now {_short(now)}" for name, was, now in changed)
        raise DataError(f"{out} exists and was made otherwise: {changes}; {_ADVICE}")


def _short(value: object) -> str:
    text = "nothing" if value in (None, "") else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."


def _refuse_own_input(paths: Sequence[str | Path], out: str | Path) -> None:
    for path in paths:
        if str(path) != STDIN and os.path.exists(out) and os.path.samefile(path, out):
            raise SettingsError(f"{out} is the output and one of the inputs; name another output")
