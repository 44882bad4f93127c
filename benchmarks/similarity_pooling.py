"""The pooling table of the Sentence-BERT paper at small scale: [CLS], mean and maximum, before and after training."""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from anaume.bundle import Bundle
from anaume.checks.overlap import OverlapFinder
from anaume.config import PoolingMethod
from anaume.data.labelled import SimilarityExample, read_labelled
from anaume.errors import AnaumeWarning
from anaume.training.finetuning.finetune import finetune_examples
from anaume.training.finetuning.settings import SimilaritySettings
from benchmarks import corpora, finetune_made, harness, scores
from benchmarks import study as pretraining
from benchmarks.jobs import Job, JobStudy, Line
from benchmarks.similarity_data import SETS, STSB_DEV, scored_pairs, spearman
from benchmarks.sources import public_data

Learned = Literal["nothing", "nli", "stsb"]
POOLINGS: tuple[PoolingMethod, ...] = ("mean", "max", "cls")
LEARNED: dict[Learned, str] = {"nothing": "before", "nli": "trained on NLI", "stsb": "trained on STS-B"}
SEEDS = (0, 1, 2)
PAPER: dict[Learned, dict[PoolingMethod, float]] = {
    "nothing": {"mean": 46.35, "cls": 16.50},
    "nli": {"mean": 80.78, "max": 79.07, "cls": 79.80},
    "stsb": {"mean": 87.44, "max": 69.92, "cls": 86.62},
}
"""Reimers and Gurevych 2019, table 6, STS-B dev; before training: table 2, STS-B test, where max is not told."""

COMMON = (
    "run.batch_rows=16",
    "optimizer.learning_rate=3e-4",
    "run.evaluations=0",
    "run.keep_checkpoints=1",
    "run.log_seconds=0",
    "run.precision=bfloat16",
    "data.dev_share=0.0",
)
TAUGHT: dict[Learned, tuple[str, ...]] = {
    "nothing": (),
    "nli": (*COMMON, "task.objective=softmax", "run.epochs=1"),
    "stsb": (*COMMON, "task.objective=cosine", "run.epochs=4"),
}

ABOUT = """\
An encoder of {layers} layers x {width}, vocabulary {tokenizer}, pretrained here: {steps:,} steps of 16 rows of 128
on corpus "reviews", all settings at their defaults (informed start). Then, as in the paper: `softmax` over (u, v,
|u - v|) on the 17,998 labelled pairs of SNLI and MultiNLI that are at hand (the paper: a million), one epoch; or
`cosine` on the 5,749 pairs of STS-B train, four epochs; batches of 16, one learning rate of 3e-4 for all. {seeds}
seeds: mean ± standard deviation of Spearman's correlation, in points. [CLS] is the last layer's vector of that
token. The paper's encoder is BERT base: its figures are higher, what may be compared is their order."""

FURTHER = """\
The mean of SICK and STS12-14, where nothing of them was learned: those trained on STS-B are not scored there."""


@dataclass(frozen=True, kw_only=True)
class Pretrained(Job):
    """The encoder, left in the row's folder."""

    steps: int = 1_200
    layers: int = 4
    width: int = 256
    tokenizer: str = "own-8000"
    corpus: str = "reviews"
    settings: tuple[str, ...] = ("run.batch_rows=16", "run.evaluations=0", "run.checkpoint_seconds=60")

    @property
    def row(self) -> pretraining.Row:
        """What the pretraining studies know how to train."""
        return pretraining.Row(
            name=self.name, minutes=0, settings=self.settings, layers=self.layers, width=self.width,
            corpus=self.corpus, tokenizer=self.tokenizer,
        )  # fmt: skip

    def run(self, folder: Path, threads: int | None) -> Line | None:
        corpus = corpora.prepared(self.corpus, self.tokenizer)
        trained = pretraining.train(self.row, self.steps, corpus, folder / "run", threads=threads or 2)
        if trained is None:
            return None
        held = scores.held_out(bundle_in(folder), corpus)
        line = {
            "scores": {"held_out_loss": held.loss, "held_out_accuracy": held.accuracy},
            "steps": self.steps,
            "trained_seconds": round(trained["seconds"], 1),
            "overlap": overlap(_documents(self.corpus), _evaluation()),
        }
        shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)  # the bundle stays
        return line


