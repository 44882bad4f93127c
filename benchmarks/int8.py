"""int8 under its certificate: what it costs on texts it never saw, and its speed beside bfloat16 and float32.

all-MiniLM-L6-v2 is exported as `anaume export --int8` does it, calibrated on paragraphs of the standard library and,
where the public data is there, on sentences of STS-B train; measured on other paragraphs and on STS-B dev.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import anaume
from anaume.checks.machine import describe_machine
from anaume.data.labelled import TextExample, read_texts
from anaume.engines import Precision, Vectors, has_bfloat16, pick_device
from anaume.errors import DataError
from anaume.exporting.certificate import Certificate
from anaume.exporting.exporting import export_bundle
from anaume.tasks.retrieval import cosines
from benchmarks import harness
from benchmarks.harness import Peer, Results
from benchmarks.sources import public_data
from benchmarks.texts import paragraphs

CHECKPOINT = "all-MiniLM-L6-v2"
GOAL = 1.35
"""Times the speed of bfloat16."""
_CALIBRATION = 800  # texts of each kind that are given; half of them are held out


def sts(part: str) -> list[TextExample]:
    """Pairs of STS-B; none where the public data is not there."""
    try:
        return list(read_texts(public_data(f"glue/STS-B/{part}"), kind="number", paired=True))
    except DataError as error:
        harness.say(f"paragraphs alone: {error}")
        return []


def export(folder: Path, given: list[str], dev: list[TextExample]) -> Certificate:
    bundle = anaume.load(CHECKPOINT, device="cpu")
    return export_bundle(bundle, folder, to="openvino", int8=True, texts=given, pairs=dev, force=True)


def main() -> None:
    given = harness.arguments(__doc__ or "", texts=2000, repeats=5).parse_args()
    count, repeats, kept = (96, 2, 60) if given.quick else (given.texts, given.repeats, _CALIBRATION)
    every = paragraphs(count + kept)
    calibration, timed = every[:kept], every[kept:]
    dev = sts("dev.tsv")
    dev = dev[:100] if given.quick else dev
    sentences = list(dict.fromkeys(side for pair in dev for side in (pair.text, pair.pair or "")))
    train = list(dict.fromkeys(pair.text for pair in sts("train.tsv.gz")))
    calibration += random.Random(0).sample(train, min(len(train), kept))
    kinds = {"paragraphs": timed, **({"STS-B dev sentences": sentences} if sentences else {})}

    about: dict[str, Any] = {"commit": harness.commit(), "versions": harness.versions(), "texts": count}
    results = Results("int8", {**about, "repeats": repeats, "quick": given.quick}, fresh=given.fresh)
    with TemporaryDirectory() as folder:
        place = Path(folder) / "B8"
        harness.say("exporting")
        certificate = export(place, calibration, dev)
        assert certificate.int8 is not None
        precisions: list[Precision] = ["float32", "bfloat16", "int8"]
        if not has_bfloat16(pick_device("cpu")):
            precisions.remove("bfloat16")
        opened = {precision: anaume.load(place, precision=precision) for precision in precisions}

        def peer(precision: Precision, kind: str) -> Peer:
            def prepare() -> Callable[[], Vectors]:
                return partial(opened[precision].embed, kinds[kind])

            return Peer(f"{precision}, {kind}", prepare)

        peers = [peer(precision, kind) for kind in kinds for precision in precisions]
        timings = harness.measure(peers, results, repeats=repeats)
        vectors = {kind: [own.embed(kinds[kind]) for own in opened.values()] for kind in kinds}

    lines, verdicts = [], []
    for kind, texts in kinds.items():
        for precision, found in zip(precisions, vectors[kind], strict=True):
            timing, close = timings[f"{precision}, {kind}"], cosines(found, vectors[kind][0])
            speed = f"{len(texts) / timing.median:,.0f}"
            lines.append(
                [f"{kind}, {precision}", speed, f"{timing.spread:.0%}", f"{close.mean():.5f}", f"{close.min():.4f}"]
            )
        if "bfloat16" in precisions:
            pairs = zip(timings[f"bfloat16, {kind}"].seconds, timings[f"int8, {kind}"].seconds, strict=True)
            ratio = float(np.median([one / other for one, other in pairs]))
            verdicts.append(f"{kind}: int8 is {ratio:.2f} times bfloat16, {'met' if ratio >= GOAL else 'MISSED'}.")
    told = certificate.int8
    parts = [
        f"{' and '.join(f'{len(texts):,} {kind}' for kind, texts in kinds.items())}; {CHECKPOINT}; text to normalised "
        f"vectors in one call, the median of {repeats} runs taken turn by turn. Calibrated on other texts.",
        harness.table(["texts, precision", "texts/s", "spread", "mean cosine", "lowest"], lines),
        f"In int8: {told.layers - len(told.kept)} of {told.layers} products, the rest in {told.rest}; kept out: "
        f"{', '.join(told.kept) or 'none'}; over a bound: {'; '.join(told.over) or 'nothing'}.",
        f"Goal: at least {GOAL} times bfloat16, pair by pair. {' '.join(verdicts)}",
    ]
    if told.score is not None:
        gain = told.score.difference
        parts.append(
            f"STS-B dev, Spearman: float32 {told.score.float32.mean:.4f}, int8 {told.score.int8.mean:.4f}; gained "
            f"{100 * gain.mean:+.2f} points (95 % interval {100 * gain.low:+.2f} to {100 * gain.high:+.2f})."
        )
    command = f"python -m benchmarks.int8 --texts {count} --repeats {repeats}"
    harness.publish(harness.page("int8", command, describe_machine().line(), parts), given.out)


if __name__ == "__main__":
    main()
