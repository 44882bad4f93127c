"""The page docs/benchmarks/finetune.md, made of whatever rows are there; what was not run says so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import harness
from benchmarks.finetune_data import DRAWN, SETS, STARTED_ON, TRAIN
from benchmarks.finetune_pairs import Difference, Pair, Pairs
from benchmarks.finetune_sides import BATCH, EPOCHS, Line, Row
from benchmarks.finetune_study import FinetuneStudy, timed_with
from benchmarks.rates import machine, machines

Table = Mapping[str, Mapping[str, Sequence[Row]]]
"""Data set -> kind of run -> a row a seed."""

NOT_YET = "not run yet"
COMMAND = "python -m benchmarks.finetune --rates; python -m benchmarks.finetune -o docs/benchmarks/finetune.md"
SAID = {
    "ours": "anaume",
    "trainer": "Trainer",
    "ours-same-time": "anaume, the Trainer's time",
}
COMPARED = {
    "equal epochs": ("ours", "trainer"),
    "equal time": ("ours-same-time", "trainer"),
}

SAME = """\
Both sides start from the same weights of all-MiniLM-L6-v2, the task's new head included, and learn the same rows: texts
read and cut into pieces once, by anaume, at most {train:,} of them, drawn by a fixed seed ({drawn}). Both: AdamW (betas
0.9 and 0.999, eps 1e-8, weight decay 0.01 on matrices), gradients clipped to 1, {epochs} epochs of batches of {batch},
10 % warm-up and a linear way down to 0, dropout 0.1, one learning rate a data set, tuned for neither; scored on the
dev examples once an epoch, the best weights kept, by one decoding and one set of metrics (anaume's). The Trainer as its
users set it up: `DataCollatorWithPadding` and its kin, float32 unless bfloat16 is asked for.

What differs is each side's own: anaume packs short rows into longer ones and so computes hardly any padding, learns
scaled numbers in regression, trains in bfloat16 where the processor has it (the saved model is scored in float32), and
lets a batch run on into the next epoch where the Trainer's last one is smaller; transformers lets an answer begin in
the padding. Dev scores chose the weights, on both
sides alike: they compare the sides, and flatter both."""

TIMES = """\
Seconds of training and evaluations on a quiet machine with all its cores: steps x seconds a step + evaluations x
seconds an evaluation, all kinds measured turn by turn (the last table). anaume scores what it saves once more, in
float32: that is in its time. Loading, tokenizing and saving are in neither side's. Of the core data sets each side's
other precision was timed, not scored: packed rows give the ratio of the two sides in one precision, bfloat16 gives the
rest."""

POOLED = """\
What the classifier reads: the pooler over [CLS], as published, or the mean or maximum of a text's vectors; all else as
above."""

SPREAD = """\
Main score in points (hundredths); several seeds: mean ± standard deviation. An interval is the middle 95 % over {0:,}
resamples of the dev examples, both sides on the same ones, seeds averaged: it says what other examples would change."""

ONE_SEED = """\
Another seed moves such a score by points, which the intervals of the differences don't show: anaume on QNLI gives 68.0,
71.0 and 73.3 with three (docs/log.md). A thousand questions of SQuAD 2.0 teach neither to find an answer: both say of
all that there is none, which 51.3 % of them are right about."""


@dataclass(frozen=True)
class Plan:
    """The tables of the page."""

    core: Table
    further: Table
    pooling: Table
    """Here a kind of run is a pooling."""

    @property
    def rows(self) -> list[Row]:
        """Every row once, in order."""
        kinds = [own for table in (self.core, self.further, self.pooling) for own in table.values()]
        return list({row.name: row for own in kinds for rows in own.values() for row in rows}.values())


def make_page(study: FinetuneStudy, plan: Plan, *, resamples: int = 1000) -> str:
    """Return the page."""
    pairs = Pairs(study, resamples=resamples)
    parts = [
        SAME.format(drawn=DRAWN, train=TRAIN, epochs=EPOCHS, batch=BATCH),
        _verdict(study, plan.core, pairs),
        "## Scores",
        SPREAD.format(resamples),
        _scores(study, plan.core),
        _differences(plan.core, pairs),
        "## Times",
        TIMES,
        _times(study, plan.core),
        "## Further data sets, one seed",
        ONE_SEED,
        _scores(study, plan.further),
        _differences(plan.further, pairs),
        _times(study, plan.further),
        "## [CLS], mean or max",
        POOLED,
        _pooling(study, plan.pooling, pairs),
        "## Data",
        STARTED_ON,
        _data(study, plan),
        "## Every run",
        _runs(study, plan.rows),
        "## Seconds a step, and of 32 dev examples",
        _rates(study, plan.rows),
    ]
    measured = study.rates.lines(row.pace for row in plan.rows)
    where = "; ".join(machines(measured)) or machine()
    return harness.page("Fine-tuning beside a transformers Trainer", COMMAND, where, parts)


def _verdict(study: FinetuneStudy, table: Table, pairs: Pairs) -> str:
    said = []
    for name, (one, other) in COMPARED.items():
        found = pairs.difference([_paired(own, one, other) for own in table.values()])
        told = NOT_YET if found is None else f"{_interval(found)} points, {found.data} data sets, {found.seeds} seeds"
        if found is not None and len(table) > 2:
            apart, without = _without_the_largest(table, one, other, pairs)
            told += f"; without {apart}, where they differ most: {_interval(without)}"
        said.append(f"- {name}, mean difference over the core data sets ({SAID[one]} - {SAID[other]}): {told}")
    ours, theirs = (_seconds(study, [own[kind][0] for own in table.values()]) for kind in ("ours", "trainer"))
    told = "not measured yet"
    if ours is not None and theirs is not None:
        told = f"{ours:,.0f} s against {theirs:,.0f} s, {ours / theirs:.2f} of it"
    return "\n".join([*said, f"- time of {EPOCHS} epochs of all core data sets, one seed each: {told}"])


def _without_the_largest(table: Table, one: str, other: str, pairs: Pairs) -> tuple[str, Difference]:
    """Return the data set where two kinds differ most, and the mean difference over the others."""
    paired = {data: _paired(own, one, other) for data, own in table.items()}
    found = {data: difference for data, own in paired.items() if (difference := pairs.difference([own]))}
    apart = max(found, key=lambda data: abs(found[data].value))
    without = pairs.difference([own for data, own in paired.items() if data != apart])
    assert without is not None
    return apart, without


def _scores(study: FinetuneStudy, table: Table) -> str:
    kinds = _kinds(table)
    lines = [[data, _metric(study, own), *(_mean(study, own[kind]) for kind in kinds)] for data, own in table.items()]
    return harness.table(["data", "metric", *(SAID[kind] for kind in kinds)], lines)


def _differences(table: Table, pairs: Pairs) -> str:
    lines = []
    compared = {name: kinds for name, kinds in COMPARED.items() if {*kinds} <= {*_kinds(table)}}
    for data, own in table.items():
        found = [pairs.difference([_paired(own, *kinds)]) for kinds in compared.values()]
        lines.append([data, *(NOT_YET if one is None else _interval(one) for one in found)])
    return harness.table(["difference, points", *compared], lines)


def _times(study: FinetuneStudy, table: Table) -> str:
    timed = {data: _precisions(own) for data, own in table.items()}
    kinds = list(next(iter(timed.values())))
    if len(timed) > 1:
        timed["all"] = {kind: [row for own in timed.values() for row in own[kind]] for kind in kinds}
    lines = []
    for data, own in timed.items():
        theirs, cells = _seconds(study, own["Trainer, float32"]), []
        for kind in kinds:
            seconds = _seconds(study, own[kind])
            share = "" if seconds is None or theirs is None else f" ({seconds / theirs:.2f})"
            cells.append("not measured yet" if seconds is None else f"{seconds:,.0f}{share}")
        lines.append([data, *cells])
    return harness.table(["seconds (share of the Trainer's)", *kinds], lines)


def _pooling(study: FinetuneStudy, table: Table, pairs: Pairs) -> str:
    kinds = _kinds(table)
    lines = []
    for data, own in table.items():
        found = [pairs.difference([_paired(own, kind, "cls")]) for kind in kinds[1:]]
        told = [_mean(study, own[kind]) for kind in kinds]
        lines.append([data, _metric(study, own), *told, *("" if one is None else _interval(one) for one in found)])
    columns = ["[CLS]", *kinds[1:], *(f"{kind} - [CLS]" for kind in kinds[1:])]
    return harness.table(["data", "metric", *columns], lines)


def _data(study: FinetuneStudy, plan: Plan) -> str:
    lines = []
    for name, own in {**plan.core, **plan.further}.items():
        line = next((line for rows in own.values() for row in rows if (line := study.result(row))), None)
        data = SETS[name]
        cells = [NOT_YET, "", "", ""]
        if line is not None:
            counts = [f"{count:,}" for count in (line["train"], line["dev"], line["overlap"]["dev in train"])]
            cells = [*counts, f"{line['cut']:.1%}"]
        lines.append([name, data.kind, *cells, data.rate, str(data.length), data.seen or "nothing known"])
    columns = ["data", "task", "train", "dev", "dev in train", "cut", "rate", "tokens", "seen by the starting model"]
    return harness.table(columns, lines)


def _runs(study: FinetuneStudy, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        line = study.result(row)
        if line is None:
            continue
        losses = f"{line['losses'][0]:.3f} / {line['losses'][-1]:.3f}"
        score = f"{100 * line['scores'].get(line['metric'], math.nan):.2f}"
        told = [f"{line['steps']:,}", f"{line['best_step'] or 0:,}", losses, score, line["date"], line["commit"]]
        lines.append([f"`{row.name}`", *told])
    columns = ["row", "steps", "best step", "training loss, first and last tenth", "score", "date", "commit"]
    return harness.table(columns, lines) + f"\n\n{NOT_YET.capitalize()}: {len(rows) - len(lines)} of {len(rows)} rows."


def _rates(study: FinetuneStudy, rows: Sequence[Row]) -> str:
    lines = study.rates.lines([pace for row in rows for pace in (row.pace, row.evaluation_pace)])
    cells = [
        [f"`{line['pace']}`", f"{line['seconds']:.4f}", f"{line['spread']:.0%}", f"{line['rounds']}", line["date"],
         line["commit"], line["machine"].partition(" (")[0]]
        for line in lines
    ]  # fmt: skip
    table = harness.table(["pace", "seconds", "spread", "rounds", "date", "commit", "machine"], cells)
    return f"{table}\n\n{'Medians over rounds.' if cells else 'Not measured yet.'}"


def _precisions(own: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return a row of each side in each precision that was timed, by what the page calls it."""
    return {f"{SAID[side]}, {row.precision}": [row] for side in ("ours", "trainer") for row in timed_with(own[side][0])}


# -- cells ------------------------------------------------------------------------------------------------------------


def _kinds(table: Table) -> list[str]:
    return list(next(iter(table.values())))


def _paired(own: Mapping[str, Sequence[Row]], one: str, other: str) -> list[Pair]:
    return list(zip(own.get(one, ()), own.get(other, ()), strict=False))


def _mean(study: FinetuneStudy, rows: Sequence[Row]) -> str:
    done = [line for line in (study.result(row) for row in rows) if line is not None]
    values = [100 * line["scores"].get(line["metric"], math.nan) for line in done]
    if not values:
        return NOT_YET
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    few = "" if len(done) == len(rows) else f" ({len(done)} of {len(rows)} seeds)"
    return f"{statistics.fmean(values):.1f}{spread}{few}"


def _metric(study: FinetuneStudy, own: Mapping[str, Sequence[Row]]) -> str:
    lines: list[Line] = [line for rows in own.values() for row in rows if (line := study.result(row))]
    return str(lines[0]["metric"]) if lines else ""


def _seconds(study: FinetuneStudy, rows: Sequence[Row]) -> float | None:
    known: list[Any] = [study.seconds(row) for row in rows]
    return None if None in known else sum(known)


def _interval(found: Difference) -> str:
    return f"{100 * found.value:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f})"
