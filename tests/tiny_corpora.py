"""Tiny corpora: shards written straight from numbers, and a whole corpus a tiny model can learn from."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anaume.data.corpus import CorpusSplit, prepare_corpus
from anaume.data.corpus.shards import Shard, ShardCounts, write_shard
from helpers import make_tokenizer

Documents = Sequence[Sequence[Sequence[int]]]
"""Documents -> sentences -> token IDs."""

WORDS = [f"w{number:02}" for number in range(40)]


def write_split(
    folder: Path, *shards: Documents, words: Sequence[Sequence[int]] | None = None, vocab_size: int = 1 << 20
) -> CorpusSplit:
    """Write one shard for each list of documents; `words` are the word starts of each shard (None: all 1)."""
    made = []
    for number, documents in enumerate(shards):
        sentences = [sentence for document in documents for sentence in document]
        tokens = np.array([token for sentence in sentences for token in sentence], dtype=np.int32)
        sentence_starts = np.cumsum([0, *map(len, sentences)], dtype=np.int64)
        document_starts = np.cumsum([0, *map(len, documents)], dtype=np.int64)
        starts = np.ones(len(tokens), np.uint8) if words is None else np.array(words[number], np.uint8)
        path = folder / f"train-{number:05}.arrow"
        write_shard(path, tokens, starts, sentence_starts, document_starts)
        counts = ShardCounts(
            documents=len(documents), sentences=len(sentences), tokens=len(tokens), characters=len(tokens)
        )
        made.append(Shard(path, counts))
    return CorpusSplit("train", made, np.zeros(vocab_size, np.int64))


def numbered(lengths: Sequence[Sequence[int]], first: int = 10) -> list[list[list[int]]]:
    """Documents whose sentences have these lengths; every token of all is another number, counted from `first`."""
    documents, token = [], first
    for document in lengths:
        sentences = []
        for length in document:
            sentences.append(list(range(token, token + length)))
            token += length
        documents.append(sentences)
    return documents


def realistic(count: int, seed: int = 0, longest: int = 60) -> list[list[int]]:
    """Lengths of the sentences of documents, as in prose: many short documents, some long ones."""
    chance = random.Random(seed)
    documents = []
    for _ in range(count):
        sentences = 1 + int(chance.paretovariate(1.0)) if chance.random() < 0.8 else chance.randint(20, longest)
        documents.append([max(3, int(chance.lognormvariate(3.0, 0.5))) for _ in range(min(sentences, longest))])
    return documents


def make_corpus(folder: Path, documents: int = 60, seed: int = 1) -> Path:
    """Make a corpus with its tokenizer and held-out documents; return its folder.

    Every document speaks of three words only: what stands in a gap is likely among its neighbours.
    """
    chance = random.Random(seed)
    source = folder / "texts.jsonl"
    with open(source, "w", encoding="utf-8") as file:
        for _ in range(documents):
            topic = chance.sample(WORDS, 3)
            sentences = [
                " ".join(chance.choices(topic, k=chance.randint(3, 9))).capitalize() + "."
                for _ in range(chance.randint(1, 8))
            ]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    out = folder / "corpus"
    prepare_corpus(source, out, tokenizer=make_tokenizer([*WORDS, ".", ","]), held_out=0.1, workers=1)
    return out
