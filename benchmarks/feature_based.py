"""The paper's feature-based table (BERT, table 7) at small scale: frozen layers, a BiLSTM on top, CoNLL-2003.

    python -m benchmarks.feature_based -o docs/benchmarks/feature-based.md

Every row is a run of `anaume finetune features` with one seed; what is there is not run again, and --list says what is
missing. See feature_study.py for how rows are run and kept, finetune_data.py for the sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anaume.config import HeadLayers
from benchmarks import harness, sitting, study
from benchmarks.feature_page import LAYERS, Plan, make_page
from benchmarks.feature_study import FeatureStudy, Row, Tagger
from benchmarks.finetune_sides import MADE

SEEDS = (0, 1, 2)


def rows_of(tagger: Tagger, layers: HeadLayers, **other: Any) -> list[Row]:
    """Return a row a seed; a linear probe that is solved has a single one."""
    solved = tagger == "linear" and not layers.startswith("weighted")
    return [
        Row(name=f"{tagger}-{layers}-s{seed}", layers=layers, tagger=tagger, seed=seed, **other)
        for seed in (SEEDS[:1] if solved else SEEDS)
    ]


def plan() -> Plan:
    """Return the rows of the page, by tagger and layers."""
    taggers: tuple[Tagger, ...] = ("bilstm", "linear")
    return {tagger: {layers: rows_of(tagger, layers) for layers in LAYERS} for tagger in taggers}


def in_order(rows: Plan) -> list[Row]:
    """Return every row, one seed of all before the next."""
    each = [row for own in rows.values() for several in own.values() for row in several]
    return sorted(each, key=lambda row: row.seed)


def quick() -> tuple[FeatureStudy, Callable[[FeatureStudy], str]]:
    """Return runs of seconds on made-up examples, kept apart, and their page."""
    layers: tuple[HeadLayers, ...] = ("embeddings", "last", "weighted-all")
    other = {"data": "made ner", "bundle": MADE}
    small: Plan = {"bilstm": {own: rows_of("bilstm", own, **other)[:1] for own in layers}}
    small["linear"] = {own: rows_of("linear", own, **other)[:1] for own in layers}
    kept = harness.KEPT / "rows" / "quick-features"
    return FeatureStudy(in_order(small), runs=study.RUNS / "quick", kept=kept), lambda done: make_page(done, small)


def main() -> None:
    rows = plan()
    sitting.main(__doc__, FeatureStudy(in_order(rows)), lambda done: make_page(done, rows), quick=quick)


if __name__ == "__main__":
    main()
