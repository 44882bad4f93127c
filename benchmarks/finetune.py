"""Fine-tuning beside a transformers Trainer: real data, the same rows, the same hyperparameters; scores and times.

    python -m benchmarks.finetune --rates
    python -m benchmarks.finetune -o docs/benchmarks/finetune.md

Every row is a run with one seed; what is there is not run again, and --list says what is missing. See finetune_study.py
for why times are measured apart, finetune_data.py for the data and the learning rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks import harness, sitting, study
from benchmarks.finetune_data import CORE, FURTHER, MADE
from benchmarks.finetune_page import Plan, Table, make_page
from benchmarks.finetune_sides import MADE as MADE_BUNDLE
from benchmarks.finetune_sides import Row
from benchmarks.finetune_study import FinetuneStudy
from benchmarks.rates import Rates

SEEDS = (0, 1, 2)

KINDS: dict[str, dict[str, Any]] = {
    "ours": {},
    "trainer": {"side": "trainer", "precision": "float32"},
    "ours-same-time": {"budget": "trainer"},
}
"""Label -> what the row is: our default is bfloat16, where the processor has it; the Trainer's is float32."""

EPOCHS_ALIKE = ("ours", "trainer")
"""The kinds of run of the further data sets."""

POOLED = ("MRPC", "RTE", "CoLA", "SST-2")
POOLINGS = ("mean", "max")
"""Beside [CLS], which the rows "ours" read."""


def row(data: str, kind: str, seed: int, **other: Any) -> Row:
    """Return a row by its kind's label."""
    label = data.replace(" ", "-").lower()
    return Row(name=f"{label}-{kind}-s{seed}", data=data, seed=seed, **KINDS[kind], **other)


def pooled(data: str, pooling: str, seed: int, **other: Any) -> Row:
    """Return our row with another pooling."""
    own = row(data, "ours", seed, **other)
    return replace(own, name=own.name.replace("-ours-", f"-{pooling}-"), settings=(f"task.pooling={pooling}",))


def seeds_of(data: str) -> tuple[int, ...]:
    """Return the seeds of a data set: three of the core ones, one of the further ones."""
    return SEEDS if data in CORE else SEEDS[:1]


def plan() -> Plan:
    """Return the page's tables, in the order in which their rows are worth running."""

    def table(names: Any, kinds: Any) -> Table:
        return {data: {kind: [row(data, kind, seed) for seed in seeds_of(data)] for kind in kinds} for data in names}

    return Plan(
        core=table(CORE, KINDS),
        further=table(FURTHER, EPOCHS_ALIKE),
        pooling={
            data: {
                "cls": [row(data, "ours", seed) for seed in seeds_of(data)],
                **{pooling: [pooled(data, pooling, seed) for seed in seeds_of(data)] for pooling in POOLINGS},
            }
            for data in POOLED
        },
    )


def quick() -> tuple[FinetuneStudy, Callable[[FinetuneStudy], str]]:
    """Return runs of seconds on made-up examples of every task, kept apart, and their page."""
    kept = harness.KEPT / "rows" / "quick-finetune"

    def table(names: Any, kinds: Any) -> Table:
        return {data: {kind: [row(data, kind, 0, bundle=MADE_BUNDLE)] for kind in kinds} for data in names}

    first, *others = MADE
    pooling = {
        "cls": [row(first, "ours", 0, bundle=MADE_BUNDLE)],
        "mean": [pooled(first, "mean", 0, bundle=MADE_BUNDLE)],
    }
    tables = Plan(table([first], KINDS), table(others, EPOCHS_ALIKE), {first: pooling})
    made = FinetuneStudy(tables.rows, rates=Rates(kept / "rates.jsonl"), runs=study.RUNS / "quick", kept=kept)
    return made, lambda done: make_page(done, tables)


def main() -> None:
    tables = plan()
    sitting.main(__doc__, FinetuneStudy(tables.rows), lambda done: make_page(done, tables), quick=quick)


if __name__ == "__main__":
    main()
