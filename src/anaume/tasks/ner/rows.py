"""Tagged examples as rows of token IDs: one a text, or one a window of a long text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from anaume.data.labelled import TaggedExample
from anaume.tasks.features import IGNORED, Features, Ragged
from anaume.tasks.ner.learning import check_spans
from anaume.tasks.ner.pieces import best_windows, read_from, windows_of
from anaume.tokenization import Encoding, Tokenizer

ReadWords = npt.NDArray[np.int32]
"""(2, words): the words that a row decides, and the token each is read from; `Features.details` holds one a row.

Of words with one token, only the first is read from it; the others go with it.
"""

_CHUNK = 1000
"""Texts tokenized together: enough for every core, few enough to forget."""


def build_features(
    examples: Sequence[TaggedExample],
    tokenizer: Tokenizer,
    max_length: int,
    label_ids: Callable[[int], Sequence[int]] | None,
) -> Features:
    """Return the rows; with `label_ids`, example's number -> its words' labels, the target "labels".

    Each word counts once: in the row that decides it, at its first piece. Raises DataError for words outside the text.
    """
    chunks, targets, owners, details = [], [], [], []
    pieces = unknown = 0
    for begin in range(0, len(examples), _CHUNK):
        part = examples[begin : begin + _CHUNK]
        rows, labels = [], []
        encodings = tokenizer.encode_batch([example.text for example in part])
        for number, (example, encoding) in enumerate(zip(part, encodings, strict=True), begin):
            check_spans(number, example)
            pieces += encoding.pieces
            unknown += encoding.unknown
            wanted = None if label_ids is None else np.asarray(label_ids(number))
            for row, read in _windows(encoding, example, max_length):
                rows.append(row)
                owners.append(number)
                details.append(read)
                if wanted is not None:
                    words, tokens = read[:, is_own(read)]
                    labels.append(np.full(len(row), IGNORED))
                    labels[-1][tokens] = wanted[words]
        chunks.append(Ragged.of(rows))
        targets.append(Ragged.of(labels))
    token_ids = Ragged.joined(chunks)
    return Features(
        token_ids=token_ids,
        segment_ids=Ragged(np.zeros(len(token_ids.values), np.uint8), token_ids.starts),
        unit_starts=np.arange(len(token_ids) + 1, dtype=np.int64),
        examples=np.array(owners, dtype=np.int64),
        coverage=np.ones(len(examples)),
        targets={} if label_ids is None else {"labels": Ragged.joined(targets)},
        details=details,
        pieces=pieces,
        unknown=unknown,
    )


def is_own(read: ReadWords) -> npt.NDArray[np.bool_]:
    """(words,): True for words with a token of their own, False for those that go with the word before."""
    own: npt.NDArray[np.bool_] = np.diff(read[1], prepend=-1) != 0
    return own


def _windows(encoding: Encoding, example: TaggedExample, max_length: int) -> Iterator[tuple[list[int], ReadWords]]:
    """Yield the token IDs of each window, and the words that it decides."""
    token_ids = encoding.token_ids
    first, stop = read_from(encoding.offsets[1:-1], example.spans)
    windows = windows_of(len(token_ids) - 2, max_length)
    seen = np.flatnonzero(first >= 0)
    choice = best_windows(first[seen], stop[seen], windows)
    for number, (start, end) in enumerate(windows):
        words = seen[choice == number]
        read = np.stack([words, first[words] - start + 1]).astype(np.int32)
        yield [token_ids[0], *token_ids[start + 1 : end + 1], token_ids[-1]], read
