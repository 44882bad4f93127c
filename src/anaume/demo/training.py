"""The demo's training station: an encoder from raw text in a few minutes, and the blanks it fills."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anaume.bundle import Bundle
from anaume.data import atomic_file
from anaume.data.corpus.entropy import unigram_entropy
from anaume.data.corpus.prepare import prepare_corpus
from anaume.data.corpus.shards import Corpus, open_corpus
from anaume.data.docstrings import Paragraph
from anaume.errors import AnaumeWarning
from anaume.training import PretrainResult, PretrainSettings, pretrain

# Few, small and many steps: the best of the shapes tried for so little time (docs/log.md).
VOCAB_SIZE = 4000
SETTINGS = (
    "model.size=custom",
    "model.hidden_size=128",
    "model.num_hidden_layers=2",
    "model.dropout=0.0",
    "data.seq_len=64",
    "run.batch_rows=16",
    "run.evaluations=1",
    "run.curves=false",
    "optimizer.learning_rate=1.5e-3",
    "optimizer.weight_decay=0.1",
)


@dataclass(frozen=True)
class BlankScores:
    """How often the hidden word was among the first guesses, beside always guessing the commonest words."""

    blanks: int
    top1: float
    top5: float
    commonest_top1: float
    commonest_top5: float


def train_from_text(
    paragraphs: Sequence[Paragraph], folder: Path, *, minutes: float, seed: int = 0
) -> tuple[Bundle, PretrainResult, Corpus]:
    """Learn a vocabulary and an encoder from the paragraphs; everything lies in `folder` afterwards."""
    texts = folder / "paragraphs.jsonl"
    with atomic_file(texts) as file:
        for paragraph in paragraphs:
            file.write((json.dumps({"text": paragraph.text}) + "\n").encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # over-long sentences of a few docstrings
        prepare_corpus(texts, folder / "corpus", vocab_size=VOCAB_SIZE, language="en", held_out=0.05)
    settings = PretrainSettings().with_values([*SETTINGS, f"run.minutes={minutes}", f"run.seed={seed}"])
    result = pretrain(folder / "corpus", folder / "run", settings, device="cpu")
    return Bundle.load(folder / "run" / "bundle", device="cpu"), result, open_corpus(folder / "corpus")


def floor(corpus: Corpus) -> float:
    """Return the loss of a model that knows how often each token occurs and nothing else, in nats."""
    return unigram_entropy(corpus.split("train").token_counts())


def score_blanks(bundle: Bundle, corpus: Corpus, *, count: int = 2000, seed: int = 0) -> BlankScores:
    """Hide one piece in each of `count` held-out sentences and ask for it back."""
    rows, places = _held_out_rows(bundle, corpus, count, seed)
    answers = np.array([row[place] for row, place in zip(rows, places, strict=True)])
    hidden = [
        [*row[:place], bundle.tokenizer.mask_id, *row[place + 1 :]] for row, place in zip(rows, places, strict=True)
    ]
    scores = bundle.token_log_probabilities(hidden, places)
    ranks = (scores > scores[np.arange(len(answers)), answers][:, None]).sum(axis=1)
    commonest = np.argsort(-corpus.split("train").token_counts(), kind="stable")[:5]
    return BlankScores(
        blanks=len(answers),
        top1=float((ranks < 1).mean()),
        top5=float((ranks < 5).mean()),
        commonest_top1=float((answers == commonest[0]).mean()),
        commonest_top5=float(np.isin(answers, commonest).mean()),
    )


def some_blanks(bundle: Bundle, corpus: Corpus, *, count: int = 5, seed: int = 1) -> list[tuple[str, str, list[str]]]:
    """Return (sentence with a blank, what stood there, best guesses) for held-out sentences drawn by seed."""
    rows, places = _held_out_rows(bundle, corpus, count, seed)
    vocab = bundle.tokenizer.vocab
    shown = []
    for row, place in zip(rows, places, strict=True):
        hidden = [*row[:place], bundle.tokenizer.mask_id, *row[place + 1 :]]
        best = np.argsort(-bundle.token_log_probabilities([hidden], [place])[0])[:5]
        words = bundle.tokenizer.decode(hidden[1:place]), bundle.tokenizer.decode(hidden[place + 1 : -1])
        shown.append((f"{words[0]} [MASK] {words[1]}", vocab[row[place]], [vocab[index] for index in best.tolist()]))
    return shown


def _held_out_rows(bundle: Bundle, corpus: Corpus, count: int, seed: int) -> tuple[list[list[int]], list[int]]:
    draw = random.Random(seed)
    tokenizer = bundle.tokenizer
    sentences = []
    for shard in corpus.split("held-out").shards:
        bounds = shard.sentence_starts
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if 8 <= stop - start <= 60:
                sentences.append(shard.token_ids[start:stop].tolist())
    rows, places = [], []
    for _ in range(count):
        pieces = draw.choice(sentences)
        rows.append([tokenizer.cls_id, *pieces, tokenizer.sep_id])
        places.append(1 + draw.randrange(len(pieces)))
    return rows, places
