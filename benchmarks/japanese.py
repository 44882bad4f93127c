"""Japanese tasks from a Japanese bundle made by `pretrain`, beside an untrained one and TF-IDF on characters.

    python -m benchmarks.japanese --rates
    python -m benchmarks.japanese -o docs/benchmarks/japanese.md

all-MiniLM-L6-v2's English vocabulary makes a third of Japanese unknown, so these tasks start from minutes of masked
words on Livedoor's news (japanese_bundle.py). Every row is a run with one seed; what is there is not run again.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import corpora, harness, japanese_bundle, sitting, study, tfidf
from benchmarks.finetune_data import DRAWN, JAPANESE, MADE, SETS, drawn
from benchmarks.finetune_sides import BATCH, EPOCHS, Row
from benchmarks.finetune_sides import MADE as MADE_BUNDLE
from benchmarks.finetune_study import FinetuneStudy
from benchmarks.rates import Rates, machine
from benchmarks.study import Study

SEEDS = (0, 1, 2)
STARTS = {japanese_bundle.UNTRAINED: "untrained", japanese_bundle.PRETRAINED: "pretrained"}
"""Bundle -> how its rows are called."""
COMMAND = "python -m benchmarks.japanese --rates; python -m benchmarks.japanese -o docs/benchmarks/japanese.md"
NOT_YET = "not run yet"

HOW = """\
The bundle: {layers} layers of {width}, a vocabulary of MeCab words (unidic-lite) with pieces below them, learned on the
text; {minutes:g} minutes' worth of two cores of masked words, 30 % of them, whole words. {corpus}

{overlap}

The tasks: at most {train:,} examples to learn from and {dev:,} to score on, drawn once (seed {drawn}); {epochs} epochs,
batches of {batch}, one learning rate a data set, the mean of the vectors as a text's (that of [CLS] is no text's after
minutes); three seeds, mean ± standard deviation. *Untrained* is the same encoder as it is drawn, which learns from the
task alone. *TF-IDF* counts runs of one to three characters (of a pair: what both have, what one alone has, the cosine)
under a linear model; of a choice it takes the option nearest to the question. It knows neither words nor their order,
and is hard to beat where a topic is told by its words.

