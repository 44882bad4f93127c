"""The directory on disk, fingerprints, the table of foreign names, and Bundle: tokenizer + engines + heads as one."""

from anaume.bundle.bundle import Bundle
from anaume.bundle.contextual import TokenEmbeddings, TokenVectors
from anaume.bundle.embedding import LONG_POLICIES, EmbedReport, EmbedTotals, LongPolicy
from anaume.bundle.extending import extend_vocabulary
from anaume.bundle.find import find_bundle
from anaume.bundle.read import read_max_length, read_tokenizer
from anaume.bundle.similarity import similarity

__all__ = [
    "LONG_POLICIES",
    "Bundle",
    "EmbedReport",
    "EmbedTotals",
    "LongPolicy",
    "TokenEmbeddings",
    "TokenVectors",
    "extend_vocabulary",
    "find_bundle",
    "read_max_length",
    "read_tokenizer",
    "similarity",
]
