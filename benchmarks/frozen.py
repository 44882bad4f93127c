"""The vectors a bundle has for words and texts, of every kind at once; nothing of the bundle is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.bundle import Bundle
from anaume.bundle.contextual import layer_states
from anaume.tokenization import Encoding
from benchmarks import harness

Vectors = NDArray[np.float32]


def kinds_of(bundle: Bundle) -> list[str]:
    """Return the names of the kinds of vectors, in the order the functions below give them.

    First the token table, which knows a piece and nothing around it; then each layer, and the mean of the layers.
    """
    layers = (f"layer {layer + 1}" for layer in range(bundle.config.num_hidden_layers))
    return ["token table", *layers, "mean of layers"]


def word_vectors(bundle: Bundle, sentences: Sequence[Sequence[str]]) -> Vectors:
    """Return the vector of each word's first piece, (kinds, words of all sentences, hidden_size).

    A sentence too long for the bundle is cut in halves, and how often is said. Raises ValueError for a word that the
    tokenizer has no piece for.
    """
    longest = bundle.embedding.max_length
    parts = [part for words in sentences for part in _short_enough(bundle, words, longest)]
    if len(parts) > len(sentences):
        harness.say(f"sentences of more than {longest} tokens: cut at {len(parts) - len(sentences)} places")
    encodings = bundle.tokenizer.encode_batch([" ".join(words) for words in parts], max_length=longest)
    found: list[Vectors] = [np.empty(0, np.float32)] * len(parts)
    for index, states in _states(bundle, encodings):
        found[index] = states[:, _first_pieces(parts[index], encodings[index])]
    return np.concatenate(found, axis=1)


def text_vectors(bundle: Bundle, texts: Sequence[str]) -> Vectors:
    """Return the mean of each text's vectors, special tokens included as in `embed`, (kinds, texts, hidden_size).

    A text too long for the bundle is cut, and how many were is said.
    """
    encodings = bundle.tokenizer.encode_batch(texts, max_length=bundle.embedding.max_length)
    cut = sum(encoding.truncated for encoding in encodings)
    if cut:
        harness.say(f"texts cut to {bundle.embedding.max_length} tokens: {cut} of {len(texts)}")
    found: list[Vectors] = [np.empty(0, np.float32)] * len(texts)
    for index, states in _states(bundle, encodings):
        found[index] = states.mean(axis=1)
    return np.stack(found, axis=1)


def _states(bundle: Bundle, encodings: Sequence[Encoding]) -> Iterator[tuple[int, Vectors]]:
    """Yield each text's number and its vectors, (kinds, tokens, hidden_size), in the order that runs fastest."""
    table = bundle.model.embeddings.token_embeddings.weight.detach().float().cpu()
    rows = [encoding.token_ids for encoding in encodings]
    for index, states in layer_states(rows, None, engine=bundle.engine, pad_id=bundle.tokenizer.pad_id):
        layers = states[1:]
        kinds = torch.cat([table[torch.tensor(rows[index])][None], layers, layers.mean(dim=0, keepdim=True)])
        yield index, kinds.numpy()


def _short_enough(bundle: Bundle, words: Sequence[str], longest: int) -> list[Sequence[str]]:
    if len(words) == 1 or len(bundle.tokenizer.encode(" ".join(words))) <= longest:
        return [words]
    half = len(words) // 2
    return [*_short_enough(bundle, words[:half], longest), *_short_enough(bundle, words[half:], longest)]


def _first_pieces(words: Sequence[str], encoding: Encoding) -> NDArray[np.int64]:
    """Return the place of each word's first piece, (words,)."""
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])
    begins = np.array([begin for begin, _ in encoding.offsets[1:-1]])
    pieces = np.searchsorted(begins, starts)
    for word, start, piece in zip(words, starts, pieces, strict=True):
        if piece == len(begins) or begins[piece] >= start + len(word):
            raise ValueError(f"the tokenizer has no piece for the word {word!r} of {' '.join(words)!r:.80}")
    return pieces + 1  # [CLS] stands first
