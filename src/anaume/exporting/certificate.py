"""The certificate of an export: how far its answers are from those of the bundle it was made of, measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from anaume.bundle import Bundle
from anaume.data.labelled import TextExample
from anaume.errors import SettingsError
from anaume.exporting.int8_certificate import Int8

NEIGHBOURS = 10


@dataclass(frozen=True, kw_only=True)
class TextAgreement:
    """How far two bundles see the same texts alike, whatever spaces their vectors live in."""

    texts: int
    cosines: float
    """Spearman correlation of the cosines of all pairs of texts, -1 to 1."""
    neighbours: float
    """The mean share of a text's ten nearest that both name, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class PairScores:
    """Spearman correlation with what people said of pairs of texts (STS), one a kind of vectors."""

    pairs: int
    spearman: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is kept beside an export."""

    form: str
    made_from: str
    """The vector fingerprint of the bundle it was made of."""
    settings: Mapping[str, Any]
    texts: TextAgreement | None = None
    """None where no texts were given: not measured."""
    pairs: PairScores | None = None
    graphs: Mapping[str, Any] | None = None
    """What was compared of each graph, and how far it was off."""
    int8: Int8 | None = None
    """None where nothing is in int8."""

    def to_dict(self) -> dict[str, Any]:
        """Return it ready for JSON; what was not measured is null."""
        return dataclasses.asdict(self)


def compare_texts(bundle: Bundle, export: Bundle, texts: Sequence[str]) -> TextAgreement:
    """Compare the neighbourhoods of some texts in two bundles. Raises SettingsError for fewer than three texts."""
    if len(texts) < 3:
        raise SettingsError(f"a comparison needs at least three held-out texts; got {len(texts)}")
    return agreement(_vectors(bundle, texts), _vectors(export, texts))


def agreement(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> TextAgreement:
    """Return how far two bundles' vectors of the same texts, (texts, any size), have the same neighbourhoods."""
    texts = left
    one, other = (_unit(vectors) @ _unit(vectors).T for vectors in (left, right))
    pairs = np.triu_indices(len(texts), k=1)
    count = min(NEIGHBOURS, len(texts) - 1)
    nearest = [np.argsort(-_without_self(cosines), axis=1, kind="stable")[:, :count] for cosines in (one, other)]
    shared = [len(np.intersect1d(a, b)) / count for a, b in zip(*nearest, strict=True)]
    return TextAgreement(
        texts=len(texts), cosines=_spearman(one[pairs], other[pairs]), neighbours=round(float(np.mean(shared)), 6)
    )


def correlate_pairs(bundles: Mapping[str, Bundle], pairs: Sequence[TextExample]) -> PairScores:
    """Return each bundle's correlation with the numbers of some pairs. Raises SettingsError for other examples."""
    labels = pair_labels(pairs)
    scores = {}
    for name, bundle in bundles.items():
        left = _unit(_vectors(bundle, [example.text for example in pairs]))
        right = _unit(_vectors(bundle, [example.pair or "" for example in pairs]))
        scores[name] = _spearman((left * right).sum(axis=1), labels)
    return PairScores(pairs=len(pairs), spearman=scores)


def pair_labels(pairs: Sequence[TextExample]) -> npt.NDArray[np.float64]:
    """Return the numbers of some pairs, (pairs,). Raises SettingsError for other examples."""
    for example in pairs:
        if example.pair is None or not isinstance(example.label, float):
            raise SettingsError(f"{example.place or 'a row'}: expected two texts and a number")
    return np.array([example.label for example in pairs], dtype=np.float64)


def _vectors(bundle: Bundle, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    (report,) = bundle.embed_stream([texts], fingerprint="")  # cut texts are cut in both: nothing to warn about here
    return report.vectors


def _unit(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return unit


def _without_self(cosines: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    others = cosines.copy()
    np.fill_diagonal(others, -np.inf)
    return others


def _spearman(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Return the correlation; 0 where one side is constant, of which none is defined."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return round(float(spearmanr(one, other).statistic), 6)
