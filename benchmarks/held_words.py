"""Bits per character of held-out words: a measure that models with different vocabularies share.

Fixed passages of about 60 words of held-out text, about 15 % of the words hidden, chosen by hashes of the text and by
no tokenizer. A hidden word is masked whole, all its pieces are [MASK], and a model tells the probability of each. The
sum of -log2 p over all hidden words, divided by their characters, is the measure; word accuracy is the share of words
all of whose pieces are the first guess.

What a vocabulary still decides: the number of masks tells how many pieces a word has, a hint that small pieces give
more of; and the pieces of a word are guessed at once, without seeing each other, which costs small pieces more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from anaume.bundle import Bundle
from anaume.data import pad
from anaume.errors import DataError
from anaume.tokenization import Tokenizer
from benchmarks.corpora import share_of

WORDS, HIDDEN, PASSAGES = 60, 0.15, 1_000
MOST_CHARACTERS = 400
"""Blanks apart; a passage of more is a table or a drawing, and is passed by."""
AT_ONCE = 32

_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[A-Za-z0-9]+")


@dataclass(frozen=True)
class Passage:
    """A held-out text with the spans of its hidden words, in characters."""

    text: str
    hidden: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WordScores:
    """What a model makes of the hidden words."""

    bits_per_character: float
    word_accuracy: float
    words: int
    characters: int


def cut_passages(texts: Iterable[str], most: int = PASSAGES) -> list[Passage]:
    """Return the passages of held-out texts; of more than `most`, those with the lowest hashes."""
    found = [passage for text in texts for passage in _passages(text)]
    found.sort(key=lambda passage: share_of(passage.text))
    return found[:most]


def _passages(text: str) -> Iterable[Passage]:
    words = [match.span() for match in _WORD.finditer(text)]
    for first in range(0, len(words) - WORDS // 2, WORDS):
        own = words[first : first + WORDS]
        start, stop = own[0][0], words[first + WORDS][0] if first + WORDS < len(words) else len(text)
        passage = text[start:stop].rstrip()
        if sum(map(len, passage.split())) > MOST_CHARACTERS:
            continue
        spans = [(begin - start, end - start) for begin, end in own]
        hidden = tuple(span for index, span in enumerate(spans) if _is_hidden(passage, span, index))
        if hidden:
            yield Passage(passage, hidden)


def _is_hidden(passage: str, span: tuple[int, int], index: int) -> bool:
    # Letters and digits of ASCII only: no vocabulary lacks them. "<unk>" stands for a word that nobody knows.
    begin, end = span
    plain = _PLAIN.fullmatch(passage, begin, end) is not None and passage[begin - 1 : end + 1] != "<unk>"
    return plain and share_of(f"{index} {passage}") < HIDDEN


class HeldWords:
    """Passages as one tokenizer has them: rows with [MASK] at every piece of a hidden word.

    Raises DataError for a passage that does not fit `max_length` tokens, or a word that the vocabulary can't spell.
    """

    def __init__(self, passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> None:
        self._pad_id = tokenizer.pad_id
        self._vocab = tokenizer.vocab
        self._rows: list[list[int]] = []
        self._places: list[list[int]] = []
        self._answers: list[list[int]] = []
        words: list[int] = []
        self.characters = 0
        count = 0
        for passage, encoding in zip(passages, tokenizer.encode_batch([one.text for one in passages]), strict=True):
            row, offsets = encoding.token_ids, encoding.offsets
            if len(row) > max_length:
                raise DataError(
                    f"a held-out passage has {len(row)} tokens, and the model was trained on {max_length}: a "
                    f"vocabulary of {tokenizer.vocab_size:,} cuts it too fine; it begins {passage.text[:40]!r}"
                )
            places: list[int] = []
            for begin, end in passage.hidden:
                own = [place for place in range(1, len(row) - 1) if begin <= offsets[place][0] < end]
                if not own or any(row[place] == tokenizer.unk_id for place in own):
                    raise DataError(f"the vocabulary can't spell the held-out word {passage.text[begin:end]!r}")
                places += own
                words += [count] * len(own)
                count += 1
                self.characters += end - begin
            self._answers.append([row[place] for place in places])
            hidden = set(places)
            self._rows.append([tokenizer.mask_id if place in hidden else token for place, token in enumerate(row)])
            self._places.append(places)
        self.words = count
        self._word_of = np.array(words)

    def score(self, bundle: Bundle) -> WordScores:
        """Ask a bundle with an mlm head, in float32."""
        bits: list[NDArray[np.float64]] = []
        right: list[NDArray[np.bool_]] = []
        model = bundle.model.eval()
        with torch.inference_mode():
            for start in range(0, len(self._rows), AT_ONCE):
                token_ids, mask = (
                    torch.from_numpy(array) for array in pad(self._rows[start : start + AT_ONCE], self._pad_id)
                )
                places, real = (torch.from_numpy(array) for array in pad(self._places[start : start + AT_ONCE], 0))
                answers = torch.from_numpy(pad(self._answers[start : start + AT_ONCE], 0)[0])
                states = model(token_ids, mask).last_hidden_state
                logits = model.head_logits("mlm", states, mask, places).float()
                own = logits.log_softmax(dim=-1).gather(-1, answers[..., None])[..., 0]
                bits.append((-own[real] / math.log(2)).double().numpy())
                right.append((logits.argmax(dim=-1) == answers)[real].numpy())
        return self._scores(np.concatenate(bits), np.concatenate(right))

    def unigram(self, token_counts: NDArray[np.int64]) -> WordScores:
        """Score a model that knows how often each piece occurs and nothing else; it always guesses the commonest word.

        token_counts  (vocab_size,) of the training text; one is added to each
        """
        counts = token_counts.astype(np.float64) + 1
        answers = np.concatenate([np.array(row) for row in self._answers])
        plain = np.array([_PLAIN.fullmatch(token) is not None for token in self._vocab])
        return self._scores(-np.log2(counts / counts.sum())[answers], answers == np.where(plain, counts, 0).argmax())

    def _scores(self, bits: NDArray[np.float64], right: NDArray[np.bool_]) -> WordScores:
        wrong = np.bincount(self._word_of, weights=~right, minlength=self.words)
        return WordScores(
            bits_per_character=float(bits.sum() / self.characters),
            word_accuracy=float((wrong == 0).mean()),
            words=self.words,
            characters=self.characters,
        )
