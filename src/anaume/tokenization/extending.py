"""More entries for a vocabulary that is there: which words they are, and what they change.

Whole words only (characters, where those are the pieces), put behind the old entries, whose IDs stay. WordPiece takes
the longest entry a word begins with: a text in which no word begins with a new entry keeps its IDs, and one with such
words is cut anew. What comes of it is counted, not assumed. Free rows such as [unused1] are not filled: their IDs would
then mean something else than in every other copy of the vocabulary.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization.counting import WordCounter
from anaume.tokenization.given import GivenWords, sort_given, unfit
from anaume.tokenization.tokenizer import Tokenizer

Cuts = Mapping[str, list[int]]
"""Word -> the IDs of its pieces."""


@dataclass(frozen=True, kw_only=True)
class VocabularyFit:
    """How a vocabulary cuts the words of some texts (protected strings are no words)."""

    words: int
    pieces: int
    unknown: int

    @property
    def pieces_per_word(self) -> float | None:
        """None when there is no word."""
        return self.pieces / self.words if self.words else None

    @property
    def unknown_share(self) -> float | None:
        """Unknown pieces of all pieces; None when there is none."""
        return self.unknown / self.pieces if self.pieces else None


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry that was added."""

    token: str
    token_id: int
    old_pieces: tuple[int, ...]
    """IDs of the pieces the old vocabulary made of it; empty when it was unknown."""
    count: int
    """How often the texts give it now, whole or as the start of a longer word."""
    given: bool
    """True: by the user. False: learned from the texts."""


@dataclass(frozen=True, kw_only=True)
class VocabularyExtension:
    """A tokenizer with more entries, what they are, and how it fits the texts before and after."""

    tokenizer: Tokenizer
    entries: tuple[NewEntry, ...]
    asked: int
    """How many were to be learned, at most."""
    given: GivenWords
    texts: int
    sha256: str
    """Of the texts (hex), each with a line end."""
    before: VocabularyFit
    after: VocabularyFit
    lost: tuple[str, ...]
    """Words of the texts that were known and are unknown now, most frequent first (see `extend_tokenizer`)."""


def extend_tokenizer(
    tokenizer: Tokenizer,
    texts: Iterable[str] = (),
    *,
    add: int = 0,
    words: Iterable[str] = (),
    min_frequency: int = 2,
) -> VocabularyExtension:
    """Put entries behind those of a tokenizer: the given words, then those learned from the texts.

    texts          words are learned from them, and the fit is measured on them
    add            learn up to so many words: those that save most pieces, count x (pieces - 1); one that was unknown
                   saves as many as it has characters. Ties go by spelling
    words          entries the user wants; each must be one word under the tokenizer's rules
    min_frequency  how often a learned word must stand in the texts

    A word that begins with a new entry may become unknown, where no "##" entries spell the rest. An entry that does so
    to a word of the texts is not learned; given ones are added, and an AnaumeWarning counts what was lost. So does one
    for given words that can't be entries.

    Raises SettingsError for wrong arguments, DataError when there is nothing to add.
    """
    wanted = _listed(words)
    _check(add, min_frequency, wanted)
    counter = WordCounter(tokenizer.rules)
    digest = hashlib.sha256()
    counts, read = counter.count(_texts(texts, digest.update))
    if add and not counts:
        raise DataError(f"no words to learn from: {read} texts came, all empty after cleaning")
    given = sort_given(wanted, tokenizer, counter, counts)
    if given.refused:
        warnings.warn(
            f"{len(given.refused)} of {len(wanted)} given words can't be entries and were left out, by number: "
            f"{given.refusals()}",
            AnaumeWarning,
            stacklevel=3,  # of who called `extend_vocabulary`
        )
    extended = _with(tokenizer, given.tokens)
    extended = _with(extended, _learned(extended, counts, add, min_frequency))
    if extended is tokenizer:
        raise DataError(_nothing(given, len(wanted), add, min_frequency, max(counts.values(), default=0)))
    before, after = _cut(tokenizer, counts), _cut(extended, counts)
    lost = _lost(counts, before, after, tokenizer.unk_id)
    if lost:
        warnings.warn(
            f"{len(lost)} words of the texts were known and are {tokenizer.rules.unk_token} now "
            f"({', '.join(lost[:5])}{', ...' if len(lost) > 5 else ''}): they begin with a given word, and the "
            "vocabulary can't spell the rest",
            AnaumeWarning,
            stacklevel=3,  # of who called `extend_vocabulary`
        )
    used = _used(counts, after)
    new = extended.vocab[tokenizer.vocab_size :]
    old = _cut(tokenizer, new)
    return VocabularyExtension(
        tokenizer=extended,
        entries=tuple(
            NewEntry(
                token=token,
                token_id=tokenizer.vocab_size + place,
                old_pieces=() if tokenizer.unk_id in old[token] else tuple(old[token]),
                count=used[tokenizer.vocab_size + place],
                given=place < len(given.tokens),
            )
            for place, token in enumerate(new)
        ),
        asked=add,
        given=given,
        texts=read,
        sha256=digest.hexdigest(),
        before=_fit(counts, before, tokenizer.unk_id),
        after=_fit(counts, after, tokenizer.unk_id),
        lost=tuple(lost),
    )


