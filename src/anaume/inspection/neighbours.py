"""Nearest words, static and contextual: by the token table alone, and by the vectors in real sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anaume.bundle import Bundle, similarity
from anaume.engines import Vectors
from anaume.errors import DataError
from anaume.inspection.path import encode_row, inspection_engine
from anaume.inspection.words import find_word, word_places


@dataclass(frozen=True)
class Neighbour:
    """A near word: its cosine, and the sentence it stands in (None in the token table)."""

    word: str
    cosine: float
    sentence: int | None


@dataclass(frozen=True)
class NeighbourReport:
    """Static neighbours of a word, and contextual ones of its occurrence in a sentence."""

    word: str
    tokens: tuple[str, ...]
    static: tuple[Neighbour, ...]
    contextual: tuple[Neighbour, ...]
    """Nearest occurrences of other words in the given sentences; empty when no sentence was given."""


def trace_neighbours(
    bundle: Bundle, word: str, *, sentence: str | None = None, sentences: Sequence[str] = (), top_k: int = 10
) -> NeighbourReport:
    """Find what lies near a word.

    sentence   where the word stands; its vector in the last layer there is compared with every word of `sentences`

    Raises DataError (a ValueError) when the word has no token or is not in the sentence.
    """
    encoding = bundle.tokenizer.encode(word)
    ids = [token for token, special in zip(encoding.token_ids, encoding.special_mask, strict=True) if not special]
    if not ids:
        raise DataError(f"the tokenizer makes no token of {word!r}")
    table = bundle.model.embeddings.token_embeddings.weight.detach().float().cpu().numpy()
    vocab = bundle.tokenizer.vocab
    cosines = similarity(table[ids].mean(axis=0), table[: len(vocab)])[0]
    others = np.setdiff1d(np.arange(len(vocab)), ids)
    nearest = others[np.argsort(-cosines[others], kind="stable")[:top_k]]
    static = tuple(Neighbour(vocab[i], float(cosines[i]), None) for i in nearest.tolist())
    contextual: tuple[Neighbour, ...] = ()
    if sentence is not None:
        contextual = _contextual(bundle, word, sentence, sentences, top_k)
    return NeighbourReport(word, tuple(vocab[i] for i in ids), static, contextual)


def _contextual(
    bundle: Bundle, word: str, sentence: str, sentences: Sequence[str], top_k: int
) -> tuple[Neighbour, ...]:
    span = find_word(bundle, word, sentence)
    if span is None:
        raise DataError(f"the sentence does not hold the word {word!r}: {sentence!r:.80}")
    states, offsets, _ = _last_layer(bundle, sentence)
    wanted = states[word_places(offsets, span)].mean(axis=0)
    found: list[Neighbour] = []
    for index, text in enumerate(sentences):
        if text == sentence:
            continue
        states, offsets, word_ids = _last_layer(bundle, text)
        for word_id in dict.fromkeys(i for i in word_ids if i is not None):
            places = [place for place, other in enumerate(word_ids) if other == word_id]
            surface = text[offsets[places[0]][0] : offsets[places[-1]][1]]
            if any(character.isalnum() for character in surface):
                cosine = float(similarity(wanted, states[places].mean(axis=0))[0, 0])
                found.append(Neighbour(surface, cosine, index))
    found.sort(key=lambda neighbour: -neighbour.cosine)
    return tuple(found[:top_k])


def _last_layer(bundle: Bundle, text: str) -> tuple[Vectors, list[tuple[int, int]], list[int | None]]:
    batch, _, offsets = encode_row(bundle, text)
    word_ids = bundle.tokenizer.encode(text).word_ids
    return inspection_engine(bundle).hidden_states(batch).last_hidden_state[0].numpy(), offsets, word_ids
