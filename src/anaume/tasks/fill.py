"""Filling blanks: 穴埋め. What a masked-language-modelling head thinks of the places of [MASK], and of a whole text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization import Tokenizer

Predict = Callable[[Sequence[Sequence[int]], Sequence[int]], NDArray[np.float32]]
"""(rows of token IDs, one place a row) -> log probabilities of every token there, (rows, vocab_size)."""


@dataclass(frozen=True)
class Guess:
    """One way to fill a blank."""

    text: str
    tokens: tuple[str, ...]
    probability: float
    """Of all its pieces, one after the other, given that it has so many."""


@dataclass(frozen=True)
class Blank:
    """One [MASK] of the text, with its best guesses."""

    place: int
    """Where [MASK] begins in the text, in characters."""
    guesses: tuple[Guess, ...]


@dataclass(frozen=True)
class Filled:
    """A text with blanks, guessed."""

    text: str
    blanks: tuple[Blank, ...]

    @property
    def best(self) -> str:
        """The text with each blank's first guess put in."""
        parts, end = [], 0
        for blank in self.blanks:
            parts += [self.text[end : blank.place], blank.guesses[0].text]
            end = blank.place + len(_MASK)
        return "".join([*parts, self.text[end:]])


@dataclass(frozen=True)
class TextScore:
    """How likely a masked language model finds a text: its pseudo-log-likelihood (Salazar et al. 2020)."""

    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    """Of each token with it alone hidden, in nats."""

    @property
    def total(self) -> float:
        """Their sum."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """exp of the mean, turned round: 1 is certain, the vocabulary's size is guessing."""
        return math.exp(-self.total / len(self.tokens)) if self.tokens else 1.0


_MASK = "[MASK]"


