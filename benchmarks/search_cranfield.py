"""Cranfield: what vectors find, what words find, what both find, and what a cross-encoder makes of it."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import anaume
from anaume.errors import AnaumeWarning
from anaume.search import Index, open_index
from anaume.search.finding import Searched, by_words
from anaume.search.hits import Hit
from anaume.tasks.retrieval import ranking_scores
from benchmarks import harness, search_rerankers
from benchmarks.jobs import Job, JobStudy, Line
from benchmarks.search_rerankers import CHECKPOINT, CrossEncoder
from benchmarks.similarity_data import retrieval_set

DATA = "Cranfield"
DEPTH = 100
"""Passages taken of each ranking; a document stands where its best passage does."""
READ = 30
"""Passages that a cross-encoder reads: those of `--rerank` are 100, which takes three times as long."""
RESAMPLES = 10_000

Rank = Callable[[str], list[str]]
"""A query -> documents, best first."""

ABOUT = """\
{documents:,} abstracts on aerodynamics, {queries} questions of researchers, grades 1 to 5. The index holds passages
of at most 256 tokens, their vectors by all-MiniLM-L6-v2 in bfloat16, searched exactly (few need no parts); a
document stands where its best passage does; [similarity.md](similarity.md) has whole documents, cut at 256 tokens.
nDCG@10, the grade being the gain; intervals: the middle 95 % over {resamples:,} resamples of the queries, of
differences over the same ones. BM25 by `bm25s` at its defaults (English stop words), and with Snowball's English
stems; the index's words have stems, too, and no stop words. Nothing was trained or tuned on Cranfield. The
cross-encoders start from all-MiniLM-L6-v2 and read the best {read} passages of the hybrid search; they were trained
here, in minutes, on what the public data have: {crosses}."""


@dataclass(frozen=True, kw_only=True)
class Way(Job):
    """One way to search.

    how    dense, words, hybrid, bm25s, bm25s-stemmed, or hybrid-rerank
    cross  the row of the cross-encoder
    """

    how: str
    cross: CrossEncoder | None = None
    bundle: str = CHECKPOINT
    depth: int = DEPTH
    read: int = READ

    @property
    def needs(self) -> tuple[Job, ...]:
        return () if self.cross is None else (self.cross,)

    def run(self, folder: Path, threads: int | None) -> Line | None:
        torch.set_num_threads(threads or torch.get_num_threads())
        given = retrieval_set(DATA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)
            rank = self._ranker(given.documents, folder)
            ranked = ((query, rank(text)) for query, text in given.queries.items())
            scores = [ranking_scores(found, given.judged[query])["ndcg@10"] for query, found in ranked]
        return {"scores": {"ndcg@10": float(np.mean(scores))}, "queries": [round(one, 6) for one in scores],
                "documents": len(given.documents)}  # fmt: skip

    def _ranker(self, documents: dict[str, str], folder: Path) -> Rank:
        if self.how.startswith("bm25s"):
            return bm25s(documents, stemmed=self.how.endswith("stemmed"))
        index = built(folder.parent / "index", documents, self.bundle)
        if self.how == "words":
            table, record = index.checked()
            searched = Searched(table=table, record=record, path=index.store.path, probes=0)
            return lambda query: of_documents(by_words(searched, query, self.depth, None))
        if self.cross is None:
            hybrid = self.how == "hybrid"
            return lambda query: of_documents(index.search(query, top_k=self.depth, hybrid=hybrid))
        cross = search_rerankers.load(folder.parent / self.cross.name)

        def reranked(query: str) -> list[str]:
            hits = index.search(query, top_k=self.depth, hybrid=True)
            best, rest = hits[: self.read], hits[self.read :]
            order = [best[one.index] for one in cross.rank(query, [hit.text for hit in best])]
            return of_documents([*order, *rest])

        return reranked


def built(path: Path, documents: dict[str, str], bundle: str) -> Index:
    """Return the index of these documents, built if it is not there yet, or half there."""
    encoder = anaume.load(bundle, precision="bfloat16", device="cpu")
    index = open_index(path, encoder) if path.exists() else Index.create(path, encoder)
    index.add({"id": name, "text": text} for name, text in documents.items())
    return index


def of_documents(hits: Iterable[Hit]) -> list[str]:
    """Return the documents of passages, each where its best passage stands."""
    return list(dict.fromkeys(hit.id for hit in hits))


def bm25s(documents: dict[str, str], *, stemmed: bool) -> Rank:
    """Return what ranks documents by BM25, as bm25s has it."""
    library: Any = importlib.import_module("bm25s")
    stemmer = importlib.import_module("Stemmer").Stemmer("english") if stemmed else None
    names = list(documents)

    def words(texts: list[str]) -> Any:
        return library.tokenize(texts, stemmer=stemmer, show_progress=False)

    model = library.BM25()
    model.index(words(list(documents.values())), show_progress=False)

    def rank(query: str) -> list[str]:
        rows, _ = model.retrieve(words([query]), k=min(DEPTH, len(names)), show_progress=False)
        return [names[row] for row in rows[0]]

    return rank


CROSSES = {
    name: CrossEncoder(name=f"cross-encoder-{label}", data=name)
    for label, name in (("qnli", "QNLI"), ("marco", "MS MARCO sample"))
}
WAYS: dict[str, Way] = {
    "dense": Way(name="dense", how="dense"),
    "BM25, `bm25s`": Way(name="bm25s", how="bm25s"),
    "BM25, `bm25s`, stems": Way(name="bm25s-stemmed", how="bm25s-stemmed"),
    "BM25, words of the index": Way(name="words", how="words"),
    "hybrid (dense and words of the index)": Way(name="hybrid", how="hybrid"),
    **{
        f"hybrid, reranked by one trained on {name}": Way(name=f"rerank-{cross.name}", how="hybrid-rerank", cross=cross)
        for name, cross in CROSSES.items()
    },
}
COMPARED = (
    ("hybrid (dense and words of the index)", "dense"),
    ("hybrid (dense and words of the index)", "BM25, words of the index"),
    ("hybrid (dense and words of the index)", "BM25, `bm25s`, stems"),
    ("dense", "BM25, `bm25s`"),
    ("BM25, words of the index", "BM25, `bm25s`"),
    *((f"hybrid, reranked by one trained on {name}", "hybrid (dense and words of the index)") for name in CROSSES),
)  # fmt: skip


def rows() -> list[Job]:
    """Return every row, cross-encoders first."""
    return [*CROSSES.values(), *WAYS.values()]


def section(study: JobStudy) -> list[str]:
    """Return the part of the page."""
    found = {what: _queries(study, way) for what, way in WAYS.items()}
    lines = [[what, *_interval(scores)] for what, scores in found.items()]
    compared = []
    for one, other in COMPARED:
        a, b = found[one], found[other]
        difference = None if a is None or b is None else a - b
        compared.append([f"{one} - {other}", *_interval(difference, sign="+"), _holds(difference)])
    known = [line for way in WAYS.values() if (line := study.result(way)) is not None]
    queries = len(known[0]["queries"]) if known else 225
    about = ABOUT.format(
        documents=known[0]["documents"] if known else 1400,
        queries=queries,
        resamples=RESAMPLES,
        read=READ,
        crosses="; ".join(_cross(study, name, cross) for name, cross in CROSSES.items()),
    )
    return [
        "## Cranfield",
        about,
        harness.table(["how", "nDCG@10", "95 % interval"], lines),
        harness.table(["difference", "nDCG@10", "95 % interval", "holds"], compared),
    ]


def _queries(study: JobStudy, way: Way) -> Any:
    line = study.result(way)
    return None if line is None else np.array(line["queries"])


def _interval(values: Any, *, sign: str = "") -> list[str]:
    if values is None:
        return ["not run yet", ""]
    low, high = interval(values)
    return [f"{values.mean():{sign}.3f}", f"{low:{sign}.3f} to {high:{sign}.3f}"]


def interval(values: Any, *, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float]:
    """Return the middle 95 % of the mean over resamples."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _holds(difference: Any) -> str:
    if difference is None:
        return ""
    low, high = interval(difference)
    return "better" if low > 0 else "worse" if high < 0 else "can't be told apart"


def _cross(study: JobStudy, name: str, cross: CrossEncoder) -> str:
    line = study.result(cross)
    return f"{name} ({'not run yet' if line is None else format(line['examples'], ',') + ' pairs'})"
