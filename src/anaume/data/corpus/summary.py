"""What preparing a corpus did, as its record tells, and what the user should know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.data.corpus.documents import Reading
from anaume.data.corpus.sentences import LONGEST_SENTENCE
from anaume.data.corpus.shards import SPLITS


@dataclass(frozen=True, kw_only=True)
class SplitSummary:
    """How much one part of the corpus holds."""

    documents: int
    sentences: int
    tokens: int
    characters: int


@dataclass(frozen=True, kw_only=True)
class PrepareSummary:
    """What `prepare_corpus` did."""

    out: str
    finished_before: bool
    """True: the corpus was there, made from the same sources with the same settings, and nothing was done."""
    shards: int
    shards_kept: int
    """Shards that an earlier, stopped run had finished."""
    train: SplitSummary
    held_out: SplitSummary
    duplicates: int
    """Documents left out as exact copies of earlier ones."""
    near_duplicates: int
    vocab_size: int
    tokenizer_fingerprint: str
    sample_characters: int | None
    """What the vocabulary was learned from; None when a tokenizer was given."""
    source_characters: int
    unknown_share: float
    """The share of the tokens that the vocabulary does not hold, 0 to 1."""
    pieces_per_word: float
    notes: tuple[str, ...]
    """What the user should know, in words; warned about once."""
    seconds: float


def later_notes(reading: Reading, shards: list[dict[str, Any]], tokens: int, unknown: int) -> list[str]:
    """Return, in words, what only the finished shards tell."""
    notes = []
    documents = sum(entry["documents"] for entry in shards)
    single = sum(entry["single"] for entry in shards)
    if reading.layout == "sentences" and documents >= 5 and single >= 0.9 * documents:
        notes.append(
            f"{single / documents:.0%} of the documents have one sentence: is there a blank line after every "
            "sentence? Sentence pairs need documents of several"
        )
    if cuts := sum(entry["cuts"] for entry in shards):
        notes.append(f"cuts in sentences of more than {LONGEST_SENTENCE:,} characters: {cuts:,}")
    if empty := sum(entry["empty"] for entry in shards):
        notes.append(f"documents left out because they have no token: {empty:,}")
    if unknown >= 0.01 * tokens:
        notes.append(f"{unknown / tokens:.1%} of the tokens are unknown to the vocabulary")
    return notes


def summarise(
    out: Path, record: Mapping[str, Any], *, kept: int, finished_before: bool, seconds: float
) -> PrepareSummary:
    """Return the summary of a corpus from its record."""
    parts = {}
    for split in SPLITS:
        own = [entry for entry in record["shards"] if entry["split"] == split]
        sizes = {name: sum(entry[name] for entry in own) for name in SplitSummary.__dataclass_fields__}
        parts[split] = SplitSummary(**sizes)
    learned = record["learned"]
    return PrepareSummary(
        out=str(out),
        finished_before=finished_before,
        shards=len(record["shards"]),
        shards_kept=kept,
        train=parts["train"],
        held_out=parts["held-out"],
        duplicates=record["duplicates"],
        near_duplicates=record["near_duplicates"],
        vocab_size=record["vocab_size"],
        tokenizer_fingerprint=record["tokenizer_fingerprint"],
        sample_characters=None if learned is None else learned["sample_characters"],
        source_characters=record["characters_read"],
        unknown_share=record["unknown"] / record["tokens"],
        pieces_per_word=record["tokens"] / record["words"],
        notes=tuple(record["notes"]),
        seconds=seconds,
    )
