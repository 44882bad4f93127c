"""The corpora of the pretraining benchmarks: made once, kept, and free of the sentences of evaluation sets.

    out/benchmarks/corpora/NAME/
      train.jsonl      the documents to train on
      held-out.jsonl   about two in a hundred, chosen by the hash of their text: no run trains on them, in no corpus
      about.json       what was read, left out and held back; written last
      TOKENIZER/       train.jsonl prepared with that tokenizer, with a held-out part of its own

A folder that is removed is made again, from what the machine has then. Tokenizers are "bert", the published
bert-base-uncased vocabulary, and "own-N", N entries learned on the training text.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.checks.overlap import OverlapFinder
from anaume.data import atomic_file
from anaume.data.corpus import prepare_corpus
from anaume.data.corpus.units import units
from anaume.errors import AnaumeWarning, SettingsError, nearest
from anaume.tokenization import Tokenizer
from benchmarks import livedoor
from benchmarks.harness import say
from benchmarks.sources import (
    CORPORA,
    EVALUATION,
    INSTALLED,
    JAPANESE_EVALUATION,
    REVIEWS,
    Source,
    public_data,
    share_of,
    standard_library,
)

ABOUT, TRAIN, HELD_OUT = "about.json", "train.jsonl", "held-out.jsonl"
BERT, OWN = "bert", re.compile(r"own-(\d+)")
LEAST_WORDS = 3
"""An evaluation set's sentence has at least so many words to count as found."""


@dataclass(frozen=True)
class Text:
    """What a corpus is made of."""

    sources: Mapping[str, Source]
    back: float = 0.02
    """Share of the documents that is held back as text."""
    held_out: float = 0.05
    """Share of the rest that `prepare_corpus` keeps out of training."""
    language: str = "en"
    judged: Mapping[str, Callable[[], Iterable[str]]] | None = None
    """Evaluation sets that it must not hold; None = `EVALUATION`."""


TEXTS = {
    "reviews": Text(REVIEWS),
    "large": Text(REVIEWS | INSTALLED, held_out=0.01),
    "demo": Text(standard_library(), back=0.0),  # the demo's; it fills blanks in the corpus's own held-out part
    "livedoor": Text(
        {"Livedoor news": livedoor.documents}, back=livedoor.BACK, language="ja", judged=JAPANESE_EVALUATION
    ),
    "quick": Text(standard_library(2_000)),
}


class Leaks:
    """Knows sentences of evaluation sets, and the documents that hold one: normalised, whole or as a part.

    Those of one or two words ("bad", "first half") are passed by: they are no sentences, and occur anywhere.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        self._by_start: dict[tuple[str, ...], list[list[str]]] = {}
        for words in map(units, sentences):
            if len(words) >= LEAST_WORDS:
                self._by_start.setdefault(tuple(words[:LEAST_WORDS]), []).append(words)

    def held_by(self, document: str) -> bool:
        """Whether a sentence occurs in the document."""
        words = units(document)
        for at, start in enumerate(zip(*(words[shift:] for shift in range(LEAST_WORDS)), strict=False)):
            if any(words[at : at + len(one)] == one for one in self._by_start.get(start, ())):
                return True
        return False


# -- making -----------------------------------------------------------------------------------------------------------


def texts(name: str) -> Path:
    """Return the folder of a corpus's texts, made if it is not there yet. Raises SettingsError, DataError."""
    if name not in TEXTS:
        raise SettingsError(f"there is no corpus {name!r}{nearest(name, TEXTS)}; there are: {', '.join(TEXTS)}")
    folder = CORPORA / name
    if (folder / ABOUT).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    judged = EVALUATION if TEXTS[name].judged is None else TEXTS[name].judged
    leaks = Leaks(text for read in judged.values() for text in read())
    # Looks once more at what stays, by other code than what chose it.
    finder = OverlapFinder((source, filter(_is_sentence, read())) for source, read in judged.items())
    counts: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    with atomic_file(folder / TRAIN) as train, atomic_file(folder / HELD_OUT) as back:
        for source, read in TEXTS[name].sources.items():
            say(f"corpus {name}: reading {source}")
            counts[source] = own = dict.fromkeys(("documents", "characters", "held back", "leaks left out"), 0)
            for text in read(notes.append):
                if leaks.held_by(text):
                    own["leaks left out"] += 1
                    continue
                held_back = share_of(text) < TEXTS[name].back
                (back if held_back else train).write((json.dumps({"text": text}) + "\n").encode())
                own["held back" if held_back else "documents"] += 1
                if not held_back:
                    own["characters"] += len(text)
                    finder.show(text, ())
    overlap = {found.source: [found.whole + found.part, found.texts] for found in finder.overlaps()}
    with atomic_file(folder / ABOUT) as file:
        file.write((json.dumps({"sources": counts, "notes": notes, "overlap": overlap}, indent=1) + "\n").encode())
    say(size(name))
    return folder


