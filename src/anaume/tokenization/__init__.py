"""TEXT -> TOKEN IDS: rules, words, learning a vocabulary, encoding with offsets, windows; no torch.

A tokenizer is its rules and its ordered vocabulary. Foreign files are read into those two or refused, and the pipeline
of the `tokenizers` library is always built from them.
"""

from anaume.tokenization.encoding import Coverage, Encoding
from anaume.tokenization.extending import NewEntry, VocabularyExtension, VocabularyFit, extend_tokenizer
from anaume.tokenization.given import GivenWords
from anaume.tokenization.learning import TrainingReport
from anaume.tokenization.report import (
    UnknownReport,
    VocabularyReport,
    unknown_report,
    vocabulary_report,
    voicing_lost,
)
from anaume.tokenization.rules import TokenizerRules
from anaume.tokenization.selfcheck import Finding, SelfCheck
from anaume.tokenization.tokenizer import Tokenizer, first_difference
from anaume.tokenization.truncation import Truncation
from anaume.tokenization.vocabulary import read_vocab, write_vocab

__all__ = [
    "Coverage",
    "Encoding",
    "Finding",
    "GivenWords",
    "NewEntry",
    "SelfCheck",
    "Tokenizer",
    "TokenizerRules",
    "TrainingReport",
    "Truncation",
    "UnknownReport",
    "VocabularyExtension",
    "VocabularyFit",
    "VocabularyReport",
    "extend_tokenizer",
    "first_difference",
    "read_vocab",
    "unknown_report",
    "vocabulary_report",
    "voicing_lost",
    "write_vocab",
]
