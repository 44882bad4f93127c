"""Text to normalised vectors: our torch engine beside sentence-transformers, by default and at its best setting."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import anaume
from anaume.bundle import find_bundle
from anaume.checks.machine import describe_machine
from anaume.engines import PRECISIONS, Precision, Vectors, share_of_machine
from anaume.model import encoder_flops
from benchmarks import harness
from benchmarks.harness import Peer, Results
from benchmarks.texts import paragraphs

CHECKPOINT = "all-MiniLM-L6-v2"
PEER = "sentence-transformers"
BATCH_SIZES = (8, 16, 32, 64, 128, 256)
DEFAULT_BATCH = 32
GOALS: dict[Precision, float] = {"float32": 1.5, "bfloat16": 2.5}
"""How many times the float32 default of sentence-transformers we mean to reach."""

Embed = Callable[[list[str]], Vectors]
Rows = dict[str, tuple[Precision, Callable[[], Embed]]]
"""Name of a row -> precision, and what makes its embed function."""


def our_embed(precision: Precision) -> Embed:
    return anaume.load(CHECKPOINT, precision=precision, device="cpu").embed


def their_embed(precision: Precision, batch_size: int) -> Embed:
    torch = importlib.import_module("torch")
    library = importlib.import_module("sentence_transformers")
    model = library.SentenceTransformer(
        str(find_bundle(CHECKPOINT)), device="cpu", model_kwargs={"dtype": getattr(torch, precision)}
    )

    def embed(texts: list[str]) -> Vectors:
        vectors: Vectors = model.encode(texts, batch_size=batch_size, show_progress_bar=False)
        return vectors.astype(np.float32)

    return embed


def best_batch(precision: Precision, texts: list[str]) -> int:
    """The batch size of sentence-transformers that is fastest on these texts, each tried twice, turn by turn."""
    taken = {}
    embeds = {size: their_embed(precision, size) for size in BATCH_SIZES}
    for round_ in range(3):
        for size, embed in embeds.items():
            start = time.perf_counter()
            embed(texts)
            if round_:  # the first is the warm-up
                taken[size] = min(taken.get(size, float("inf")), time.perf_counter() - start)
    harness.say(f"{PEER}, {precision}: {taken}")
    return min(taken, key=lambda size: taken[size])


def settings(results: Results, texts: list[str], *, quick: bool) -> Rows:
    """Every row of the table."""
    rows: Rows = {}
    for precision in PRECISIONS:
        rows[f"anaume, {precision}"] = (precision, partial(our_embed, precision))
    if importlib.util.find_spec("sentence_transformers") is None:
        harness.say(f"{PEER} is not installed: only our rows are measured")
        return rows
    for precision in PRECISIONS:
        sizes = [DEFAULT_BATCH]
        if not quick:
            sizes.append(results.remember(f"best batch {precision}", partial(best_batch, precision, texts[:512])))
        for size in dict.fromkeys(sizes):
            how = "default" if size == DEFAULT_BATCH else "best"
            name = f"{PEER}, {precision}, batch {size} ({'default and best' if sizes == [size, size] else how})"
            rows[name] = (precision, partial(their_embed, precision, size))
    return rows


def differences(rows: Rows, texts: list[str]) -> dict[str, tuple[float, float]]:
    """Max |difference| and min cosine of each row's vectors to those of the reference."""
    reference = next((name for name in rows if name.startswith(f"{PEER}, float32")), "anaume, float32")
    wanted = rows[reference][1]()(texts)
    found = {}
    for name, (_, make) in rows.items():
        vectors = make()(texts)
        cosines = (vectors * wanted).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(wanted, axis=1)
        found[name] = (float(np.abs(vectors - wanted).max()), float(cosines.min()))
    return found


def main() -> None:
    given = harness.arguments(__doc__, texts=2000, repeats=5).parse_args()
    count, repeats = (96, 2) if given.quick else (given.texts, given.repeats)
    texts = paragraphs(count)
    count = len(texts)
    about: dict[str, Any] = {"commit": harness.commit(), "versions": harness.versions(), "texts": count}
    results = Results("embed", {**about, "repeats": repeats, "quick": given.quick}, fresh=given.fresh)

    bundle = anaume.load(CHECKPOINT, device="cpu")
    limit = bundle.embedding.max_length
    lengths = [len(row) for row in bundle.tokenizer.encode_batch(texts, max_length=limit)]
    flops = encoder_flops(bundle.config, lengths)
    rows = settings(results, texts, quick=given.quick)
    equal = results.remember("differences", lambda: differences(rows, texts))

    def peer(name: str) -> Peer:
        def prepare() -> Callable[[], Vectors]:
            embed = rows[name][1]()
            embed(texts[:64])
            return lambda: embed(texts)

        return Peer(name, prepare)

    rates = harness.MatrixRates(results)
    peers = [peer(name) for name in rows]
    timings = harness.measure(peers, results, repeats=repeats, warmup=0, each_round=rates.measure)
    rate = {precision: rates.best(precision) for precision in PRECISIONS}
    default = next((timing.median for name, timing in timings.items() if name.startswith(f"{PEER}, float32")), None)

    lines = []
    for name, timing in timings.items():
        precision = rows[name][0]
        largest, cosine = equal[name]
        times = "" if default is None else f"{default / timing.median:.2f}"
        share = share_of_machine(flops, timing.median, rate[precision])
        speed, spread = f"{count / timing.median:,.0f}", f"{timing.spread:.0%}"
        lines.append([name, speed, spread, times, f"{share:.0%}", f"{largest:.1e}", f"{cosine:.5f}"])
    for precision in PRECISIONS:
        ceiling = count / (flops / (rate[precision] * 1e9))
        known = f"ceiling: {flops / 1e12:.2f} TFLOP at {rate[precision]:,.0f} GFLOP/s, {precision}"
        lines.append([known, f"{ceiling:,.0f}", "", "", "100%", "", ""])
    columns = ["how", "texts/s", "spread", "times the default", "of the matrix rate", "max difference", "min cosine"]
    parts = [
        f"{count:,} paragraphs of the standard library's docstrings (40 characters and more), {np.mean(lengths):.1f} "
        f"tokens on average, 95th percentile {np.percentile(lengths, 95):.0f}, at most {limit}; {CHECKPOINT}; text to "
        f"normalised vectors in one call. The median of {repeats} runs taken turn by turn; the spread is "
        f"(slowest - fastest) / median. Difference and cosine are to the float32 vectors of {PEER}. Ceiling: the "
        "operations the encoder needs without any padding (`encoder_flops`) at the best matrix rate measured between "
        "the runs.",
        harness.table(columns, lines),
    ]
    if default is not None:
        for precision, goal in GOALS.items():
            reached = default / timings[f"anaume, {precision}"].median
            verdict = "met" if reached >= goal else "MISSED"
            parts.append(f"Goal, {precision}: at least {goal} times the float32 default: {reached:.2f}, {verdict}.")
    command = f"python -m benchmarks.embed --texts {count} --repeats {repeats}"
    harness.publish(harness.page("Embedding", command, describe_machine().line(), parts), given.out)


if __name__ == "__main__":
    main()
