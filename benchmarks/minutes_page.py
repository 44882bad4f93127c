"""The page docs/benchmarks/minutes.md, made of whatever rows are there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import corpora, harness
from benchmarks.rates import machine, machines
from benchmarks.study import Row, Study

Line = tuple[str, list[Row]]
Plan = dict[str, list[Line]]
"""Table -> its lines: what it says, and the rows of all its seeds."""

NOT_YET = "not run yet"
COMMAND = "python -m benchmarks.minutes --rates; python -m benchmarks.minutes -o docs/benchmarks/minutes.md"

WORTH = """\
A row's minutes are minutes' worth: minutes x 60 / (seconds a step), with the seconds a step measured on a quiet
machine, all kinds turn by turn (the last table). A run that is disturbed or stopped therefore ends where it would have
ended undisturbed, and its learning rate goes over the very same steps. Evaluation, saving and start-up count for none.

Bits per character compare across vocabularies and sizes: {words} fixed words of held-out text, masked whole, -log2 p of
their pieces summed and divided by their characters; a word is right when all its pieces are the first guess. Both
vocabularies are lower-cased. The number of masks tells how many pieces a word has, which helps small pieces, and a
word's pieces are guessed at once, which costs them. Held-out loss (nats a piece, 15 % of the pieces masked, the same
rows and masks for all, rows of a single text) compares within one corpus and vocabulary only. Both are measured in
float32 on the saved model, a Trainer's opened by `anaume.load`. Several seeds: the median, the range in brackets."""


FLOOR = """\
The Trainer's loss is that of the frequencies alone; ours, by its recipe to the letter and as many steps, ends at 6.401.
Why is open ([lab book](../log.md), 2026-12-01), and until it is known the target says little."""


def make_page(study: Study, tables: Plan) -> str:
    """Return the page; what was not run says so."""
    every = [row for lines in tables.values() for _, own in lines for row in own]
    done = [line for line in (study.result(row) for row in every) if line is not None]
    names = list(dict.fromkeys(line["row"]["corpus"] for line in done)) or [every[0].corpus]
    words = f"{done[0]['scores']['words']:,}" if done else "some thousands of"
    parts = [
        *(f"{corpora.size(name)} {corpora.overlap_line(name)}" for name in names),
        WORTH.format(words=words),
        "## Time to target",
        _target(study, tables["target"]),
        "## The minutes table",
        _minutes(study, tables["minutes"]),
        "## Tricks, one at a time, at 5 equal minutes",
        "The baseline's highest learning rate, of one seed each:",
        _tricks(study, tables["peaks"]),
        "And what each change does to it; below 0 is better:",
        _tricks(study, tables["tricks"]),
        "## Every run",
        _runs(study, every),
        "## Seconds a step",
        _rates(study, every),
    ]
    return harness.page("The minutes table", COMMAND, machine(), parts)


def _target(study: Study, lines: Sequence[Line]) -> str:
    columns = ["how", "minutes' worth", "steps", "epochs", "held-out loss", "bits a character"]
    table = []
    for what, own in lines:
        done = _done(study, own)
        cells = [_one(done, lambda line: line["steps"], ",.0f"), _one(done, lambda line: line["epochs"], ".1f")]
        scores = [median_of(done, "held_out_loss", ".3f"), median_of(done, "bits_per_character", ".3f")]
        table.append([_named(what, own, done), f"{own[0].minutes:g}", *(cells + scores if done else _missing(4))])
    return harness.table(columns, table) + "\n\n" + _verdict(study, lines)


def _verdict(study: Study, lines: Sequence[Line]) -> str:
    theirs = [row for _, own in lines for row in own if row.kind == "trainer"]
    minutes = max(row.minutes for row in theirs)
    longest = [row for row in theirs if row.minutes == minutes]
    done = [line for row in longest if (line := study.result(row)) is not None]
    if not done:
        return f"The target, what the Trainer reaches in {minutes:g} minutes, is {NOT_YET}."
    best = min(done, key=lambda line: line["scores"]["held_out_loss"])
    target = best["scores"]["held_out_loss"]
    of = f"{len(longest)}" if len(done) == len(longest) else f"{len(done)} of {len(longest)} (the others: {NOT_YET})"
    said = [f"Target: {target:.3f}, `{best['row']['name']}`, the best of the Trainer's learning rates, of {of}."]
    for _, own in lines:
        done = _done(study, own)
        if own[0].kind == "ours" and done:
            losses = [line["scores"]["held_out_loss"] for line in done]
            median = statistics.median(losses)
            met = "reached" if median <= target else "not reached"
            said.append(f"{own[0].minutes:g} minutes, median of {len(losses)} seeds: {median:.3f}, {met}.")
    return " ".join(said) + "\n\n" + FLOOR


