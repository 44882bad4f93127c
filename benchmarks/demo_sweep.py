"""Which size, vocabulary, learning rate and mask rate fill the most blanks after the demo's 150 seconds on two threads.

One is changed at a time, from a recipe in the middle: all of them together would take more than an hour.

The demo's text, recipe and measure (`anaume.demo.training`): the share of 2,000 held-out blanks, one piece each, whose
answer is among the first five guesses.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.data.corpus import open_corpus
from anaume.demo.training import SETTINGS, floor, score_blanks
from benchmarks import corpora, harness, sitting
from benchmarks.rates import Rates, machine
from benchmarks.study import Row, Study

MINUTES = 2.5
MIDDLE: dict[str, Any] = {"size": (2, 128), "vocabulary": "own-4000", "peak": "2e-3", "masked": "0.15"}
CHANGED: dict[str, tuple[Any, ...]] = {
    "peak": ("1e-3", "4e-3"),
    "masked": ("0.4",),
    "size": ((2, 192), (3, 192)),
    "vocabulary": ("own-2000", "own-8000"),
}
VARIED = (
    *("model.size", "model.hidden_size", "model.num_hidden_layers", "optimizer.learning_rate"),
    "objective.mask_rate",
)
FIXED = tuple(setting for setting in SETTINGS if not setting.startswith(VARIED))

COMMAND = "python -m benchmarks.demo_sweep --rates; python -m benchmarks.demo_sweep -o docs/benchmarks/demo_sweep.md"
ABOUT = """\
2,000 held-out blanks, one piece hidden in each; a row's 2.5 minutes are minutes' worth, as on
[minutes.md](minutes.md). A smaller vocabulary has commoner pieces: "over the commonest" is what a model knows beyond
always guessing the five commonest."""


def rows() -> list[Row]:
    """Return the sweep."""
    return [row(**MIDDLE)] + [row(**{**MIDDLE, what: other}) for what, others in CHANGED.items() for other in others]


def row(size: tuple[int, int], vocabulary: str, peak: str, masked: str) -> Row:
    """Return one recipe."""
    layers, width = size
    return Row(
        name=f"{layers}x{width}-{vocabulary.removeprefix('own-')}-{peak}-{masked}",
        minutes=MINUTES,
        settings=(*FIXED, f"optimizer.learning_rate={peak}", f"objective.mask_rate={masked}"),
        layers=layers,
        width=width,
        corpus="demo",
        tokenizer=vocabulary,
    )


def blanks(row: Row, bundle: Bundle, corpus: Path) -> dict[str, Any]:
    """Score a bundle as the demo does."""
    opened = open_corpus(corpus)
    scores = score_blanks(bundle, opened)
    return {
        "top1": scores.top1,
        "top5": scores.top5,
        "commonest_top5": scores.commonest_top5,
        "floor": floor(opened),
    }


def make_page(study: Study) -> str:
    """Return the page, best first."""
    done = [line for row in study.rows if (line := study.result(row)) is not None]
    done.sort(key=lambda line: -line["scores"]["top5"])
    table = [
        [
            f"`{line['row']['name']}`",
            f"{line['steps']:,}",
            f"{line['epochs']:.1f}",
            f"{line['training_loss']:.3f}",
            f"{line['scores']['floor']:.3f}",
            f"{line['scores']['top1']:.1%}",
            f"{line['scores']['top5']:.1%}",
            f"{line['scores']['top5'] - line['scores']['commonest_top5']:+.1%}",
        ]
        for line in done
    ]
    columns = [
        "size, vocabulary, highest rate, masked", "steps", "epochs", "training loss", "unigram floor", "top-1", "top-5",
        "over the commonest",
    ]  # fmt: skip
    names = list(dict.fromkeys(row.corpus for row in study.rows))
    parts = [
        *(f"{corpora.size(name)} {corpora.overlap_line(name)}" for name in names),
        ABOUT,
        harness.table(columns, table),
        f"Not run yet: {len(study.rows) - len(done)} of {len(study.rows)} rows.",
    ]
    return harness.page("The demo's sweep", COMMAND, machine(), parts)


def quick() -> tuple[Study, sitting.Page]:
    """Return two rows of a few steps, kept apart from the real ones."""
    some = rows()
    few = [replace(row, minutes=1e-3, layers=1, width=32, corpus="quick") for row in (some[0], some[-1])]
    rates = Rates(harness.KEPT / "rows" / "quick-rates.jsonl")
    return Study("demo_sweep-quick", few, blanks, rates=rates, kept=harness.KEPT / "rows"), make_page


def main() -> None:
    sitting.main(__doc__, Study("demo_sweep", rows(), blanks), make_page, quick=quick)


if __name__ == "__main__":
    main()