Of Livedoor's articles a fifth is scored on, and in no text that is trained on; their titles and first 200 characters
are read, of nine categories. JNLI and JSQuAD are learned on their test parts, as train is not at hand. *JSTS* is a
number predicted from both texts in one row, *JSTS, as vectors* the cosine of a vector a text (`anaume finetune
similarity`)."""
READ = """\
What minutes of text teach is which words go together: names are found by that, and topics nearly as well as by counting
characters. They don't teach an encoder to look from one text into another. Pairs in one row are learned by heart then,
whatever the rate and the time ([lab book](../log.md), 2026-12-01), while TF-IDF is handed what both texts have in a
column of its own; as vectors, pairs reach about what TF-IDF does, pretrained or not. So try counting first; an encoder
of minutes is worth its time for names, and for what a longer training goes on from."""


class Japanese:
    """The pretraining and the rows that start from it, as one study."""

    def __init__(self, pretraining: Study, tuning: FinetuneStudy) -> None:
        self.pretraining, self.tuning = pretraining, tuning
        self.rows = (*pretraining.rows, *tuning.rows)

    def _of(self, row: Any) -> Any:
        return self.tuning if isinstance(row, Row) else self.pretraining

    def state(self, row: Any) -> str:
        return str(self._of(row).state(row))

    def minutes(self, row: Any) -> float | None:
        worth: float | None = self._of(row).minutes(row)
        return worth

    def forget(self, name: str) -> None:
        for part in (self.pretraining, self.tuning):
            if name in (row.name for row in part.rows):
                part.forget(name)

    def run(self, row: Any, *, threads: int | None = None) -> dict[str, Any] | None:
        line: dict[str, Any] | None = self._of(row).run(row, threads=threads)
        return line

    def measure_rates(self, rows: Sequence[Any], *, rounds: int, seconds: float, fresh: bool = False) -> None:
        own = [row for row in rows if not isinstance(row, Row)]
        self.pretraining.measure_rates(own, rounds=rounds, seconds=seconds, fresh=fresh)


def row(data: str, bundle: str, seed: int) -> Row:
    """Return the row of a data set, a start and a seed; a text is the mean of its vectors."""
    pooled = SETS[data].kind in ("classification", "pair-classification", "regression")
    label = data.replace(",", "").replace(" ", "-").lower()
    return Row(
        name=f"{label}-{STARTS.get(bundle, bundle)}-s{seed}",
        data=data,
        bundle=bundle,
        seed=seed,
        settings=("task.pooling=mean",) if pooled else (),
    )


Plan = dict[str, dict[str, list[Row]]]


def plan() -> Plan:
    """Return data -> bundle -> a row a seed, in the order in which they are worth running."""
    return {data: {start: [row(data, start, seed) for seed in SEEDS] for start in STARTS} for data in JAPANESE}


def make_page(done: Japanese, tables: Plan) -> str:
    """Return the page of the rows that are there."""
    (pretraining,) = done.pretraining.rows
    kept = done.pretraining.result(pretraining)
    shape = HOW.format(
        layers=pretraining.layers,
        width=pretraining.width,
        minutes=pretraining.minutes,
        corpus=corpora.size(pretraining.corpus),
        overlap=corpora.overlap_line(pretraining.corpus),
        train=max(data.train or 0 for data in JAPANESE.values()),
        dev=max(data.dev or 0 for data in JAPANESE.values()),
        drawn=DRAWN,
        epochs=EPOCHS,
        batch=BATCH,
    )
    parts = [shape, "## Scores", _scores(done, tables), READ, "## Pretraining", _pretraining(kept)]
    return harness.page("Japanese tasks", COMMAND, machine() if kept is None else kept["machine"], parts)


def _scores(done: Japanese, tables: Plan) -> str:
    starts = [STARTS.get(start, start) for start in next(iter(tables.values()))]
    columns = ["data", "score", "examples, scored", "commonest label", "TF-IDF on characters", *starts]
    told = []
    for data, own in tables.items():
        found = [[line for one in rows if (line := done.tuning.result(one))] for rows in own.values()]
        known = [line for lines in found for line in lines]
        counted = _baseline(data) if known else None
        told.append(
            [
                data,
                known[0]["metric"] if known else "",
                f"{known[0]['train']:,}, {known[0]['dev']:,}" if known else "",
                _commonest(data) if known else "",
                "" if counted is None else f"{100 * counted:.1f}",
                *(_shown([line["scores"][line["metric"]] for line in lines]) for lines in found),
            ]
        )
    return harness.table(columns, told)


def _commonest(data: str) -> str:
    """Return the accuracy of the commonest label said of all, of classes; "" of anything else."""
    if SETS[data].kind not in ("classification", "pair-classification"):
        return ""
    labels = Counter(example.label for example in drawn(data).dev)
    return f"{100 * max(labels.values()) / labels.total():.1f}"


def _baseline(data: str) -> float | None:
    return tfidf.score(SETS[data].kind, drawn(data).train, drawn(data).dev)


def _shown(scores: Sequence[float]) -> str:
    if not scores:
        return NOT_YET
    spread = f" ± {100 * statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
    return f"{100 * statistics.mean(scores):.1f}{spread}"


def _pretraining(kept: dict[str, Any] | None) -> str:
    if kept is None:
        return f"{NOT_YET[0].upper()}{NOT_YET[1:]}."
    points = ", ".join(f"{point['held_out_loss']:.2f}" for point in kept["curve"])
    return (
        f"{kept['steps']:,} steps ({kept['seconds_a_step']:.3f} s each on the quiet machine), {kept['epochs']:g} times "
        f"through {kept['scores']['tokens']:,} tokens, vocabulary {kept['scores']['vocabulary']:,}; held-out loss as "
        f"it went: {points}; commit {kept['commit']}, {kept['date']}."
    )


def quick() -> tuple[Japanese, Callable[[Japanese], str]]:
    """Return a pretraining of a few steps, and runs of seconds on made-up examples, kept apart, and their page."""
    kept = harness.KEPT / "rows" / "quick-japanese"
    rates = Rates(kept / "rates.jsonl")
    tables: Plan = {data: {MADE_BUNDLE: [row(data, MADE_BUNDLE, 0)]} for data in MADE}
    first = study.Row(
        name="pretraining", minutes=1e-4, layers=1, width=32, corpus="quick", settings=("run.batch_rows=4",)
    )
    pretraining = Study("quick-japanese", [first], lambda *_: {"tokens": 0, "vocabulary": 0}, rates=rates, kept=kept)
    rows = [one for starts in tables.values() for own in starts.values() for one in own]
    tuning = FinetuneStudy(rows, name="japanese", rates=rates, runs=study.RUNS / "quick", kept=kept)
    return Japanese(pretraining, tuning), lambda done: make_page(done, tables)


def main() -> None:
    tables = plan()
    rows = [one for starts in tables.values() for own in starts.values() for one in own]
    done = Japanese(japanese_bundle.study(), FinetuneStudy(rows, name="japanese"))
    sitting.main(__doc__, done, lambda done: make_page(done, tables), quick=quick)


if __name__ == "__main__":
    main()
