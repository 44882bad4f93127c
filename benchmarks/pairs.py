"""With and without next-sentence prediction, at equal minutes: what the second objective costs the first, and gives.

Three runs that differ in `data.pairing` alone: documents packed into full rows, pairs of which half are random (BERT,
section 3.1, task 2), pairs of which half stand in the wrong order (ALBERT's sentence order). All are scored on the same
hidden words and the same held-out rows of single texts, the pairs on held-out pairs of their own kind.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.data.corpus import open_corpus
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.training.pretraining.evaluation import Evaluator
from benchmarks import corpora, harness, scores, sitting
from benchmarks.minutes_page import median_of
from benchmarks.rates import Rates, machine
from benchmarks.study import Row, Study

MINUTES, SEEDS = 5.0, (0,)
PAIRINGS = {"none": "packed rows, no pairs", "nsp": "next sentence", "sop": "sentence order"}
SETTINGS = ("model.dropout=0.0", "model.start=informed", "run.batch_rows=16", "optimizer.learning_rate=1.5e-3")

COMMAND = "python -m benchmarks.pairs --rates; python -m benchmarks.pairs -o docs/benchmarks/pairs.md"
ABOUT = """\
A row's minutes are minutes' worth and its scores are those of [minutes.md](minutes.md), of one seed. Pairs are shorter
than packed rows: of each row's 128 places some are padding, so the same minutes show fewer words."""


def rows(minutes: float = MINUTES) -> list[Row]:
    """Return a row for each pairing and seed."""
    return [
        Row(
            name=f"{pairing}-{minutes:g}m-s{seed}",
            minutes=minutes,
            settings=(*SETTINGS, f"data.pairing={pairing}"),
            layers=2,
            width=128,
            tokenizer="own-8000",
            seed=seed,
        )
        for seed in SEEDS
        for pairing in PAIRINGS
    ]


def score(row: Row, bundle: Bundle, corpus: Path) -> dict[str, Any]:
    """Score words as everywhere, and pairs on 1,024 held-out rows where the run learned them."""
    return {**scores.usual(row, bundle, corpus), "pair_accuracy": _pair_accuracy(row, bundle, corpus)}


def _pair_accuracy(row: Row, bundle: Bundle, corpus: Path) -> float | None:
    settings = row.pretrain_settings().with_values([f"run.evaluation_rows={scores.ROWS}"])
    if settings.data.pairing == "none":
        return None
    tokenizer = bundle.tokenizer
    specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    held_out = open_corpus(corpus).split("held-out")
    stream = RowStream(held_out, specials, seq_len=settings.data.seq_len, pairing=settings.data.pairing)
    evaluator = Evaluator(
        stream,
        settings,
        mask_id=tokenizer.mask_id,
        vocab_size=tokenizer.vocab_size,
        device=torch.device("cpu"),
    )
    return evaluator.score(bundle.model, torch.float32).pair_accuracy


def make_page(study: Study) -> str:
    """Return the page; a pairing without a finished row says so."""
    table = []
    for pairing, what in PAIRINGS.items():
        own = [row for row in study.rows if f"data.pairing={pairing}" in row.settings]
        done = [line for row in own if (line := study.result(row)) is not None]
        if not done:
            table.append([what, "0", "not run yet", *[""] * 4])
            continue
        table.append(
            [
                what,
                str(len(done)),
                f"{done[0]['steps']:,}",
                median_of(done, "held_out_loss", ".3f"),
                median_of(done, "bits_per_character", ".3f"),
                median_of(done, "word_accuracy", ".1%"),
                "" if pairing == "none" else median_of(done, "pair_accuracy", ".1%"),
            ]
        )
    columns = ["pairs", "seeds", "steps", "held-out loss", "bits a character", "words right", "pairs right"]
    names = list(dict.fromkeys(row.corpus for row in study.rows))
    sizes = [f"{corpora.size(name)} {corpora.overlap_line(name)}" for name in names]
    return harness.page(
        "With and without sentence pairs", COMMAND, machine(), [*sizes, ABOUT, harness.table(columns, table)]
    )


def quick() -> tuple[Study, sitting.Page]:
    """Return one seed of a few steps, kept apart from the real rows."""
    own = ("run.batch_rows=4", "run.evaluations=0")
    few = [
        replace(row, minutes=1e-4, layers=1, width=32, corpus="quick", settings=row.settings + own)
        for row in rows()[: len(PAIRINGS)]
    ]
    rates = Rates(harness.KEPT / "rows" / "quick-rates.jsonl")
    return Study("pairs-quick", few, score, rates=rates, kept=harness.KEPT / "rows"), make_page


def main() -> None:
    sitting.main(__doc__, Study("pairs", rows(), score), make_page, quick=quick)


if __name__ == "__main__":
    main()
