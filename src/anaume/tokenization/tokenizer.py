"""Tokenizer: the facade over rules, vocabulary and the Rust pipeline."""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization.encoding import Encoding, Pieces
from anaume.tokenization.foreign import read_directory
from anaume.tokenization.learning import TrainingReport, learn_vocabulary
from anaume.tokenization.pipeline import build_pipeline
from anaume.tokenization.rules import TokenizerRules
from anaume.tokenization.saving import write_directory
from anaume.tokenization.selfcheck import SelfCheck, check_tokenizer
from anaume.tokenization.tokenizer_json import read_tokenizer_json
from anaume.tokenization.truncation import Truncation, check_max_length, check_truncation, kept_counts
from anaume.tokenization.vocabulary import check_vocab, first_vocab_difference, read_vocab, vocab_notes
from anaume.tokenization.windows import window_spans

if TYPE_CHECKING:
    from anaume.tokenization.rows import RowEncoder

_SURROGATES = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """Text to token ids and back. It is its rules and its ordered vocabulary, and nothing else decides an id.

    >>> tokenizer = Tokenizer.train(["the dog is cute", "the dog plays"], vocab_size=60)
    >>> encoding = tokenizer.encode("The  dogs?")
    >>> encoding.tokens
    ['[CLS]', 'the', 'dog', '##s', '[UNK]', '[SEP]']
    >>> encoding.offsets[1:-1]
    [(0, 3), (5, 8), (8, 9), (9, 10)]

    Safe to share between threads; can be pickled and copied. Raises TokenizerError when the vocabulary does not fit
    the rules, MissingExtra for words="mecab" without fugashi and unidic-lite.
    """

    def __init__(
        self,
        vocab: Sequence[str],
        rules: TokenizerRules | None = None,
        *,
        notes: Iterable[str] = (),
        training_report: TrainingReport | None = None,
    ) -> None:
        self.rules = rules if rules is not None else TokenizerRules()
        self.notes = tuple(notes)
        self.training_report = training_report
        self._vocab = tuple(vocab)
        check_vocab(self._vocab, self.rules)
        self._ids = {token: token_id for token_id, token in enumerate(self._vocab)}
        self._pipeline = build_pipeline(self.rules, self._vocab)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._ids[token] for token in self.rules.specials
        )

    # Where tokenizers come from

    @classmethod
    def from_file(cls, path: str | Path) -> Tokenizer:
        """Read a tokenizer.json; what the rules can't express is refused by name. Raises TokenizerError."""
        rules, vocab, notes = read_tokenizer_json(path)
        return cls(vocab, rules, notes=notes)

    @classmethod
    def from_vocab(cls, path: str | Path, **flags: Any) -> Tokenizer:
        """Read a vocab.txt; `flags` are TokenizerRules fields. Raises TokenizerError, SettingsError."""
        vocab = read_vocab(path)
        return cls(vocab, TokenizerRules.from_dict(flags), notes=vocab_notes(vocab))

    @classmethod
    def from_directory(cls, path: str | Path) -> Tokenizer:
        """Read a Hugging Face or anaume directory: tokenizer.json, else vocab.txt with tokenizer_config.json.

        Raises TokenizerError, also for a tokenizer class that is not a BERT one, by its name.
        """
        rules, vocab, notes = read_directory(path)
        return cls(vocab, rules, notes=notes)

    @classmethod
    def train(
        cls,
        source: Iterable[str | Path] | str | Path,
        *,
        vocab_size: int,
        min_frequency: int = 2,
        limit_alphabet: int | None = None,
        **flags: Any,
    ) -> Tokenizer:
        """Learn a vocabulary from texts, or from text files (one text a line).

        source: texts; or Path objects, or names of existing files, read as UTF-8 text files.
        vocab_size: the most entries; fewer when the texts have no more to give.
        min_frequency: a learned piece must occur as often ("wordpiece").
        limit_alphabet: keep only that many most frequent characters; what is lost stands in training_report.
        flags: TokenizerRules fields.

        The same texts give the same ids in the same order, in every process. Raises SettingsError, TokenizerError,
        DataError.
        """
        rules = TokenizerRules.from_dict(flags)
        vocab, report = learn_vocabulary(
            source, rules, vocab_size=vocab_size, min_frequency=min_frequency, limit_alphabet=limit_alphabet
        )
        return cls(vocab, rules, training_report=report)

    def save(self, directory: str | Path, *, max_length: int | None = None) -> list[str]:
        """Write the tokenizer's files, readable by transformers, and return their names.

        vocab.txt, tokenizer_config.json, special_tokens_map.json and, unless words="mecab", tokenizer.json.
        max_length: written as model_max_length.
        """
        return write_directory(directory, self.rules, self._vocab, self._pipeline, max_length=max_length)

    # What it is

    @property
    def vocab(self) -> list[str]:
        """The entries in the order of their ids."""
        return list(self._vocab)

    @property
    def vocab_size(self) -> int:
        """The number of entries: rows an embedding table needs."""
        return len(self._vocab)

    def token_to_id(self, token: str) -> int | None:
        """Return the id of an entry, None when there is none."""
        return self._ids.get(token)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) over the rules and the ordered vocabulary, as canonical JSON."""
        content = {"rules": self.rules.to_dict(), "vocab": self._vocab}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @cached_property
    def self_check(self) -> SelfCheck:
        """What a user should know about this vocabulary under these rules; computed when first asked."""
        return check_tokenizer(self)

    # Text -> ids

    @cached_property
    def row_encoder(self) -> RowEncoder:
        """What makes rows of ids of many texts, without offsets and words: for those who embed them."""
        from anaume.tokenization.rows import RowEncoder  # it imports this file

        return RowEncoder(self)

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        truncation: Truncation = "longest-first",
    ) -> Encoding:
        """Encode one text or pair; at most `max_length` ids, special tokens included.

        Raises SettingsError for wrong arguments, TokenizerError when the truncation asked for can't make room.
        """
        pairs = None if pair is None else [pair]
        return self.encode_batch([text], pairs, max_length=max_length, truncation=truncation)[0]

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        truncation: Truncation = "longest-first",
    ) -> list[Encoding]:
        """Encode many texts or pairs, in parallel; as `encode` of each."""
        check_truncation(truncation)
        check_max_length(max_length, 1 if pairs is None else 2)
        encodings = [Encoding(pieces, self.unk_id) for pieces in self._pieces(texts, pairs)]
        if max_length is None:
            return encodings
        return [
            encoding if len(encoding) <= max_length else self._shorten(encoding, max_length, truncation)
            for encoding in encodings
        ]

    def windows(
        self,
        text: str,
        *,
        max_length: int,
        stride: int,
        question: str | None = None,
        max_question: int | None = None,
    ) -> list[Encoding]:
        """Cut a long text into overlapping windows, [CLS] window [SEP] or [CLS] question [SEP] window [SEP].

        max_length: the most ids in a window; stride: the pieces that neighbouring windows share.
        max_question: the most pieces of the question, its first ones, and its coverage tells; None: all.
        Offsets are positions in the whole text; the windows together hold every piece, and an empty text gives one.
        Raises TokenizerError when the question leaves no room, SettingsError for wrong arguments.
        """
        if max_length is None:
            raise SettingsError("max_length must be a whole number; got None")
        texts, pairs = ([text], None) if question is None else ([question], [text])
        check_max_length(max_length, 1 if question is None else 2)
        pieces = self._pieces(texts, pairs)[0]
        fixed = tuple((0, count if max_question is None else min(count, max_question)) for count in pieces.counts[:-1])
        room = max_length - len(pieces.counts) - 1 - sum(count for _, count in fixed)
        spans = window_spans(pieces.counts[-1], room, stride)
        return [Encoding(pieces, self.unk_id, (*fixed, span)) for span in spans]

    def _shorten(self, encoding: Encoding, max_length: int, truncation: Truncation) -> Encoding:
        pieces = encoding._pieces
        counts = kept_counts(pieces.counts, max_length - len(pieces.counts) - 1, truncation)
        return Encoding(pieces, self.unk_id, tuple((0, count) for count in counts))

    def _pieces(self, texts: Sequence[str], pairs: Sequence[str] | None) -> list[Pieces]:
        if isinstance(texts, str) or isinstance(pairs, str):
            raise SettingsError("a list of texts was expected, and a single string came; use encode for one text")
        rows: list[Any] = _checked(texts)
        if pairs is not None:
            seconds = _checked(pairs)
            if len(seconds) != len(rows):
                raise SettingsError(f"texts and pairs must be equally many; got {len(rows)} and {len(seconds)}")
            rows = list(zip(rows, seconds, strict=True))
        sides = [(row,) for row in rows] if pairs is None else rows
        try:
            raws = self._pipeline.encode_batch(rows)
        except TypeError:
            # A lone surrogate, which Rust strings can't hold; rare, so looked for only now.
            cleaned = [tuple(_SURROGATES.sub("\ufffd", text) for text in row) for row in sides]
            raws = self._pipeline.encode_batch([row[0] if len(row) == 1 else row for row in cleaned])
        return [Pieces(raw, row) for raw, row in zip(raws, sides, strict=True)]

    # Ids -> text

    def decode(self, token_ids: Iterable[int], *, keep_special: bool = False) -> str:
        """Return readable text: "##" pieces joined, blanks before punctuation removed; characters joined as they are.

        What normalisation removed (case, accents, blanks) can't come back; for text as it was written, cut the
        original by the offsets. Raises TokenizerError for an id outside the vocabulary, SettingsError for what is no
        list of ids.
        """
        tokens = []
        specials = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        for token_id in _whole_numbers(token_ids):
            if not 0 <= token_id < len(self._vocab):
                raise TokenizerError(f"token id {token_id} is outside the vocabulary of {len(self._vocab)} entries")
            if keep_special or token_id not in specials:
                tokens.append(self._vocab[token_id])
        if self.rules.subwords == "character":
            return "".join(tokens)
        return str(self._pipeline.decoder.decode(tokens))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (list(self._vocab), self.rules.to_dict(), self.notes, self.training_report)

    def __repr__(self) -> str:
        rules = self.rules
        return f"Tokenizer(words={rules.words!r}, subwords={rules.subwords!r}, vocab_size={self.vocab_size})"


def first_difference(one: Tokenizer, other: Tokenizer) -> tuple[int, str | None, str | None] | None:
    """Return (id, token of one, token of the other) where two vocabularies first differ; None when they are equal."""
    return first_vocab_difference(one.vocab, other.vocab)


def _checked(texts: Iterable[str]) -> list[str]:
    try:
        rows = list(texts)
    except TypeError:
        raise SettingsError(f"a list of texts was expected; got {type(texts).__name__}") from None
    for index, text in enumerate(rows):
        if not isinstance(text, str):  # the library would take a list of two for a pair
            raise SettingsError(f"every text must be a str; item {index} is {type(text).__name__}")
    return rows


def _whole_numbers(token_ids: Iterable[int]) -> list[int]:
    try:
        return [operator.index(token_id) for token_id in token_ids]
    except TypeError:
        raise SettingsError(f"token ids must be a list of whole numbers, of one text; got {token_ids!r:.60}") from None


def _rebuild(vocab: list[str], rules: dict[str, Any], notes: tuple[str, ...], report: Any) -> Tokenizer:
    return Tokenizer(vocab, TokenizerRules.from_dict(rules), notes=notes, training_report=report)