@dataclass(frozen=True, kw_only=True)
class Pooled(Job):
    """The encoder with one pooling, as it is or trained.

    start  the encoder's row; None = the made-up bundle of tests, which is trained and scored on made-up pairs
    """

    pooling: PoolingMethod
    learned: Learned
    seed: int = 0
    start: Pretrained | None = None
    settings: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.start is None else (self.start,)

    def run(self, folder: Path, threads: int | None) -> Line | None:
        torch.set_num_threads(threads or torch.get_num_threads())
        bundle = finetune_made.bundle() if self.start is None else bundle_in(folder.parent / self.start.name)
        examples = learned(self.learned, made=self.start is None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)
            if self.learned == "nothing":
                pooled = bundle.with_embedding(replace(bundle.embedding, pooling=self.pooling, normalize=True))
            else:
                own = [*self.settings, f"task.pooling={self.pooling}", f"run.seed={self.seed}"]
                own += [f"run.threads={torch.get_num_threads()}"]
                report = finetune_examples(
                    "similarity",
                    examples,
                    folder / "run",
                    bundle=bundle,
                    settings=SimilaritySettings().with_values(own),
                    seeds=1,
                    device="cpu",
                )
                if not report.finished:
                    return None
                pooled = Bundle.load(report.bundle, device="cpu")
            scored = self._scored()
            found = {name: spearman(pairs, pooled.embed) for name, pairs in scored.items()}
        shutil.rmtree(folder)  # weights of every row would fill the disk
        shared = overlap(_texts(examples), {name: list(_texts(pairs)) for name, pairs in scored.items()})
        return {"scores": found, "examples": len(examples), "overlap": shared}

    def _scored(self) -> dict[str, Sequence[SimilarityExample]]:
        names = [name for name, own in SETS.items() if own.task == "sts" and not (own.stsb and self.learned == "stsb")]
        if self.start is None:
            return dict.fromkeys(names, learned("stsb", made=True))
        return {name: scored_pairs(name) for name in names}


def bundle_in(folder: Path) -> Bundle:
    """Return the encoder of a row's folder."""
    return Bundle.load(folder / "run" / "bundle", device="cpu")


@cache
def learned(what: Learned, *, made: bool = False) -> tuple[SimilarityExample, ...]:
    """Return the pairs that are learned: with classes (nli) or scores (stsb)."""
    if what == "nothing":
        return ()
    if made:
        kind = "pair-classification" if what == "nli" else "regression"
        train, _ = finetune_made.examples(kind)
        return tuple(SimilarityExample(text=one.text, positives=(one.pair,), label=one.label, place=one.place)
                     for one in train)  # fmt: skip
    files = ["glue/STS-B/train.tsv.gz"]
    if what == "nli":
        files = ["glue_subsets/SNLI/train.tsv.gz", "glue_subsets/MNLI/train.tsv.gz"]
    read = read_labelled("similarity", [public_data(name) for name in files])
    return tuple(one for one in read if isinstance(one, SimilarityExample))


def overlap(documents: Iterable[str], evaluation: dict[str, list[str]]) -> dict[str, list[int]]:
    """Return {set: [its sentences that occur, whole or as a part, its sentences]}, those of three words and more."""
    finder = OverlapFinder((name, filter(corpora._is_sentence, texts)) for name, texts in evaluation.items())
    for text in documents:
        finder.show(text, ())
    return {found.source: [found.whole + found.part, found.texts] for found in finder.overlaps()}


def _documents(corpus: str) -> Iterable[str]:
    with (corpora.texts(corpus) / corpora.TRAIN).open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)["text"]


def _evaluation() -> dict[str, list[str]]:
    return {name: list(_texts(scored_pairs(name))) for name, own in SETS.items() if own.task == "sts"}


def _texts(examples: Iterable[SimilarityExample]) -> Iterable[str]:
    for one in examples:
        yield from (one.text, *one.positives)


START = Pretrained(name="pooling-encoder")


def rows() -> list[Job]:
    """Return the encoder and every row, one seed of all before the next."""
    found: list[Job] = [START]
    for seed in SEEDS:
        for what in LEARNED:
            for pooling in POOLINGS:
                if what == "nothing" and seed != SEEDS[0]:
                    continue  # nothing is drawn
                found.append(Pooled(name=f"pooling-{what}-{pooling}-s{seed}", pooling=pooling, learned=what, seed=seed,
                                    start=START, settings=TAUGHT[what]))  # fmt: skip
    return found


def quick() -> list[Pooled]:
    """Return rows of seconds on made-up pairs."""
    few = (*COMMON, "run.steps=2")
    return [Pooled(name=f"made-{what}-{pooling}", pooling=pooling, learned=what,
                   settings=() if what == "nothing" else (*few, *TAUGHT[what][len(COMMON):-1]))
            for what in LEARNED for pooling in POOLINGS]  # fmt: skip


