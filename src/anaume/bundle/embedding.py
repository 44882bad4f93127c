"""From texts to vectors: prompt, tokens, windows, batches by length, engine, back into input order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from anaume.config import EmbeddingConfig
from anaume.data import pad, token_budget_batches
from anaume.engines import Batch, Engine, Vectors, side_by_side
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError, nearest
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer, voicing_lost

log = get_logger(__name__)

LongPolicy = Literal["truncate", "window", "error"]
LONG_POLICIES: tuple[LongPolicy, ...] = ("truncate", "window", "error")

UNKNOWN_LIMIT = 0.05
"""Above this share of [UNK] pieces a call warns: the vocabulary does not fit the text."""
CHUNK = 16_384
"""Texts that are tokenised and sorted at once: enough to fill batches of equal length, bounded in memory."""


@dataclass(frozen=True)
class EmbedReport:
    """Vectors, and what the model saw of the texts."""

    vectors: Vectors
    """(n, embedding_size) float32, in input order."""
    coverage: npt.NDArray[np.float64]
    """(n,): the share of each text's pieces that the model saw, 0 to 1."""
    pieces: int
    """Pieces of all texts, special tokens apart."""
    unknown: int
    """How many of them the vocabulary does not hold."""
    fingerprint: str
    """Of the model that made the vectors: vectors of different fingerprints must not be compared."""
    precision: str
    """The precision they were computed in."""
    voiced: int
    """Voiced kana whose marks the tokenizer strips; 0 where it keeps them."""
    messages: tuple[str, ...]
    """What is to be said of these texts, in words; a call warns about it."""

    @property
    def unknown_share(self) -> float:
        """The share of unknown pieces, 0 to 1."""
        return self.unknown / self.pieces if self.pieces else 0.0

    @property
    def cut(self) -> int:
        """How many texts the model did not see whole."""
        return int((self.coverage < 1.0).sum())


