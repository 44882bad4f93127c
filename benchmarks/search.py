"""Search: what is found in Cranfield by vectors, words and both; and a million vectors, exact and approximate.

    python -m benchmarks.search -o docs/benchmarks/search.md

Every row is run once; what is there is not run again, and --list says what is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import harness, search_cranfield, search_million, sitting, study
from benchmarks.jobs import JobStudy
from benchmarks.rates import machine

COMMAND = "python -m benchmarks.search -o docs/benchmarks/search.md"


LIBRARIES = ("lancedb", "bm25s", "PyStemmer", "faiss-cpu", "usearch")
QUICK = 2_000


def make_page(done: JobStudy) -> str:
    """Return the page."""
    parts = [*search_cranfield.section(done), *search_million.section(done)]
    return harness.page("Search", COMMAND, machine(), parts, libraries=LIBRARIES)


def quick() -> tuple[JobStudy, Callable[[JobStudy], str]]:
    """Return a search of few made-up vectors, kept apart, and its page, from which Cranfield is missing."""
    kept = harness.KEPT / "rows" / "quick-search"
    few = search_million.rows([QUICK], made=True, rounds=1)
    return JobStudy("search", few, runs=study.RUNS / "quick", kept=kept), make_page


def main() -> None:
    rows = [*search_cranfield.rows(), *search_million.rows()]
    sitting.main(__doc__, JobStudy("search", rows), make_page, quick=quick)


if __name__ == "__main__":
    main()
