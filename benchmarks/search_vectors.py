"""Many vectors: those of real sentences and paragraphs, and copies of them moved a little; with real questions.

out/benchmarks/vectors/real.npy, questions.npy, about.json    what the checkpoint gives, made once
out/benchmarks/vectors/COUNT/vectors.npy, truth.npy           so many vectors, and the questions' ten nearest
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import anaume
from anaume.bundle import Bundle
from anaume.data import atomic_file
from benchmarks import finetune_made, harness
from benchmarks.harness import say
from benchmarks.sources import public_data

CHECKPOINT = "all-MiniLM-L6-v2"
NEAREST = 10
MOVED = 0.4
"""A copy of v is v + MOVED x (u - w), of length 1 again, u and w two others drawn: it moves as the data vary."""
TUNING, ASKED = 100, 900
"""Questions that settings of the others are tuned on, and those that are timed and counted."""
_CHUNK = 50_000

Vectors = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class VectorSet:
    """So many vectors.

    made  of tests and --quick: made-up vectors of a made-up bundle, which need no data
    """

    count: int
    made: bool = False
    folder: Path = harness.KEPT / "vectors"

    @property
    def own(self) -> Path:
        """The folder of this count."""
        return self.folder / f"{'made-' if self.made else ''}{self.count}"

    @cached_property
    def bundle(self) -> Bundle:
        """What makes such vectors."""
        return finetune_made.bundle() if self.made else anaume.load(CHECKPOINT, precision="bfloat16", device="cpu")

    @property
    def questions(self) -> Vectors:
        """(TUNING + ASKED, size), of length 1."""
        return self._source()[1]

    @property
    def real(self) -> int:
        """How many of the vectors are no copies."""
        return min(self.count, len(self._source()[0]))

    def text(self, row: int) -> str:
        """Return the text of a vector; a copy has its original's."""
        texts = self._texts
        return texts[row % len(texts)]

    def vectors(self) -> Vectors:
        """Return (count, size), mapped from the disk, made if it is not there yet."""
        path = self.own / "vectors.npy"
        if not path.exists():
            source = self._source()[0]
            size = source.shape[1]
            self.own.mkdir(parents=True, exist_ok=True)
            say(f"making {self.count:,} vectors")
            half = path.with_suffix(".half")
            out = np.lib.format.open_memmap(half, mode="w+", dtype=np.float32, shape=(self.count, size))
            draw = np.random.default_rng(0)
            for start in range(0, self.count, _CHUNK):
                rows = np.arange(start, min(self.count, start + _CHUNK))
                u, w = (source[draw.integers(0, len(source), len(rows))] for _ in range(2))
                moved = source[rows % len(source)] + MOVED * (rows >= len(source))[:, None] * (u - w)
                out[rows] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
            out.flush()
            half.rename(path)
        vectors: Vectors = np.load(path, mmap_mode="r")
        return vectors

    def truth(self) -> NDArray[np.int64]:
        """Return (questions, NEAREST): the rows of the nearest vectors, found by going through all of them."""
        path = self.own / "truth.npy"
        if not path.exists():
            vectors, questions = self.vectors(), self.questions
            best, ids = np.empty((len(questions), 0), np.float32), np.empty((len(questions), 0), np.int64)
            for start in range(0, self.count, _CHUNK):
                scores = questions @ vectors[start : start + _CHUNK].T
                kept = np.argpartition(-scores, min(NEAREST, scores.shape[1] - 1), axis=1)[:, :NEAREST]
                best = np.concatenate([best, np.take_along_axis(scores, kept, 1)], axis=1)
                ids = np.concatenate([ids, kept + start], axis=1)
                order = np.argsort(-best, axis=1, kind="stable")[:, :NEAREST]
                best, ids = np.take_along_axis(best, order, 1), np.take_along_axis(ids, order, 1)
            with atomic_file(path) as file:
                np.save(file, ids)
        truth: NDArray[np.int64] = np.load(path)
        return truth

    @cached_property
    def _texts(self) -> list[str]:
        if self.made:
            return [f"a {number % 7} of {number % 11}" for number in range(self.count)]
        return sentences()

    def _source(self) -> tuple[Vectors, Vectors]:
        """Return the vectors of the texts and of the questions."""
        if self.made:
            draw, size = np.random.default_rng(0), self.bundle.embedding_size
            centres = draw.normal(size=(40, size))
            made = centres[draw.integers(0, 40, self.count + TUNING + ASKED)]
            made = made + 0.5 * draw.normal(size=made.shape)
            unit = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
            return unit[: self.count], unit[self.count :]
        texts, asked = sentences(), questions()
        about = {"checkpoint": CHECKPOINT, "sha256": hashlib.sha256("\n".join([*texts, *asked]).encode()).hexdigest()}
        paths, told = [self.folder / "real.npy", self.folder / "questions.npy"], self.folder / "about.json"
        if not (told.exists() and json.loads(told.read_text(encoding="utf-8")) == about):
            say(f"embedding {len(texts):,} texts and {len(asked):,} questions")
            self.folder.mkdir(parents=True, exist_ok=True)
            for path, own in zip(paths, (texts, asked), strict=True):
                with atomic_file(path) as file:
                    np.save(file, self.bundle.embed(own))
            with atomic_file(told) as file:
                file.write(json.dumps(about).encode())
        real, asking = (np.load(path) for path in paths)
        return real, asking


def sentences() -> list[str]:
    """Return real texts, each once: paragraphs of SQuAD, questions of Quora, sentences of SNLI and Tanaka's corpus."""
    found: dict[str, None] = {}
    squad = json.loads(gzip.decompress(public_data("squad/dev-v2.0.cs224n-half.json.gz").read_bytes()))
    found |= {paragraph["context"].strip(): None for article in squad["data"] for paragraph in article["paragraphs"]}
    with gzip.open(public_data("glue_subsets/QQP/train.tsv.gz"), "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            found |= {row["question1"].strip(): None, row["question2"].strip(): None}
    with gzip.open(public_data("snli/validation.tsv.gz"), "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found |= {row["premise"].strip(): None, row["hypothesis"].strip(): None}
    english = gzip.decompress(public_data("small_parallel_enja/train.en.gz").read_bytes()).decode("utf-8")
    found |= {line.strip(): None for line in english.splitlines()[:20_000]}
    found.pop("", None)
    return list(found)


def questions() -> list[str]:
    """Return real questions: of SQuAD, whose paragraphs are there, and of Quora, none of which is; half and half."""
    squad = json.loads(gzip.decompress(public_data("squad/dev-v2.0.cs224n-half.json.gz").read_bytes()))
    parts = [part for article in squad["data"] for part in article["paragraphs"]]
    asked = [one["question"].strip() for part in parts for one in part["qas"]]
    with open(public_data("glue_subsets/QQP/dev.tsv"), encoding="utf-8", newline="") as file:
        others = [row["question1"].strip() for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    there, half = set(sentences()), (TUNING + ASKED) // 2
    apart = [[one for one in dict.fromkeys(own) if one and one not in there] for own in (asked, others)]
    chosen = [own[number * len(own) // half] for number in range(half) for own in apart]
    return chosen