@dataclass
class EmbedTotals:
    """What the model saw of one chunk of texts after the other."""

    texts: int = 0
    seen: float = 0.0
    """The sum of the texts' coverages."""
    cut: int = 0
    seen_of_cut: float = 0.0
    """The sum of the coverages of those that were cut."""
    pieces: int = 0
    unknown: int = 0
    voiced: int = 0

    def add(self, report: EmbedReport) -> None:
        """Count one more chunk."""
        self.count(report.coverage, report.pieces, report.unknown, report.voiced)

    def count(self, coverage: npt.NDArray[np.float64], pieces: int, unknown: int, voiced: int) -> None:
        """Count texts by their coverages, (n,), pieces and voiced kana."""
        cut = coverage < 1.0
        self.texts += len(coverage)
        self.seen += float(coverage.sum())
        self.cut += int(cut.sum())
        self.seen_of_cut += float(coverage[cut].sum())
        self.pieces += pieces
        self.unknown += unknown
        self.voiced += voiced

    def merge(self, other: EmbedTotals) -> None:
        """Count what another one has counted."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def messages(self, embedding: EmbeddingConfig) -> tuple[str, ...]:
        """Return what a user must be told of these texts, with counts; () when the model saw all and knew it."""
        return tuple(_messages(self, embedding))


def embed_texts(
    texts: Sequence[str],
    *,
    tokenizer: Tokenizer,
    engine: Engine,
    embedding: EmbeddingConfig,
    embedding_size: int,
    fingerprint: str = "",
    as_: str | None = None,
    long: LongPolicy = "truncate",
    progress: bool = False,
    warn: bool = True,
) -> EmbedReport:
    """Embed texts; `Bundle.embed_report` says what the arguments mean and what is raised.

    warn  False = what is to be said stands in the report alone, and vectors that are not finite are the caller's to
          find: for calls that are part of a larger one
    """
    texts = checked_texts(texts)
    if long not in LONG_POLICIES:
        raise SettingsError(
            f"long must be one of {', '.join(LONG_POLICIES)}; got {long!r}{nearest(str(long), LONG_POLICIES)}"
        )
    prompt = _prompt(embedding, as_)
    vectors = np.zeros((len(texts), embedding_size), dtype=np.float32)
    coverage = np.ones(len(texts), dtype=np.float64)
    pieces = unknown = 0
    for start in _chunks(len(texts), progress):
        rows = slice(start, start + CHUNK)
        prompted = [prompt + text for text in texts[rows]] if prompt else list(texts[rows])
        encoded = tokenizer.row_encoder.encode(prompted, embedding.max_length)
        chunk_coverage = encoded.coverage
        cut = np.flatnonzero(chunk_coverage < 1.0)
        if len(cut) and long == "error":
            raise _too_long(start + int(cut[0]), int(encoded.total[cut[0]]), embedding.max_length, len(cut))
        skipped = _prompt_length(tokenizer, prompt) if prompt and not embedding.include_prompt else 0
        pieces += int(encoded.kept.sum())
        unknown += int(encoded.unknown.sum())
        vectors[rows] = _embed_rows(encoded.lengths, encoded.padded, engine, embedding_size, skipped)
        if len(cut) and long == "window":
            own_engine = engine.for_tokens(int(encoded.total[cut].sum()))
            whole = partial(
                _embed_windows,
                tokenizer=tokenizer,
                engine=own_engine,
                embedding=embedding,
                embedding_size=embedding_size,
                skipped=skipped,
            )
            found = side_by_side(whole, (prompted[index] for index in cut), own_engine.at_once())
            for index, (own, own_pieces, own_unknown) in zip(cut, found, strict=True):
                vectors[start + index] = own
                pieces += own_pieces - int(encoded.kept[index])
                unknown += own_unknown - int(encoded.unknown[index])
            chunk_coverage[cut] = 1.0
        coverage[rows] = chunk_coverage
        if warn:
            require_finite(vectors[rows], start)
    voiced = voicing_lost(tokenizer, texts)
    totals = EmbedTotals()
    totals.count(coverage, pieces, unknown, voiced)
    messages = totals.messages(embedding)
    if messages and warn:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=4)
    return EmbedReport(vectors, coverage, pieces, unknown, fingerprint, engine.precision, voiced, messages)


def require_finite(vectors: npt.NDArray[np.float32], first: int = 0) -> None:
    """Raise BundleError when the model gave NaN or infinite numbers for a text.

    vectors  (n, ...), one entry a text; `first` is the number of the first text
    """
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=tuple(range(1, vectors.ndim))))
    if len(broken):
        raise BundleError(
            f"the model gives NaN or infinite numbers for {len(broken)} of {len(vectors)} texts, first text "
            f"{first + int(broken[0])}: its weights are damaged or overflow; load a sound checkpoint"
        )


def checked_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts as a list. Raises SettingsError for what is no list, DataError for a text that is no string."""
    if isinstance(texts, (str, bytes)):
        raise SettingsError(f"texts must be a list of strings; got one {type(texts).__name__}: put it into a list")
    try:
        texts = list(texts)
    except TypeError:
        raise SettingsError(f"texts must be a list of strings; got {type(texts).__name__}") from None
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {index} must be a string; got {type(text).__name__}: {text!r:.60}")
    return texts


def _prompt(embedding: EmbeddingConfig, as_: str | None) -> str:
    if as_ is not None and not isinstance(as_, str):
        raise SettingsError(f"as_ must be the name of a prompt, or None; got {as_!r:.60}")
    name = embedding.default_prompt if as_ is None else as_
    if name is None:
        return ""
    if name in embedding.prompts:
        return embedding.prompts[name]
    if as_ in ("query", "passage") and not embedding.prompts:
        return ""  # a model without prompts embeds queries and passages alike
    known = ", ".join(embedding.prompts) or "none"
    raise SettingsError(f"the bundle has no prompt called {name!r}{nearest(name, embedding.prompts)}; it has: {known}")


def _prompt_length(tokenizer: Tokenizer, prompt: str) -> int:
    """Tokens of a row that belong to the prompt: [CLS] and the prompt's pieces (as sentence-transformers counts)."""
    return len(tokenizer.encode(prompt).token_ids) - 1


def _chunks(total: int, progress: bool) -> Iterator[int]:
    starts = range(0, total, CHUNK)
    if not progress:
        yield from starts
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(starts, description="embedding", console=Console(stderr=True))