def _minutes(study: Study, lines: Sequence[Line]) -> str:
    columns = [
        "how", "minutes' worth", "vocabulary", "steps", "epochs", "training loss", "held-out loss", "bits a character",
        "words right",
    ]  # fmt: skip
    table = []
    for what, own in lines:
        done = _done(study, own)
        cells = [
            _one(done, lambda line: line["steps"], ",.0f"),
            _one(done, lambda line: line["epochs"], ".1f"),
            _one(done, lambda line: line["training_loss"], ".3f"),
            median_of(done, "held_out_loss", ".3f"),
            median_of(done, "bits_per_character", ".3f"),
            median_of(done, "word_accuracy", ".1%"),
        ]
        table.append(
            [_named(what, own, done), f"{own[0].minutes:g}", own[0].tokenizer, *(cells if done else _missing(6))]
        )
    unigrams = {}
    for _, own in lines:
        for line in _done(study, own):
            unigrams[f"{line['row']['corpus']}, {line['row']['tokenizer']}"] = line["scores"]
    floors = "; ".join(
        f"{name}: {scores['unigram_bits_per_character']:.3f} bits a character, "
        f"{scores['unigram_word_accuracy']:.1%} of the words"
        for name, scores in unigrams.items()
    )
    return harness.table(columns, table) + (
        f"\n\nA model that knows how often each piece occurs and nothing else, by corpus and vocabulary: {floors}."
        if floors
        else ""
    )


def _tricks(study: Study, lines: Sequence[Line]) -> str:
    columns = ["how", "steps", "bits a character", "against the first line", "words right", "held-out loss"]
    first = _done(study, lines[0][1])
    table = []
    for what, own in lines:
        done = _done(study, own)
        change = ""
        if first and done and done != first:
            change = f"{_median(done, 'bits_per_character') - _median(first, 'bits_per_character'):+.3f}"
        cells = [
            _one(done, lambda line: line["steps"], ",.0f"),
            median_of(done, "bits_per_character", ".3f"),
            change,
            median_of(done, "word_accuracy", ".1%"),
            median_of(done, "held_out_loss", ".3f") if own[0].tokenizer == lines[0][1][0].tokenizer else "",
        ]
        table.append([_named(what, own, done), *(cells if done else _missing(5))])
    return harness.table(columns, table)


def _runs(study: Study, every: Sequence[Row]) -> str:
    columns = ["row", "steps", "seconds it took", "seconds it is worth", "date", "commit"]
    table = []
    for name in dict.fromkeys(row.name for row in every):
        line = next((study.result(row) for row in every if row.name == name), None)
        if line is not None:
            worth = line["steps"] * line["seconds_a_step"]
            times = [f"{line['steps']:,}", f"{line['seconds']:,.0f}", f"{worth:,.0f}"]
            table.append([f"`{name}`", *times, line["date"], line["commit"]])
    left = len({row.name for row in every}) - len(table)
    return harness.table(columns, table) + f"\n\n{NOT_YET.capitalize()}: {left} rows."


def _rates(study: Study, every: Sequence[Row]) -> str:
    lines = study.rates.lines(row.pace for row in every)
    table = [
        [f"`{line['pace']}`", f"{line['seconds']:.4f}", f"{line['spread']:.0%}", f"{line['rounds']}", line["date"],
         line["commit"]]
        for line in lines
    ]  # fmt: skip
    measured = "\n\n".join(f"Measured on: {name}" for name in machines(lines))
    return harness.table(["pace", "seconds a step", "spread", "rounds", "date", "commit"], table) + (
        f"\n\n{measured}" if measured else "\n\nNot measured yet."
    )


def _done(study: Study, own: Sequence[Row]) -> list[dict[str, Any]]:
    return [line for row in own if (line := study.result(row)) is not None]


def _named(what: str, own: Sequence[Row], done: Sequence[Any]) -> str:
    return what if not done or len(done) == len(own) else f"{what} ({len(done)} of {len(own)} seeds)"


def _missing(count: int) -> list[str]:
    return [NOT_YET, *[""] * (count - 1)]


def _median(done: Sequence[dict[str, Any]], name: str) -> float:
    return statistics.median(line["scores"][name] for line in done)


def median_of(done: Sequence[dict[str, Any]], name: str, form: str) -> str:
    """The median of a score, with its range where there are several."""
    values = [line["scores"][name] for line in done]
    if len(values) < 2:
        return "".join(f"{value:{form}}" for value in values)
    return f"{statistics.median(values):{form}} [{min(values):{form}} {max(values):{form}}]"


def _one(done: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float], form: str) -> str:
    return f"{statistics.median(map(value, done)):{form}}" if done else ""
