"""Texts that are compared as rows: a unit an example, its query first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from anaume.data.labelled import SimilarityExample
from anaume.errors import DataError
from anaume.tasks.features import Features, Ragged, Target
from anaume.tasks.text_keys import text_key
from anaume.tokenization import Tokenizer


def text_rows(
    examples: Sequence[SimilarityExample],
    tokenizer: Tokenizer,
    max_length: int,
    *,
    prompts: tuple[str, str] = ("", ""),
    twice: bool = False,
    query_tokens: int = 0,
    targets: Mapping[str, Target] | None = None,
) -> Features:
    """Return a unit an example: a row for the query, one each for positives and negatives.

    prompts       what stands before a query, and before what it is compared with
    twice         a text without another is its own positive
    query_tokens  shorter queries are filled up with [MASK] to so many tokens
    targets       what a loss needs beside "texts" (each row's `text_key`) and "positives" (how many a unit has), which
                  are put to it; None = nothing is to be learned
    """
    texts: list[str] = []
    keys: list[int] = []
    starts = [0]
    for example in examples:
        if not isinstance(example, SimilarityExample):
            raise DataError(f"{example.place}: similarity reads texts that are alike or not; came {example!r:.60}")
        others = [*example.positives, *example.negatives]
        if twice and not others:
            others = [example.text]
        texts += [prompts[0] + example.text, *(prompts[1] + other for other in others)]
        keys += [text_key(text) for text in (example.text, *others)]
        starts.append(len(texts))
    encodings = tokenizer.encode_batch(texts, max_length=max_length)
    shares = np.array([encoding.coverage[0].share for encoding in encodings])
    token_ids = [encoding.token_ids for encoding in encodings]
    for row in starts[:-1] if query_tokens else ():
        token_ids[row] = filled_up(token_ids[row], tokenizer, query_tokens)
    learned: dict[str, Target] = {}
    if targets is not None:
        # One number a row, which travels as what has one a token does.
        learned["texts"] = Ragged.of([[key] for key in keys], np.int64)
        learned["positives"] = np.array([max(1, len(example.positives)) for example in examples], dtype=np.int64)
        learned |= targets
    return Features(
        token_ids=Ragged.of(token_ids),
        segment_ids=Ragged.of(([0] * len(own) for own in token_ids), np.uint8),
        unit_starts=np.array(starts, dtype=np.int64),
        examples=np.arange(len(examples), dtype=np.int64),
        coverage=np.array([shares[start:stop].min() for start, stop in itertools.pairwise(starts)]),
        targets=learned,
        pieces=sum(encoding.pieces for encoding in encodings),
        unknown=sum(encoding.unknown for encoding in encodings),
    )


def filled_up(token_ids: Sequence[int], tokenizer: Tokenizer, length: int) -> list[int]:
    """Return a row with [MASK] behind its last token, up to a length; a longer one as it is."""
    return [*token_ids, *[tokenizer.mask_id] * (length - len(token_ids))]