def _embed_rows(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    padded: Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]],
    engine: Engine,
    embedding_size: int,
    skipped: int,
) -> Vectors:
    """Embed rows in batches of similar length, side by side where the engine can; the result is in the rows' order."""
    vectors = np.zeros((len(lengths), embedding_size), dtype=np.float32)
    engine = engine.for_tokens(int(np.sum(lengths)))
    batches = token_budget_batches(lengths, engine.max_batch_tokens, close=True)
    at_once = engine.at_once() if len(batches) > 1 else 1
    found = side_by_side(lambda batch: _run(engine, *padded(batch), skipped), batches, at_once)
    for batch, own in zip(batches, found, strict=True):
        vectors[batch] = own
    return vectors


def _run(
    engine: Engine, token_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.bool_], skipped: int
) -> Vectors:
    pooling_mask = None
    if skipped:
        pooling_mask = attention_mask.copy()
        pooling_mask[:, :skipped] = False
    return engine.embed(Batch(token_ids, attention_mask, pooling_mask=pooling_mask))


def _embed_windows(
    text: str, *, tokenizer: Tokenizer, engine: Engine, embedding: EmbeddingConfig, embedding_size: int, skipped: int
) -> tuple[Vectors, int, int]:
    """Return one vector for a long text, and its pieces and unknown ones: its windows' vectors averaged by tokens."""
    windows = tokenizer.windows(text, max_length=embedding.max_length, stride=0)
    vectors = np.zeros((len(windows), embedding_size), dtype=np.float32)
    lengths = [len(window.token_ids) for window in windows]
    for batch in token_budget_batches(lengths[1:], engine.max_batch_tokens, close=True):
        rows = [windows[1 + index].token_ids for index in batch]
        vectors[1 + batch] = _run(engine, *pad(rows, tokenizer.pad_id), 0)
    vectors[:1] = _run(engine, *pad([windows[0].token_ids], tokenizer.pad_id), skipped)  # it alone holds the prompt
    mean: Vectors = np.average(vectors, axis=0, weights=np.array(lengths, dtype=np.float32)).astype(np.float32)
    if embedding.normalize:
        mean /= max(float(np.linalg.norm(mean)), 1e-12)
    return mean, sum(window.pieces for window in windows), sum(window.unknown for window in windows)


def _too_long(index: int, total: int, max_length: int, count: int) -> DataError:
    more = f", nor do {count - 1} more texts near it" if count > 1 else ""
    return DataError(
        f"text {index} has {total} pieces and does not fit into {max_length} tokens (max_length){more}: split it, or "
        "use long='window' or long='truncate'"
    )


def told_of_vocabulary(unknown: int, pieces: int, voiced: int, whose: str = "the pieces") -> list[str]:
    """Return what must be told of how a vocabulary fits: pieces it does not hold, and kana that lose their marks."""
    told = []
    if pieces and unknown / pieces > UNKNOWN_LIMIT:
        told.append(
            f"{unknown / pieces:.1%} of {whose} ({unknown:,} of {pieces:,}) are unknown to the vocabulary: it was not "
            "made for this text; use a bundle whose vocabulary was"
        )
    if voiced:
        told.append(
            f"the tokenizer strips the voicing marks of {voiced:,} kana (バス becomes ハス): for Japanese use a "
            "vocabulary made with strip_accents=False and split_cjk=False, or words='mecab'"
        )
    return told


def _messages(totals: EmbedTotals, embedding: EmbeddingConfig) -> Iterator[str]:
    if embedding.pooling is None and totals.texts:
        yield (
            "this bundle has no pooling: its encoder was never trained for similarity, so the mean of its token "
            "vectors is a weak sentence vector; use a sentence-embedding bundle, or choose with `with_embedding`"
        )
    if totals.cut:
        yield (
            f"{totals.cut} of {totals.texts} texts were longer than {embedding.max_length} tokens and were cut "
            f"(the model saw {totals.seen_of_cut / totals.cut:.0%} of them on average): long='window' embeds them whole"
        )
    yield from told_of_vocabulary(totals.unknown, totals.pieces, totals.voiced)