def _is_sentence(text: str) -> bool:
    return len(units(text)) >= LEAST_WORDS


def held_out_texts(name: str) -> list[str]:
    """Return the documents that no run has seen, in a fixed order."""
    lines = (texts(name) / HELD_OUT).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def prepared(name: str, tokenizer: str) -> Path:
    """Return the corpus `name` made with a tokenizer, "bert" or "own-N". Raises SettingsError, DataError."""
    if tokenizer == BERT:
        how: dict[str, Any] = {"tokenizer": Tokenizer.from_vocab(public_data("vocab/bert-base-uncased-vocab.txt"))}
    elif match := OWN.fullmatch(tokenizer):
        how = {"vocab_size": int(match[1])}
    else:
        raise SettingsError(f"a tokenizer is {BERT!r} or own-N, as own-8000; got {tokenizer!r}")
    folder = texts(name)
    out = folder / tokenizer
    if not (out / "corpus.json").exists():
        say(f"corpus {name}: preparing with {tokenizer}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)  # over-long sentences of a few documents
            prepare_corpus(folder / TRAIN, out, language=TEXTS[name].language, held_out=TEXTS[name].held_out, **how)
    return out


# -- what a page says of it -------------------------------------------------------------------------------------------


def about(name: str) -> dict[str, Any]:
    """Return what was counted: sources, notes, and overlap, {evaluation set: [found, sentences]}."""
    told: dict[str, Any] = json.loads((texts(name) / ABOUT).read_text(encoding="utf-8"))
    return told


def overlap(name: str) -> dict[str, tuple[int, int]]:
    """Return {evaluation set: (its sentences that occur in the training text, its sentences)}; all must be 0."""
    return {source: (found, of) for source, (found, of) in about(name)["overlap"].items()}


def size(name: str) -> str:
    """Return one line about what a corpus is made of."""
    told = about(name)
    parts = [
        f"{source} {own['characters'] / 1e6:,.1f} M in {own['documents']:,}" for source, own in told["sources"].items()
    ]
    characters = sum(own["characters"] for own in told["sources"].values())
    back = sum(own["held back"] for own in told["sources"].values())
    notes = "".join(f" {note}." for note in told["notes"])
    return (
        f'Corpus "{name}": {characters / 1e6:,.1f} M characters (documents: {"; ".join(parts)}), {back:,} documents '
        f"held back as text.{notes}"
    )


def overlap_line(name: str) -> str:
    """Return the line about evaluation sets that every page prints; above 0 its figures are void."""
    left_out = sum(own["leaks left out"] for own in about(name)["sources"].values())
    found = ", ".join(f"{source} {count} of {of:,}" for source, (count, of) in overlap(name).items())
    return (
        f'Overlap of corpus "{name}" with evaluation sets, sentences that occur whole or as a part: {found}; '
        f"{left_out:,} documents that held one were left out. Sentences of one or two words, which occur anywhere, are "
        "not counted."
        + (" Above 0: every figure of it is void." if any(count for count, _ in overlap(name).values()) else "")
    )
