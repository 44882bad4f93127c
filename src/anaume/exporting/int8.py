"""What int8 costs and gives, measured on texts that neither calibrated it nor chose its layers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import numpy as np
import numpy.typing as npt
import torch

from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts
from anaume.data.labelled import TextExample
from anaume.engines import Precision, Vectors, processor_instructions
from anaume.engines.runners import in_bfloat16
from anaume.errors import SettingsError
from anaume.exporting.certificate import agreement, pair_labels
from anaume.exporting.int8_certificate import Int8, Int8Bounds, Int8Score
from anaume.logs import get_logger
from anaume.tasks.retrieval import cosines
from anaume.tasks.vector_scores import correlation, resampled

log = get_logger(__name__)

LEAST = 100
"""Different texts that are needed: half are held out."""
_CALIBRATION, _CHOOSING, _HELD_OUT = 300, 1_000, 1_000  # at most
_ALONE, _TIMED, _ROUNDS = 50, 500, 3


@dataclass(frozen=True, kw_only=True)
class Int8Wanted:
    """What an int8 export is made with."""

    texts: Sequence[str]
    """Of your domain: one half calibrates, the other is held out for the certificate."""
    pairs: Sequence[TextExample] = ()
    """Pairs with a number (STS): the score before and after."""
    bounds: Int8Bounds = field(default_factory=Int8Bounds)
    force: bool = False
    """Keep an export that is over a bound; it says so wherever it is opened."""


@dataclass(frozen=True)
class Split:
    """Different texts, parted: none is in both."""

    given: int
    calibration: list[str]
    choosing: list[str]
    """Those of the calibration among them."""
    held_out: list[str]


def split_texts(texts: Sequence[str]) -> Split:
    """Part texts in two, every other one held out. Raises SettingsError for fewer than `LEAST` different ones."""
    different = list(dict.fromkeys(text for text in texts if text.strip()))
    if len(different) < LEAST:
        raise SettingsError(
            f"int8 needs at least {LEAST} different texts, of which half are held out for the certificate; got "
            f"{len(different)} (in {len(texts)} rows): give more with --calibrate"
        )
    choosing = _spread(different[::2], _CHOOSING)
    return Split(len(texts), _spread(choosing, _CALIBRATION), choosing, _spread(different[1::2], _HELD_OUT))


def _spread(texts: Sequence[str], most: int) -> list[str]:
    """Return up to so many texts, from the first to the last at equal steps."""
    places = np.linspace(0, len(texts) - 1, min(most, len(texts))).astype(int)
    return [texts[place] for place in places]


def certify(parts: BundleParts, split: Split, wanted: Int8Wanted, layers: int, kept: tuple[str, ...]) -> Int8:
    """Measure an export as it lies.

    layers, kept  products that could be in int8, and those of them that are not
    """
    log.info("int8: measuring on %d texts held out", len(split.held_out))
    rest: Precision = "bfloat16" if in_bfloat16("int8") else "float32"
    forms = {form: Bundle(parts, precision=form, device="cpu") for form in dict.fromkeys(("float32", rest, "int8"))}
    float32, int8 = forms["float32"], forms["int8"]
    texts = split.held_out
    one, other = _embedded(float32, texts), _embedded(int8, texts)
    near = agreement(one, other)
    found = cosines(other, one)
    alone = np.concatenate([_embedded(int8, [text]) for text in texts[:_ALONE]])
    score = _score(float32, int8, wanted.pairs) if wanted.pairs else None
    lost = None if score is None else -100.0 * score.difference.mean
    return Int8(
        given=split.given,
        calibration=len(split.calibration),
        choosing=len(split.choosing),
        held_out=len(texts),
        bounds=wanted.bounds,
        over=tuple(wanted.bounds.over(found, lost)),
        layers=layers,
        kept=kept,
        rest=rest,
        mean=round(float(found.mean()), 6),
        minimum=round(float(found.min()), 6),
        alone=float(np.abs(alone - other[: len(alone)]).max()),
        neighbours=near.neighbours,
        cosines=near.cosines,
        score=score,
        texts_per_second=_speeds(forms, texts[:_TIMED]),
        machine={"instructions": list(processor_instructions()), "threads": torch.get_num_threads()},
    )


def _embedded(bundle: Bundle, texts: Sequence[str]) -> Vectors:
    (report,) = bundle.embed_stream([texts], fingerprint="")  # cut texts are cut in both: nothing to warn about here
    return report.vectors


def _score(float32: Bundle, int8: Bundle, pairs: Sequence[TextExample]) -> Int8Score:
    labels = pair_labels(pairs)
    sides = [pair.text for pair in pairs], [pair.pair or "" for pair in pairs]
    one, other = (cosines(*(_embedded(bundle, side) for side in sides)) for bundle in (float32, int8))

    def spearman(found: npt.NDArray[np.float64], rows: npt.NDArray[np.int64]) -> float:
        return correlation("spearman", labels[rows], found[rows])

    if not np.isfinite(spearman(one, np.arange(len(labels)))):
        raise SettingsError(
            "no correlation is defined on these pairs: their numbers, or their cosines, are all the same"
        )
    return Int8Score(
        pairs=len(pairs),
        float32=resampled(partial(spearman, one), len(labels)),
        int8=resampled(partial(spearman, other), len(labels)),
        difference=resampled(lambda rows: spearman(other, rows) - spearman(one, rows), len(labels)),
    )


def _speeds(bundles: Mapping[Precision, Bundle], texts: Sequence[str]) -> dict[str, float]:
    """Return texts a second by name: the median of a few rounds, turn by turn, after one that warms up."""
    taken: dict[str, list[float]] = {name: [] for name in bundles}
    for round_ in range(_ROUNDS + 1):
        for name, bundle in bundles.items():
            start = time.perf_counter()
            _embedded(bundle, texts)
            if round_:
                taken[name].append(time.perf_counter() - start)
    return {name: round(len(texts) / median(own), 1) for name, own in taken.items()}