def section(study: JobStudy) -> list[str]:
    """Return the part of the page."""
    own = [row for row in study.rows if isinstance(row, Pooled)]
    found: dict[Learned, dict[PoolingMethod, list[float]]] = {
        what: {pooling: _points(study, own, what, pooling, [STSB_DEV]) for pooling in POOLINGS} for what in LEARNED
    }
    names = [name for name, one in SETS.items() if one.task == "sts" and name != STSB_DEV]
    lines, further = [], []
    for pooling in POOLINGS:
        cells = [(_cell(found[what][pooling]), f"{PAPER[what][pooling]:.2f}" if pooling in PAPER[what] else "-")
                 for what in LEARNED]  # fmt: skip
        lines.append([_said(pooling), *itertools.chain(*cells)])
        points = [_points(study, own, what, pooling, names) for what in ("nothing", "nli")]
        further.append([_said(pooling), *map(_cell, points)])
    columns = itertools.chain(*((told, "paper") for told in LEARNED.values()))
    start = study.result(START) if START in study.rows else None
    told = "The encoder is not pretrained yet." if start is None else (
        f"The encoder's held-out loss is {start['scores']['held_out_loss']:.3f} nats a piece, it guesses "
        f"{start['scores']['held_out_accuracy']:.1%} of the hidden ones. {_overlaps(start)}"
    )  # fmt: skip
    return [
        "## How texts are pooled",
        ABOUT.format(**{**vars(START), "seeds": len(SEEDS)}),
        told,
        harness.table([f"{STSB_DEV}, Spearman", *columns], lines),
        "\n".join(_orders(found)),
        FURTHER,
        harness.table(["SICK, STS12-14, mean", LEARNED["nothing"], LEARNED["nli"]], further),
        _also(study, own),
    ]


def _overlaps(start: Line) -> str:
    found = ", ".join(f"{name} {count} of {of:,}" for name, (count, of) in start["overlap"].items())
    return (
        f"{corpora.overlap_line(START.corpus)} Sentences of the sets scored here that occur in the corpus, whole or "
        f"as a part: {found}."
    )


def _also(study: JobStudy, rows: Sequence[Pooled]) -> str:
    """Return how many of the sentences that are scored stand among those that were learned."""
    said = []
    for what in ("nli", "stsb"):
        line = next((line for row in rows if row.learned == what and (line := study.result(row)) is not None), None)
        if line is not None:
            counts = (f"{name} {count:,} of {of:,}" for name, (count, of) in line["overlap"].items())
            said.append(f"{LEARNED[what]}: {', '.join(counts)}")  # type: ignore[index]
    return (
        f"Sentences scored that stand among those learned, whole or as a part: {'; '.join(said) or 'not run yet'}. "
        "These are sentences, not pairs, and those of NLI come without a score; SNLI, SICK and STS-B share captions."
    )


def _points(
    study: JobStudy, rows: Sequence[Pooled], what: Learned, pooling: PoolingMethod, names: Sequence[str]
) -> list[float]:
    """Return a score a seed: the mean over sets, in points."""
    done = [study.result(row) for row in rows if (row.learned, row.pooling) == (what, pooling)]
    return [100 * statistics.fmean(line["scores"][name] for name in names) for line in done if line is not None]


def _cell(points: Sequence[float]) -> str:
    if not points:
        return "not run yet"
    return f"{statistics.fmean(points):.2f}" + (f" ± {statistics.stdev(points):.2f}" if len(points) > 1 else "")


def _orders(found: dict[Learned, dict[PoolingMethod, list[float]]]) -> list[str]:
    """Return which of the paper's orders hold; a difference within the seeds' spread says nothing."""
    said = []
    for what, paper in PAPER.items():
        for one, other in itertools.combinations(sorted(paper, key=lambda pooling: -paper[pooling]), 2):
            a, b = found[what][one], found[what][other]
            if not a or not b:
                verdict = "not run yet"
            else:
                difference = statistics.fmean(a) - statistics.fmean(b)
                spread = max(statistics.stdev(own) if len(own) > 1 else 0.0 for own in (a, b))
                holds = "can't be told from the seeds" if abs(difference) <= spread else (
                    "holds" if difference > 0 else "does not hold")  # fmt: skip
                verdict = f"{difference:+.2f} here, {paper[one] - paper[other]:+.2f} there: {holds}"
            said.append(f"- {LEARNED[what]}, {_said(one)} over {_said(other)}: {verdict}")
    return said


def _said(pooling: PoolingMethod) -> str:
    return "[CLS]" if pooling == "cls" else pooling