def fill_blanks(
    text: str,
    *,
    tokenizer: Tokenizer,
    predict: Predict,
    max_length: int,
    usual_length: int,
    top_k: int = 5,
    max_pieces: int = 1,
    candidates: Sequence[str] | None = None,
) -> Filled:
    """Guess what stands at each "[MASK]" of a text, with the others still hidden.

    max_length    tokens the model takes
    usual_length  tokens of its rows: a longer text is guessed at places that may never have been trained; it is said
    top_k         guesses a blank
    max_pieces    guesses may have up to so many pieces: words the vocabulary does not hold whole
    candidates    only these words, of any number of pieces; None = all

    Raises DataError without a blank, for a text too long, and for a candidate the vocabulary can't spell.
    """
    if not isinstance(text, str):
        raise SettingsError(f"the text must be a string; got {type(text).__name__}")
    for name, number in (("top_k", top_k), ("max_pieces", max_pieces)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise SettingsError(f"{name} must be a whole number and at least 1; got {number!r}")
    candidates = _words(candidates)
    parts = text.split(_MASK)
    if len(parts) < 2:
        raise DataError(f"no blank to fill: write {_MASK} where a word is missing; got {text!r:.80}")
    spelled = [_pieces(tokenizer, part) for part in parts]
    longest = max_pieces if candidates is None else max(len(_spell(tokenizer, word)) for word in candidates)
    total = sum(map(len, spelled)) + len(parts) - 2 + longest + 2
    if total > max_length:
        raise DataError(f"the text has {total} tokens with its blanks, and the model takes {max_length}: shorten it")
    _warn_beyond(usual_length, total)
    blanks, place = [], -len(_MASK)
    for index in range(len(parts) - 1):
        place += len(_MASK) + len(parts[index])
        before = [tokenizer.cls_id, *_joined(spelled[: index + 1], tokenizer.mask_id)]
        after = [*_joined(spelled[index + 1 :], tokenizer.mask_id), tokenizer.sep_id]
        if candidates is None:
            guesses = _search(before, after, tokenizer, predict, top_k, max_pieces)
        else:
            guesses = _rank(before, after, tokenizer, predict, candidates)
        guesses.sort(key=lambda guess: -guess.probability)
        blanks.append(Blank(place, tuple(guesses[:top_k])))
    return Filled(text, tuple(blanks))


def score_text(text: str, *, tokenizer: Tokenizer, predict: Predict, max_length: int, usual_length: int) -> TextScore:
    """Return the log probability of each token with it alone hidden; lengths as `fill_blanks` takes them.

    Raises TokenizerError for a text too long.
    """
    encoding = tokenizer.encode(text, max_length=max_length, truncation="error")
    token_ids = encoding.token_ids
    _warn_beyond(usual_length, len(token_ids))
    places = range(1, len(token_ids) - 1)
    rows = [[*token_ids[:place], tokenizer.mask_id, *token_ids[place + 1 :]] for place in places]
    if not rows:
        return TextScore((), ())
    log_probabilities = predict(rows, list(places))
    own = log_probabilities[np.arange(len(rows)), [token_ids[place] for place in places]]
    return TextScore(tuple(encoding.tokens[1:-1]), tuple(float(value) for value in own))


def _warn_beyond(usual_length: int, total: int) -> None:
    if total > usual_length:
        warnings.warn(
            f"the text has {total} tokens, and rows of this bundle have {usual_length} (max_length): if it was trained "
            "on no longer ones, what it says of this text is unreliable; give shorter texts, or train on with a larger "
            "data.seq_len",
            AnaumeWarning,
            stacklevel=4,
        )


def _search(
    before: list[int], after: list[int], tokenizer: Tokenizer, predict: Predict, top_k: int, max_pieces: int
) -> list[Guess]:
    """Beam search over words of 1 .. max_pieces pieces, left to right; the pieces still to come stay hidden."""
    vocab = tokenizer.vocab
    specials = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    inside = np.array([token.startswith("##") for token in vocab])
    guesses = []
    for count in range(1, max_pieces + 1):
        beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
        for done in range(count):
            rest = [tokenizer.mask_id] * (count - done)
            rows = [[*before, *pieces, *rest, *after] for _, pieces in beam]
            scores = predict(rows, [len(before) + done] * len(rows))[:, : len(vocab)].copy()
            scores[:, specials] = -np.inf
            if count > 1 and tokenizer.rules.subwords == "wordpiece":
                scores[:, inside if done == 0 else ~inside] = -np.inf
            total = scores + np.array([[score] for score, _ in beam], dtype=np.float32)
            best = np.argsort(-total, axis=None, kind="stable")[:top_k]
            beam = [
                (float(total.flat[index]), (*beam[index // len(vocab)][1], int(index % len(vocab))))
                for index in best.tolist()
                if np.isfinite(total.flat[index])
            ]
        guesses += [_guess(tokenizer, pieces, score) for score, pieces in beam]
    return guesses


def _rank(
    before: list[int], after: list[int], tokenizer: Tokenizer, predict: Predict, candidates: Sequence[str]
) -> list[Guess]:
    """Score given words piece by piece, left to right, as `_search` would have met them."""
    guesses = []
    for word in dict.fromkeys(candidates):
        pieces = _spell(tokenizer, word)
        hidden = [tokenizer.mask_id] * len(pieces)
        rows = [[*before, *pieces[:done], *hidden[done:], *after] for done in range(len(pieces))]
        scores = predict(rows, [len(before) + done for done in range(len(pieces))])
        total = float(scores[np.arange(len(pieces)), pieces].sum())
        guesses.append(Guess(word, tuple(tokenizer.vocab[piece] for piece in pieces), math.exp(total)))
    return guesses


def _guess(tokenizer: Tokenizer, pieces: tuple[int, ...], score: float) -> Guess:
    tokens = tuple(tokenizer.vocab[piece] for piece in pieces)
    text = tokens[0] + "".join(token.removeprefix("##") for token in tokens[1:])
    return Guess(text, tokens, math.exp(score))


def _words(candidates: Sequence[str] | None) -> list[str] | None:
    if candidates is None:
        return None
    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        raise SettingsError(f"candidates must be a list of words; got {candidates!r:.60}: put one word into a list")
    words = list(candidates)
    if not words:
        raise SettingsError("candidates must hold at least one word")
    return words


def _joined(parts: Sequence[list[int]], mask_id: int) -> list[int]:
    joined: list[int] = []
    for index, part in enumerate(parts):
        joined += ([mask_id] if index else []) + part
    return joined


def _pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text).token_ids[1:-1]


def _spell(tokenizer: Tokenizer, word: str) -> list[int]:
    pieces = _pieces(tokenizer, word)
    if not pieces or tokenizer.unk_id in pieces:
        raise DataError(f"the vocabulary can't spell the candidate {word!r}: it would be {tokenizer.rules.unk_token}")
    return pieces
