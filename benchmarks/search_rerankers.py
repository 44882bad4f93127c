"""Cross-encoders for reranking, trained here on other data than what they are judged on."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anaume
from anaume.bundle import Bundle
from anaume.data.labelled import SimilarityExample, read_labelled
from anaume.errors import AnaumeWarning
from anaume.tasks.retrieval import nearest_rows
from anaume.training.finetuning.finetune import finetune_examples
from anaume.training.finetuning.settings import FinetuneSettings
from benchmarks.jobs import Job, Line
from benchmarks.similarity_data import retrieval_set
from benchmarks.sources import public_data

CHECKPOINT = "all-MiniLM-L6-v2"
SETTINGS = (
    "run.epochs=1",
    "run.precision=bfloat16",
    "run.batch_rows=32",
    "run.evaluations=0",
    "run.keep_checkpoints=1",
    "run.log_seconds=0",
    "optimizer.learning_rate=1e-4",
    "model.max_length=256",
    "data.dev_share=0.0",
)
PAIRS, DRAWN = 3_000, 20190114
"""Pairs that are learned, drawn by the seed `DRAWN`."""
HARD, FROM_RANK = 60, 20
"""Negatives of a query of the MS MARCO sample: the nearest passages that nobody judged, past the first ones."""


def _qnli() -> list[SimilarityExample]:
    """Questions and sentences that hold their answer (1) or stand beside it in the paragraph (0)."""
    path = public_data("glue_subsets/QNLI/train.tsv.gz")
    read = read_labelled("similarity", path, query="question", positive="sentence", label="label")
    return [one for one in read if isinstance(one, SimilarityExample)]


def _marco() -> list[SimilarityExample]:
    """Queries and passages with their grades, 1 to 3; and 0 for near ones that nobody judged."""
    given, bundle = retrieval_set("MS MARCO sample"), anaume.load(CHECKPOINT, precision="bfloat16", device="cpu")
    names, queries = list(given.documents), list(given.queries)
    documents = bundle.embed(list(given.documents.values()))
    asked = bundle.embed([given.queries[query] for query in queries])
    examples = []
    for query, (order, _) in zip(queries, nearest_rows(asked, documents, 10 * HARD), strict=True):
        graded = {name: float(grade) for name, grade in given.judged[query].items()}
        near = [names[row] for row in order[FROM_RANK:] if names[row] not in graded][:HARD]
        for name, grade in {**graded, **dict.fromkeys(near, 0.0)}.items():
            place = f"MS MARCO sample, query {query}, passage {name}"
            text = given.queries[query]
            one = SimilarityExample(text=text, positives=(given.documents[name],), label=grade, place=place)
            examples.append(one)
    return examples


DATA: dict[str, Callable[[], Sequence[SimilarityExample]]] = {"QNLI": _qnli, "MS MARCO sample": _marco}
"""Questions of SQuAD with a sentence each; 43 queries of MS MARCO with their judged passages."""


@dataclass(frozen=True, kw_only=True)
class CrossEncoder(Job):
    """A cross-encoder, in its row's folder."""

    data: str
    settings: tuple[str, ...] = SETTINGS
    pairs: int = PAIRS
    bundle: str = CHECKPOINT
    seed: int = 0

    def run(self, folder: Path, threads: int | None) -> Line | None:
        own = [] if threads is None else [f"run.threads={threads}"]
        settings = FinetuneSettings().with_values([*self.settings, f"run.seed={self.seed}", *own])
        if self.data == "QNLI":
            settings = settings.with_values(["task.positive=entailment"])
        found = DATA[self.data]()
        examples = [found[row] for row in sorted(random.Random(DRAWN).sample(range(len(found)), self.pairs))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)
            report = finetune_examples(
                "ranking",
                examples,
                folder / "run",
                bundle=Bundle.load(self.bundle, device="cpu"),
                settings=settings,
                seeds=1,
                device="cpu",
            )
        if not report.finished:
            return None
        return {"scores": {}, "steps": report.seeds[0].steps, "examples": len(examples), "of": len(found)}


def load(folder: Path) -> Bundle:
    """Return the cross-encoder of a row's folder."""
    return Bundle.load(folder / "run" / "bundle", precision="bfloat16", device="cpu")
