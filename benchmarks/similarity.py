"""Sentence vectors: our numbers beside those of sentence-transformers, how texts are pooled, training on STS-B.

    python -m benchmarks.similarity --rates
    python -m benchmarks.similarity -o docs/benchmarks/similarity.md

Every row is run once; what is there is not run again, and --list says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import harness, similarity_parity, similarity_pooling, similarity_training, sitting, study
from benchmarks.jobs import JobStudy
from benchmarks.rates import Rates, machine

COMMAND = "python -m benchmarks.similarity --rates; python -m benchmarks.similarity -o docs/benchmarks/similarity.md"


def make_page(done: JobStudy) -> str:
    """Return the page."""
    parts = [part for own in (similarity_parity, similarity_pooling, similarity_training) for part in own.section(done)]
    return harness.page("Sentence vectors", COMMAND, machine(), parts)


def quick() -> tuple[JobStudy, Callable[[JobStudy], str]]:
    """Return runs of seconds on made-up pairs, kept apart, and their page."""
    kept = harness.KEPT / "rows" / "quick-similarity"
    made = similarity_training.rows(data="made", bundle=similarity_training.MADE, pairs=24)[:3]
    few = [*made, *similarity_pooling.quick()]
    rows = JobStudy("similarity", few, rates=Rates(kept / "rates.jsonl"), runs=study.RUNS / "quick", kept=kept)
    return rows, make_page


def main() -> None:
    rows = [*similarity_parity.rows(), *similarity_training.rows(), *similarity_pooling.rows()]
    sitting.main(__doc__, JobStudy("similarity", rows), make_page, quick=quick)


if __name__ == "__main__":
    main()
