"""What a few minutes of two cores give: time to target beside a transformers Trainer, the minutes table, and tricks.

Recipes stand at the top, to be tuned. A changed recipe changes its rows, and --list shows which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks import harness, scores, sitting
from benchmarks.minutes_page import Plan, make_page
from benchmarks.rates import Rates
from benchmarks.study import Row, Study

PEAKS = ("5e-4", "1e-3", "2e-3")
"""Highest learning rates among which the baseline is tuned."""
PEAK = "1e-3"
"""The best of them: the baseline's, and that of the tricks."""
BASELINE = ("model.dropout=0.1", "model.start=published", "run.batch_rows=32")

BEST = (
    "model.dropout=0.0",
    "model.start=informed",
    "run.batch_rows=16",
    "optimizer.learning_rate=2e-3",
    "objective.mask_rate=0.3",
)
"""Our best recipe: of time to target, and of the minutes table."""

TRAINER_PEAKS = ("3e-4", "1e-3", "2e-3")
"""Highest learning rates among which the Trainer is tuned, at 30 minutes each; at 5 they can't be told apart."""
TRAINER_PEAK = "1e-3"
"""The one of its 15 minutes, and of its line in the minutes table."""
TRAINER = (
    "model.dropout=0.1",
    "run.batch_rows=32",
    "run.precision=bfloat16",
    "optimizer.beta2=0.999",
    "optimizer.eps=1e-8",
)

SEEDS = (0, 1, 2)
OWN = "own-8000"

TRICKS: dict[str, tuple[str, Sequence[str], dict[str, Any]]] = {
    "16 rows a step": ("rows-16", ["run.batch_rows=16"], {}),
    "2 x 128": ("size-2x128", [], {"layers": 2, "width": 128}),
    "own vocabulary of 8,000": ("vocabulary-8000", [], {"tokenizer": OWN}),
    "a start that knows frequencies and neighbours": ("informed-start", ["model.start=informed"], {}),
    "30 % masked": ("mask-30", ["objective.mask_rate=0.3"], {}),
}
"""What is changed -> label, settings, shape or tokenizer; one thing at a time."""

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "best, 4 x 256": ("best", {}),
    "best, 2 x 128, own vocabulary": ("best-2x128-8000", {"layers": 2, "width": 128, "tokenizer": OWN}),
}
"""Sizes and vocabularies of the minutes table -> label, shape and tokenizer."""


def ours(label: str, settings: Sequence[str], minutes: float, seed: int, **other: Any) -> Row:
    """Return a row of ours."""
    return Row(name=f"{label}-{minutes:g}m-s{seed}", minutes=minutes, settings=tuple(settings), seed=seed, **other)


def baseline(minutes: float, seed: int, peak: str = PEAK) -> Row:
    """Return the baseline at a learning rate."""
    return ours(f"baseline-{peak}", (*BASELINE, f"optimizer.learning_rate={peak}"), minutes, seed)


def trick(what: str, seed: int) -> Row:
    """Return the baseline with one thing changed."""
    label, settings, other = TRICKS[what]
    return ours(label, (*BASELINE, f"optimizer.learning_rate={PEAK}", *settings), 5, seed, **other)


def best(what: str, minutes: float, seed: int) -> Row:
    """Return our best recipe in one of `SHAPES`."""
    label, other = SHAPES[what]
    return ours(label, BEST, minutes, seed, **other)


def trainer(minutes: float, peak: str = TRAINER_PEAK) -> Row:
    """Return the Trainer: bfloat16, fused AdamW, warm-up over 6 % and a linear decay."""
    settings = (*TRAINER, f"optimizer.learning_rate={peak}")
    name = f"trainer-{peak}-{minutes:g}m"
    return Row(name=name, minutes=minutes, settings=settings, kind="trainer")


def plan() -> Plan:
    """Return every table of the page, in the order in which its rows are worth running."""
    same, small = SHAPES

    def line(what: str, minutes: float, seeds: Sequence[int] = SEEDS[:1]) -> tuple[str, list[Row]]:
        return what, [best(what, minutes, seed) for seed in seeds]

    return {
        "peaks": [(f"highest rate {peak}", [baseline(5, 0, peak)]) for peak in PEAKS],
        "tricks": [
            ("baseline: 4 x 256, 30,522 entries, 32 rows a step, 15 % masked", [baseline(5, 0)]),
            *((what, [trick(what, 0)]) for what in TRICKS),
        ],
        "target": [
            *((f"Trainer, highest rate {peak}", [trainer(5, peak)]) for peak in TRAINER_PEAKS),
            *((f"Trainer, highest rate {peak}", [trainer(30, peak)]) for peak in TRAINER_PEAKS),
            ("anaume, best recipe", [best(same, 5, seed) for seed in SEEDS]),
        ],
        "minutes": [
            line(same, 5, SEEDS),
            line(small, 5),
            line(same, 15, SEEDS),
            line(small, 15),
            ("Trainer", [trainer(15)]),
            line(same, 30),
            ("Trainer", [trainer(30)]),
        ],
    }


def rows(tables: Plan) -> list[Row]:
    """Return every row once."""
    return list({row.name: row for lines in tables.values() for _, own in lines for row in own}.values())


def small(row: Row) -> Row:
    """Return a row like this one that takes seconds."""
    settings = (*row.settings, "run.batch_rows=4", "run.evaluations=0")
    return replace(row, minutes=1e-4, layers=1, width=32, corpus="quick", settings=settings)


def quick() -> tuple[Study, sitting.Page]:
    """Return a study of a few steps of a few rows, and its page, from which the other rows are missing."""
    tables = {name: [(what, [small(row) for row in own]) for what, own in lines] for name, lines in plan().items()}
    some = [own[0] for lines in (tables["peaks"], tables["minutes"]) for _, own in (lines[0], lines[-1])]
    rates = Rates(harness.KEPT / "rows" / "quick-rates.jsonl")
    few = list({row.name: row for row in some}.values())
    study = Study("minutes-quick", few, scores.usual, rates=rates, kept=harness.KEPT / "rows")
    return study, lambda done: make_page(done, tables)


def main() -> None:
    tables = plan()
    study = Study("minutes", rows(tables), scores.usual)
    sitting.main(__doc__, study, lambda done: make_page(done, tables), quick=quick)


if __name__ == "__main__":
    main()