def _learned(tokenizer: Tokenizer, counts: Mapping[str, int], add: int, min_frequency: int) -> list[str]:
    """Return the words, or characters, that save most pieces and make no known word unknown."""
    if not add:
        return []
    cuts = _cut(tokenizer, counts)
    units = counts if tokenizer.rules.subwords == "wordpiece" else _characters(counts)
    saved = {
        unit: count * (len(unit) if tokenizer.unk_id in pieces else len(pieces) - 1)
        for (unit, count), pieces in zip(units.items(), _cut(tokenizer, units).values(), strict=True)
        if count >= min_frequency
        and tokenizer.token_to_id(unit) is None
        and (len(unit) == 1 or any(map(str.isalnum, unit)))  # no runs of marks, which MeCab takes for words
        and not unfit(unit, tokenizer.rules)
    }
    ranked = sorted(saved, key=lambda unit: (-saved[unit], unit))
    while True:
        chosen = ranked[:add]
        lost = _lost(counts, cuts, _cut(_with(tokenizer, chosen), counts), tokenizer.unk_id)
        culprits = {word[:length] for word in lost for length in range(1, len(word))}.intersection(chosen)
        if not culprits:
            return chosen
        ranked = [unit for unit in ranked if unit not in culprits]


def _characters(counts: Mapping[str, int]) -> Counter[str]:
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    return characters


def _with(tokenizer: Tokenizer, entries: Sequence[str]) -> Tokenizer:
    return Tokenizer([*tokenizer.vocab, *entries], tokenizer.rules, notes=tokenizer.notes) if entries else tokenizer


def _cut(tokenizer: Tokenizer, words: Iterable[str]) -> Cuts:
    # The model alone: MeCab might cut once more a word that stands by itself.
    tokenize = tokenizer._pipeline.model.tokenize
    return {word: [piece.id for piece in tokenize(word)] for word in words}


def _used(counts: Mapping[str, int], cuts: Cuts) -> Counter[int]:
    """Return ID -> how often the words give it."""
    used: Counter[int] = Counter()
    for word, pieces in cuts.items():
        for piece in pieces:
            used[piece] += counts[word]
    return used


def _fit(counts: Mapping[str, int], cuts: Cuts, unk_id: int) -> VocabularyFit:
    used = _used(counts, cuts)
    return VocabularyFit(words=sum(counts.values()), pieces=used.total(), unknown=used[unk_id])


def _lost(counts: Mapping[str, int], before: Cuts, after: Cuts, unk_id: int) -> list[str]:
    """Return the words that were known and are unknown now, most frequent first."""
    lost = [word for word in counts if unk_id in after[word] and unk_id not in before[word]]
    return sorted(lost, key=lambda word: (-counts[word], word))


def _nothing(given: GivenWords, words: int, add: int, min_frequency: int, highest: int) -> str:
    """Say why; `highest` is how often the commonest word of the texts stands there."""
    reasons = []
    if add and highest < min_frequency:
        reasons.append(f"no word stands {min_frequency} times in the texts (min_frequency), the commonest {highest}")
    elif add:
        reasons.append(
            f"every word that stands {min_frequency} times or more in the texts is one entry already, or can't be one"
        )
    if words:
        counts = f"{given.already} are entries already, {given.blank} are blank, {len(given.refused)} can't be entries"
        reasons.append(f"of {words} given words {counts}" + (f": {given.refusals()}" if given.refused else ""))
    return f"there is nothing to add: {'; '.join(reasons)}"


def _texts(texts: Iterable[str], hash_more: Callable[[bytes], None]) -> Iterator[str]:
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise SettingsError(f"a list of texts was expected; got {type(texts).__name__}")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise SettingsError(f"every text must be a str; item {number} is {type(text).__name__}")
        hash_more(f"{text}\n".encode("utf-8", "surrogatepass"))
        yield text


def _listed(words: Iterable[str]) -> list[str]:
    if isinstance(words, (str, bytes)) or not isinstance(words, Iterable):
        raise SettingsError(f"words must be a list of words; got {type(words).__name__}")
    listed = list(words)
    for number, word in enumerate(listed, start=1):
        if not isinstance(word, str):
            raise SettingsError(f"every given word must be a str; number {number} is {type(word).__name__}")
    return listed


def _check(add: int, min_frequency: int, words: Sequence[str]) -> None:
    for name, value, least in (("add", add, 0), ("min_frequency", min_frequency, 1)):
        if type(value) is not int or value < least:
            raise SettingsError(f"{name} must be a whole number from {least}; got {value!r}")
    if not add and not words:
        raise SettingsError("what shall be added? say how many words to learn (add), or give some (words)")
