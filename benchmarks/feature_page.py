"""The page docs/benchmarks/feature-based.md, made of whatever rows are there; what was not run says so."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence

from anaume.config import HeadLayers
from benchmarks import harness
from benchmarks.feature_study import FeatureStudy, Row, Tagger
from benchmarks.finetune_data import DRAWN, SETS
from benchmarks.finetune_pairs import RESAMPLES, Difference, Pairs
from benchmarks.rates import machine, machines

Plan = dict[Tagger, dict[HeadLayers, list[Row]]]
"""Tagger -> what it reads -> a row a seed."""

NOT_YET = "not run yet"
COMMAND = "python -m benchmarks.feature_based -o docs/benchmarks/feature-based.md"
PAPER: dict[HeadLayers, float] = {
    "embeddings": 91.0,
    "last": 94.9,
    "second-to-last": 95.6,
    "weighted-all": 95.5,
    "weighted-last-four": 95.9,
    "last-four": 96.1,
}
"""Dev F1 of BERT base (table 7)."""
LAYERS: tuple[HeadLayers, ...] = tuple(PAPER)
SAID: dict[HeadLayers, str] = {
    "embeddings": "embeddings only",
    "last": "last hidden",
    "second-to-last": "second-to-last hidden",
    "weighted-all": "weighted sum of all layers",
    "weighted-last-four": "weighted sum of last four",
    "last-four": "last four, concatenated",
}

ABOUT = """\
The encoder stays frozen (`anaume finetune features`): its vectors are computed once, and a tagger learns on them. The
paper's table 7 does so with BERT base, cased, on all 14,041 training sentences of CoNLL-2003, with their documents as
context; it tells dev F1. Here: all-MiniLM-L6-v2 (6 layers of 384, lower-cased, trained for sentence similarity),
{train} training sentences and {dev} of eng.testa, drawn by a fixed seed ({drawn}), each sentence by itself. So the
levels can't be compared, only the order of the rows. "Embeddings only" is what goes into the first layer: the sum of
token, position and segment, normalised."""

TAGGERS = """\
**BiLSTM**: two layers over the pieces, the two directions together as wide as the encoder (192 each; the paper has a
"two-layer 768-dimensional BiLSTM" over 768), dropout 0.1, then a linear layer; a word's first piece says its tag. AdamW
at 2e-3 with 10 % warm-up and a linear way down, batches of 32, 8 epochs, bfloat16: one recipe for all rows (width and
rate were chosen on single runs over the last layer, [log](../log.md)). The best of eight evaluations on dev is kept;
dev scores flatter all rows alike.

**Linear**: logistic regression by scikit-learn, the best of three strengths on dev; one solution, so one seed. Weighted
sums have no such solution: their linear layer and weights are trained as the BiLSTM is (24 epochs at 1e-2).

