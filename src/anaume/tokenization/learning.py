"""Texts -> an ordered vocabulary, the same in every process.

Words are counted once through the tokenizer's own pipeline; the trainer then sees only those words. Left to itself
the trainer numbers pieces in the order of a hash map and forgets the "##" form of characters that only start words, so
it is given the whole sorted alphabet, in both forms, as its first entries.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as RustTokenizer

from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization.counting import WordCounter
from anaume.tokenization.rules import TokenizerRules

# Words travel to the trainer in texts of this many; large enough that Python's share is small.
_WORDS_A_TEXT = 2_000
_END = object()


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """What a vocabulary was learned from, and what it can't spell.

    lost_characters are seen in the texts but left out by limit_alphabet, most frequent first; lost_share is their share
    of all characters seen, and a word with one of them becomes one [UNK].
    """

    texts: int
    words: int
    distinct_words: int
    characters: int
    lost_characters: tuple[str, ...]
    lost_share: float
    asked_size: int
    size: int


def learn_vocabulary(
    source: Iterable[str | Path] | str | Path,
    rules: TokenizerRules,
    *,
    vocab_size: int,
    min_frequency: int = 2,
    limit_alphabet: int | None = None,
) -> tuple[list[str], TrainingReport]:
    """Return the vocabulary (special tokens, protected strings, sorted alphabet, learned pieces) and its report.

    Raises SettingsError when vocab_size is too small for the alphabet, naming the least that would do; DataError for a
    file that can't be read or texts without a single word. Warns when kana lose their voicing marks, or characters
    are lost to limit_alphabet.
    """
    for name, value in (("vocab_size", vocab_size), ("min_frequency", min_frequency)):
        if type(value) is not int or value < 1:
            raise SettingsError(f"{name} must be a whole number from 1; got {value!r}")
    if limit_alphabet is not None and (type(limit_alphabet) is not int or limit_alphabet < 1):
        raise SettingsError(f"limit_alphabet must be a whole number from 1; got {limit_alphabet!r}")
    counter = WordCounter(rules)
    words, texts = counter.count(_texts(source))
    if not words:
        raise DataError(f"no words to learn from: {texts} texts came, all empty after cleaning")
    if rules.strip_accents and counter.voiced:
        warnings.warn(_voicing_warning(counter.voiced), AnaumeWarning, stacklevel=3)
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    kept, lost = _alphabet(characters, limit_alphabet)
    if rules.subwords == "character":
        entries = sorted(kept)
    else:
        entries = sorted(kept) + [f"##{character}" for character in sorted(kept) if not counter.stands_alone(character)]
    first = [*rules.specials, *rules.protected]
    first += [entry for entry in entries if entry not in set(first)]
    if vocab_size < len(first):
        raise SettingsError(
            f"vocab_size={vocab_size} is too small: the special tokens and the {len(kept)} characters of the texts "
            f"need {len(first)}; raise it, or keep fewer characters with limit_alphabet (their words become [UNK])"
        )
    vocab = first
    if rules.subwords == "wordpiece":
        # What will be one [UNK] teaches nothing, and a word of a book's length would take the trainer hours.
        usable = {
            word: count
            for word, count in words.items()
            if len(word) <= rules.max_word_characters and (not lost or lost.isdisjoint(word))
        }
        vocab = _learn_pieces(usable, first, vocab_size, min_frequency)
    total = characters.total()
    lost_count = sum(characters[character] for character in lost)
    if lost:
        warnings.warn(
            f"limit_alphabet={limit_alphabet} leaves out {len(lost)} of {len(characters)} characters, "
            f"{lost_count / total:.3%} of the text; words with them become {rules.unk_token}",
            AnaumeWarning,
            stacklevel=3,
        )
    report = TrainingReport(
        texts=texts,
        words=words.total(),
        distinct_words=len(words),
        characters=len(characters),
        lost_characters=tuple(sorted(lost, key=lambda character: (-characters[character], character))),
        lost_share=lost_count / total,
        asked_size=vocab_size,
        size=len(vocab),
    )
    return vocab, report


def _alphabet(characters: Counter[str], limit: int | None) -> tuple[set[str], set[str]]:
    ranked = sorted(characters, key=lambda character: (-characters[character], character))
    limit = len(ranked) if limit is None else limit
    return set(ranked[:limit]), set(ranked[limit:])


def _learn_pieces(words: dict[str, int], first: list[str], vocab_size: int, min_frequency: int) -> list[str]:
    # Every piece learned joins two places of some word: there can be no more, and the trainer sets aside memory for as
    # many entries as it is told.
    most = len(first) + sum(len(word) - 1 for word in words)
    blank = RustTokenizer(models.WordPiece(unk_token=first[1]))
    # A line end is in no word: BERT rules and MeCab both treat it as a blank.
    blank.pre_tokenizer = pre_tokenizers.Split(Regex("\n"), "removed")
    trainer = trainers.WordPieceTrainer(
        vocab_size=min(vocab_size, most),
        min_frequency=min(min_frequency, sys.maxsize),
        limit_alphabet=len(first),
        special_tokens=first,
        show_progress=False,
        continuing_subword_prefix="##",
    )
    blank.train_from_iterator(_as_texts(words), trainer)
    ids: dict[str, int] = blank.get_vocab(with_added_tokens=False)
    learned = [token for token in sorted(ids, key=ids.__getitem__) if ids[token] >= len(first)]
    # A character the trainer had to add itself would stand in the order of its hash map.
    assert all(len(token.removeprefix("##")) != 1 for token in learned), "the alphabet given to the trainer had a gap"
    return first + learned


def _as_texts(words: dict[str, int]) -> Iterator[str]:
    batch: list[str] = []
    for word in sorted(words):
        left = words[word]
        while left:
            take = min(left, _WORDS_A_TEXT - len(batch))
            batch += [word] * take
            left -= take
            if len(batch) == _WORDS_A_TEXT:
                yield "\n".join(batch)
                batch = []
    if batch:
        yield "\n".join(batch)


def _texts(source: Iterable[str | Path] | str | Path) -> Iterator[str]:
    if isinstance(source, (str, Path)):
        if not Path(source).is_file():
            raise SettingsError(
                f"a text file or an iterable of texts was expected; there is no file {str(source)[:200]!r}"
            )
        yield from _lines(Path(source))
        return
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        raise SettingsError(f"a text file or an iterable of texts was expected; got {type(source).__name__}")
    items: Iterator[Any] = iter(source)
    head = next(items, _END)
    if head is _END:
        return
    as_files = isinstance(head, Path) or (isinstance(head, str) and len(head) < 1_000 and os.path.isfile(head))
    for item in chain([head], items):
        if as_files:
            yield from _lines(Path(item))
        elif isinstance(item, str):
            yield item
        else:
            raise SettingsError(f"every text must be a str; got {type(item).__name__}")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(f"{path}, line {number}: not UTF-8 at byte {error.start} of the line") from error
                # A byte order mark is no character of the text; MeCab would make it one.
                yield text.removeprefix("\ufeff") if number == 1 else text
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror}") from error


def _voicing_warning(voiced: int) -> str:
    return (
        f"the texts hold {voiced} voiced kana and the rules strip accents, which turns バ into ハ and で into て; "
        "for Japanese set strip_accents=False (lower_case can stay on), and choose where words end: split_cjk with "
        "this vocabulary, or words='mecab'"
    )
