"""What the benchmark of similarity is scored on: pairs with a score, and judged sets of retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anaume.data.judged import RetrievalSet, read_retrieval_set
from anaume.data.labelled import SimilarityExample, read_labelled
from anaume.tasks.retrieval import cosines, nearest_rows, ranking_scores
from anaume.tasks.vector_scores import correlation
from benchmarks.sources import public_data

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts -> (n, size)."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One set.

    files  below the public data folder
    stsb   whether it overlaps with STS-B (Cer et al. 2017, table 3): no model trained on STS-B is scored on it
    """

    task: Literal["sts", "retrieval"]
    files: tuple[str, ...]
    stsb: bool = False

    @property
    def metric(self) -> str:
        return "spearman" if self.task == "sts" else "ndcg@10"

    @property
    def paths(self) -> list[Path]:
        """Raises DataError where a file is not there."""
        return [public_data(name) for name in self.files]


def _year(year: int, *names: str) -> Judged:
    files = tuple(f"sts12-16/{year}/{name}.test.tsv.gz" for name in names)
    return Judged(task="sts", files=files, stsb=True)


STSB_DEV = "STS-B dev"
SETS = {
    STSB_DEV: Judged(task="sts", files=("glue/STS-B/dev.tsv",)),
    "SICK": Judged(task="sts", files=("sick/SICK_train.txt.gz", "sick/SICK_trial.txt")),
    "STS12": _year(2012, "MSRpar", "OnWN", "SMTeuroparl", "SMTnews"),
    "STS13": _year(2013, "FNWN", "OnWN", "headlines"),
    "STS14": _year(2014, "OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"),
    "Cranfield": Judged(
        task="retrieval", files=("cranfield/cran.all.1400.gz", "cranfield/cran.qry", "cranfield/cranqrel")
    ),
    "MS MARCO sample": Judged(task="retrieval", files=("beir_subsets/msmarco",)),
}


def scored_pairs(name: str) -> list[SimilarityExample]:
    """Return the pairs of one of `SETS`, each with its score."""
    examples = read_labelled("similarity", SETS[name].paths)
    return [example for example in examples if isinstance(example, SimilarityExample)]


def retrieval_set(name: str) -> RetrievalSet:
    """Return one of `SETS` that is a retrieval set."""
    paths = SETS[name].paths
    return read_retrieval_set(paths[0] if len(paths) == 1 else paths)


def spearman(examples: Sequence[SimilarityExample], embed: Embed) -> float:
    """Return Spearman's correlation of the cosines with the scores, 0 to 1."""
    found = cosines(embed([one.text for one in examples]), embed([one.positives[0] for one in examples]))
    return correlation("spearman", np.array([one.label for one in examples], dtype=np.float64), found)


def ndcg(given: RetrievalSet, embed: Embed) -> list[float]:
    """Return nDCG@10 of each query, by cosine over all documents."""
    names, documents = list(given.documents), embed(list(given.documents.values()))
    rankings = nearest_rows(embed(list(given.queries.values())), documents)
    return [
        ranking_scores([names[row] for row in order], given.judged[query])["ndcg@10"]
        for query, (order, _) in zip(given.queries, rankings, strict=True)
    ]


def score(name: str, embed: Embed) -> float:
    """Return the score of vectors on one of `SETS`."""
    if SETS[name].task == "sts":
        return spearman(scored_pairs(name), embed)
    return float(np.mean(ndcg(retrieval_set(name), embed)))