F1 of entities (conlleval's, lenient), in points; mean ± standard deviation over seeds."""

ORDER = """\
Each pair of rows by the BiLSTM, the one that is better in the paper first. The interval is the middle 95 % over {0:,}
resamples of the dev sentences, both rows on the same ones, seeds averaged: it says what other sentences would change,
not what other seeds would. "Open": it holds 0."""


def make_page(study: FeatureStudy, plan: Plan, *, resamples: int = RESAMPLES) -> str:
    """Return the page."""
    rows = [row for own in plan.values() for several in own.values() for row in several]
    lines = [line for row in rows if (line := study.result(row))]
    first = lines[0] if lines else None
    counts = {name: NOT_YET if first is None else f"{first[name]:,}" for name in ("train", "dev")}
    parts = [
        ABOUT.format(**counts, drawn=DRAWN),
        TAGGERS,
        "## Scores",
        _scores(study, plan),
        "## The order of the rows",
        *_order(study, plan, Pairs(study, resamples=resamples)),
        "## What the weighted sums learned",
        "Share of each layer, the lowest first, mean over seeds; all began equal.",
        _shares(study, plan),
        "## Every run",
        _runs(study, rows),
    ]
    where = "; ".join(machines(lines)) or machine()
    return harness.page("Features of a frozen encoder", COMMAND, where, parts)


def _scores(study: FeatureStudy, plan: Plan) -> str:
    lines = [
        [SAID[layers], f"{PAPER[layers]:.1f}", *(_mean(study, own.get(layers, [])) for own in plan.values())]
        for layers in LAYERS
        if any(layers in own for own in plan.values())
    ]
    names = {"bilstm": "BiLSTM", "linear": "linear"}
    return harness.table(["reads", "paper, BERT base, BiLSTM", *(names[tagger] for tagger in plan)], lines)


def _order(study: FeatureStudy, plan: Plan, pairs: Pairs) -> list[str]:
    own = plan["bilstm"]
    ranked = sorted(own, key=lambda layers: -PAPER[layers])
    means = {layers: mean for layers in own if (mean := _value(study, own[layers])) is not None}
    lines, verdicts = [], []
    for better, worse in itertools.combinations(ranked, 2):
        cells = [NOT_YET, ""]
        found = pairs.difference([list(zip(own[better], own[worse], strict=True))])
        if found is not None:
            verdicts.append(_verdict(found))
            cells = [
                f"{100 * found.value:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f})",
                f"{verdicts[-1]}{'' if found.seeds == len(own[better]) else f' ({found.seeds} seeds)'}",
            ]
        theirs = PAPER[better] - PAPER[worse]
        lines.append([f"{SAID[better]} - {SAID[worse]}", f"{theirs:+.1f}", *cells])
    return [
        _said(means, own, verdicts),
        ORDER.format(RESAMPLES),
        harness.table(["pair", "paper", "here", "the paper's order"], lines),
    ]


def _said(means: Mapping[HeadLayers, float], own: Mapping[HeadLayers, Sequence[Row]], verdicts: Sequence[str]) -> str:
    """Return whether the order is reproduced, in a few sentences."""
    if len(means) < len(own):
        return f"{NOT_YET.capitalize()}: {len(own) - len(means)} of {len(own)} rows."
    from scipy.stats import kendalltau

    tau = kendalltau([PAPER[layers] for layers in means], list(means.values())).statistic
    theirs, ours = (
        " > ".join(SAID[layers] for layers in sorted(means, key=lambda layers: -scores[layers]))
        for scores in (PAPER, means)
    )
    pairs = list(itertools.combinations(means, 2))
    same = sum((PAPER[one] - PAPER[other]) * (means[one] - means[other]) > 0 for one, other in pairs)
    return (
        f"The order is {'reproduced' if same == len(pairs) else 'not reproduced as a whole'}: {same} of {len(pairs)} "
        f"pairs stand as in the paper (Kendall's tau {tau:+.2f}). {verdicts.count('yes')} of them do so clearly, "
        f"{verdicts.count('reversed')} are clearly the other way round, {verdicts.count('open')} are open.\n\n"
        f"- paper: {theirs}\n- here: {ours}"
    )


def _verdict(found: Difference) -> str:
    if found.low <= 0.0 <= found.high:
        return "open"
    return "yes" if found.value > 0 else "reversed"


def _shares(study: FeatureStudy, plan: Plan) -> str:
    lines = []
    for tagger, own in plan.items():
        for layers, rows in own.items():
            known = [line["shares"] for row in rows if (line := study.result(row)) and line["shares"]]
            if known:
                means = [statistics.fmean(values) for values in zip(*known, strict=True)]
                lines.append([f"{tagger}, {SAID[layers]}", ", ".join(f"{mean:.2f}" for mean in means)])
    return harness.table(["row", "shares"], lines) if lines else f"{NOT_YET.capitalize()}."


def _runs(study: FeatureStudy, rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        line = study.result(row)
        if line is None:
            continue
        scores = [f"{100 * line['scores'][name]:.2f}" for name in ("f1", "precision", "recall", "accuracy")]
        steps = f"{line['best_step']} of {line['steps']}" if line["steps"] else "solved"
        lines.append([f"`{row.name}`", steps, *scores, line["date"], line["commit"]])
    columns = ["row", "best step", "F1", "precision", "recall", "words right", "date", "commit"]
    missing = len(rows) - len(lines)
    told = f"{NOT_YET.capitalize()}: {missing} of {len(rows)} rows." if missing else ""
    data = ", ".join(dict.fromkeys(f"{row.data} ({', '.join(SETS[row.data].files) or 'made up'})" for row in rows))
    return "\n\n".join(part for part in (harness.table(columns, lines), told, f"Data: {data}.") if part)


# -- cells ------------------------------------------------------------------------------------------------------------


def _values(study: FeatureStudy, rows: Sequence[Row]) -> list[float]:
    return [100 * line["scores"]["f1"] for row in rows if (line := study.result(row))]


def _value(study: FeatureStudy, rows: Sequence[Row]) -> float | None:
    values = _values(study, rows)
    return statistics.fmean(values) if values else None


def _mean(study: FeatureStudy, rows: Sequence[Row]) -> str:
    values = _values(study, rows)
    if not values:
        return NOT_YET
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    few = "" if len(values) == len(rows) else f" ({len(values)} of {len(rows)} seeds)"
    return f"{statistics.fmean(values):.1f}{spread}{few}"
