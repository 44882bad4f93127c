"""Static against contextual at its plainest: input table, static export and full encoder, on similarity and search.

The input table is what the encoder starts from, a vector a token; the static export is distilled from the encoder; both
are summed up with the same code. Two static exports: frequencies guessed from the vocabulary's order, as
`anaume export B --to static` does without texts, and counted in texts of their own (STS-B train, no test set of here).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anaume
from anaume.bundle import Bundle, EmbedReport
from anaume.checks.machine import describe_machine
from anaume.data.labelled import read_texts
from anaume.errors import DataError
from anaume.exporting.exporting import export_bundle
from anaume.exporting.static import input_table
from benchmarks import finetune_made, harness
from benchmarks.harness import Peer, Results
from benchmarks.similarity_data import SETS, score
from benchmarks.sources import public_data
from benchmarks.texts import paragraphs

CHECKPOINT = "all-MiniLM-L6-v2"
SCORED = ("STS-B dev", "SICK", "Cranfield", "MS MARCO sample")
_TIMES_OF_STATIC = 10
"""Times that static vectors go through the texts: once is over before a clock tells much."""


def domain() -> list[str]:
    """Sentences to count frequencies in; none where the public data is not there."""
    try:
        pairs = read_texts(public_data("glue/STS-B/train.tsv.gz"), kind="number", paired=True)
        return list(dict.fromkeys(side for pair in pairs for side in (pair.text, pair.pair or "")))
    except DataError as error:
        harness.say(f"frequencies are guessed alone: {error}")
        return []


def forms(encoder: Bundle, folder: Path, texts: list[str]) -> dict[str, Bundle]:
    """Return the bundles of the table's rows, by name."""
    export_bundle(encoder, folder / "guessed", to="static")
    static = anaume.load(folder / "guessed", device="cpu")
    found = {"input table": input_table(static, encoder), "static, frequencies guessed": static}
    if texts:
        export_bundle(encoder, folder / "counted", to="static", texts=texts)
        found["static, frequencies counted"] = anaume.load(folder / "counted", device="cpu")
    return found | {"encoder": encoder}


def scores(bundle: Bundle) -> list[str]:
    """Return the row's scores, "-" where the public data is not there."""

    def one(name: str) -> str:
        try:
            return f"{score(name, lambda texts: bundle.embed_report(list(texts)).vectors):.4f}"
        except DataError as error:
            harness.say(f"{name}: {error}")
            return "-"

    return [one(name) for name in SCORED]


def main() -> None:
    given = harness.arguments(__doc__ or "", texts=2000, repeats=5).parse_args()
    count, repeats = (64, 2) if given.quick else (given.texts, given.repeats)
    texts = paragraphs(count)
    encoder = finetune_made.bundle() if given.quick else anaume.load(CHECKPOINT, device="cpu")
    about: dict[str, Any] = {"commit": harness.commit(), "versions": harness.versions(), "texts": count}
    results = Results("static", {**about, "repeats": repeats, "quick": given.quick}, fresh=given.fresh)
    with TemporaryDirectory() as folder:
        rows = forms(encoder, Path(folder), [] if given.quick else domain())

        def peer(name: str) -> Peer:
            times = 1 if name == "encoder" else _TIMES_OF_STATIC

            def prepare() -> Callable[[], EmbedReport]:
                return partial(rows[name].embed_report, texts * times)

            return Peer(name, prepare, {"texts": count * times})

        peers = [peer(name) for name in rows]
        timings = harness.measure(peers, results, repeats=repeats)
        lines = []
        for one in peers:
            timing, bundle = timings[one.name], rows[one.name]
            found = ["-"] * len(SCORED) if given.quick else scores(bundle)
            speed = [f"{one.settings['texts'] / timing.median:,.0f}", f"{timing.spread:.0%}"]
            lines.append([one.name, str(bundle.embedding_size), *found, *speed])
    columns = ["vectors", "numbers", *(f"{name}, {SETS[name].metric}" for name in SCORED), "texts/s", "spread"]
    parts = [
        f"{CHECKPOINT}, float32, the encoder by {encoder.engine_for(count).name}. Speed: {count:,} paragraphs of the "
        f"standard library's docstrings, text to vectors in one call, the median of {repeats} runs taken turn by turn; "
        f"static vectors go through them {_TIMES_OF_STATIC} times. Scores: Spearman of the cosines, nDCG@10 over all "
        "documents.",
        harness.table(columns, lines),
        "Static vectors know no context, and cut nothing: long documents count as a whole, which the encoder sees to "
        "its 256th token. Frequencies are counted in STS-B train, whose sentences share captions with SICK.",
    ]
    command = f"python -m benchmarks.static --texts {count} --repeats {repeats}"
    harness.publish(harness.page("Static vectors", command, describe_machine().line(), parts), given.out)


if __name__ == "__main__":
    main()
