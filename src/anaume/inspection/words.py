"""One word in several sentences: how its vector moves with the context, layer by layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anaume.bundle import Bundle, similarity
from anaume.engines import Vectors
from anaume.errors import DataError
from anaume.inspection.path import encode_row, inspection_engine


@dataclass(frozen=True)
class LayerCosines:
    """Mean cosine between the word's vectors in one layer."""

    layer: str
    within: float
    """Between sentences of one sense; NaN where no sense has two sentences."""
    across: float
    """Between sentences of different senses; NaN where there is one sense."""


@dataclass(frozen=True)
class Nearest:
    """The sentence whose occurrence of the word lies nearest, in the last layer."""

    sentence: int
    nearest: int
    cosine: float
    same_sense: bool


@dataclass(frozen=True)
class WordReport:
    """A word's vectors compared over sentences and senses."""

    word: str
    sentences: tuple[str, ...]
    senses: tuple[str, ...]
    """The sense of each sentence, as given or found by clustering."""
    clustered: bool
    """True: senses were found by clustering the last layer, not given."""
    layers: tuple[LayerCosines, ...]
    """First the row of the token table alone (1.000 by construction), then the input, then each layer."""
    nearest: tuple[Nearest, ...]
    vectors: Vectors
    """(layers, sentences, hidden_size): the word's vector, the mean over its pieces, in each of `layers`."""

    @property
    def agreement(self) -> float:
        """The share of sentences whose nearest has the same sense."""
        return sum(row.same_sense for row in self.nearest) / len(self.nearest)


def trace_word(
    bundle: Bundle, word: str, sentences: Sequence[str], senses: Sequence[str] | None = None, *, clusters: int = 2
) -> WordReport:
    """Compare the vectors of `word` in at least two sentences, each of which must hold it.

    senses    the sense of each sentence; None = found by clustering the last layer into `clusters` groups
    Raises DataError (a ValueError) naming the first sentence without the word.
    """
    if len(sentences) < 2:
        raise DataError(f"at least two sentences with {word!r} are needed; got {len(sentences)}")
    if senses is not None and len(senses) != len(sentences):
        raise DataError(f"{len(sentences)} sentences need as many senses; got {len(senses)}")
    vectors = np.stack([_word_vectors(bundle, word, text, row) for row, text in enumerate(sentences)], axis=1)
    if senses is None:
        named = _cluster(vectors[-1], clusters)
    else:
        named = tuple(senses)
    same = np.array([[a == b for b in named] for a in named])
    pairs = ~np.eye(len(named), dtype=bool)
    layers = []
    for index, layer in enumerate(vectors):
        cosines = similarity(layer, layer)
        name = "token" if index == 0 else "input" if index == 1 else f"layer {index - 1}"
        layers.append(LayerCosines(name, _mean(cosines[same & pairs]), _mean(cosines[~same])))
    return WordReport(
        word, tuple(sentences), named, senses is None, tuple(layers), _nearest(vectors[-1], named), vectors
    )


def find_word(bundle: Bundle, word: str, text: str) -> tuple[int, int] | None:
    """Return the character span of the first occurrence of `word` in `text`, whole words first; None if absent.

    Case counts only where the tokenizer keeps it. A language without blanks has no \\b, so a bare substring is taken
    when no whole word is found.
    """
    flags = re.IGNORECASE if bundle.tokenizer.rules.lower_case else 0
    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        found = re.search(pattern, text, flags)
        if found and not (pattern == re.escape(word) and word.isascii()):
            return found.span()
    return None


def word_places(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> list[int]:
    """Return the places of the tokens that share characters with `span`."""
    start, end = span
    return [place for place, (first, last) in enumerate(offsets) if first < end and start < last]


def _word_vectors(bundle: Bundle, word: str, text: str, row: int) -> Vectors:
    """(layers + 2, hidden_size): the word's row of the token table, then its vector in every hidden state."""
    span = find_word(bundle, word, text)
    if span is None:
        raise DataError(f"sentence {row + 1} does not hold the word {word!r}: {text!r:.80}")
    batch, _, offsets = encode_row(bundle, text)
    places = word_places(offsets, span)
    if not places:
        raise DataError(f"sentence {row + 1}: the tokenizer makes no token of {word!r}: {text!r:.80}")
    states = inspection_engine(bundle).hidden_states(batch).hidden_states
    assert states is not None
    table = bundle.model.embeddings.token_embeddings.weight.detach().float().cpu().numpy()
    static = table[batch.token_ids[0, places]].mean(axis=0)
    contextual = [state[0, places].mean(dim=0).numpy() for state in states]
    return np.stack([static, *contextual]).astype(np.float32)


def _cluster(vectors: Vectors, clusters: int) -> tuple[str, ...]:
    from sklearn.cluster import AgglomerativeClustering

    clusters = min(clusters, len(vectors))
    labels = AgglomerativeClustering(clusters, metric="cosine", linkage="average").fit_predict(vectors)
    order = {int(label): f"group {place + 1}" for place, label in enumerate(dict.fromkeys(labels.tolist()))}
    return tuple(order[int(label)] for label in labels)


def _nearest(vectors: Vectors, senses: Sequence[str]) -> tuple[Nearest, ...]:
    cosines = similarity(vectors, vectors)
    np.fill_diagonal(cosines, -2.0)
    rows = []
    for sentence, nearest in enumerate(cosines.argmax(axis=1).tolist()):
        cosine = float(cosines[sentence, nearest])
        rows.append(Nearest(sentence, nearest, cosine, senses[sentence] == senses[nearest]))
    return tuple(rows)


def _mean(values: npt.NDArray[np.float32]) -> float:
    return float(values.mean()) if values.size else float("nan")
