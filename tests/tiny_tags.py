"""What the tests of tagged words share: examples, and a head that answers what it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from anaume.data.labelled import TaggedExample
from anaume.data.labelled.conll import joined
from anaume.tasks.features import IGNORED, Features, Ragged
from anaume.tasks.ner import Ner, TaggedPrediction
from anaume.tokenization import Tokenizer
from helpers import make_tokenizer


def tagged(words: str | Sequence[str], tags: str | Sequence[str] | None = None, place: str = "") -> TaggedExample:
    """An example of words joined by blanks; strings are cut at blanks."""
    words = words.split() if isinstance(words, str) else words
    tags = tags.split() if isinstance(tags, str) else tags
    text, spans = joined(list(words))
    return TaggedExample(text=text, spans=spans, tags=None if tags is None else tuple(tags), place=place)


def taught(features: Features, labels: int) -> list[NDArray[np.float32]]:
    """The logits of a head that has learned every target; where there is none it is sure of the last label."""
    target = features.targets["labels"]
    assert isinstance(target, Ragged)
    rows = []
    for row in range(features.rows):
        wanted = np.where(target[row] == IGNORED, labels - 1, target[row])
        rows.append((9.0 * np.eye(labels, dtype=np.float32))[wanted])
    return rows


def by_token(features: Features, label_of: Callable[[int], int], labels: int) -> list[NDArray[np.float32]]:
    """The logits of a head that looks at a token alone."""
    table = 9.0 * np.eye(labels, dtype=np.float32)
    return [table[[label_of(int(token)) for token in features.token_ids[row]]] for row in range(features.rows)]


def say(task: Ner, example: TaggedExample, labels: str, *, sure: float = 0.9) -> TaggedPrediction:
    """What a task makes of one label a word, each with this probability, one piece a word."""
    names = list(task.head.labels)
    tokenizer = letters()
    features = task.features([example], tokenizer, 512, learn=False)
    count = len(names)
    rest = np.log((1 - sure) / (count - 1))
    logits = np.full((len(features.token_ids[0]), count), rest, dtype=np.float32)
    for label, token in zip(labels.split(), features.details[0][1], strict=True):
        logits[token, names.index(label)] = np.log(sure)
    return task.decode([logits], features, [example])[0]


def letters(**rules: object) -> Tokenizer:
    """A tokenizer that knows every ASCII character, as a word and inside one, and some kana and Han."""
    known = [chr(code) for code in range(33, 127)] + list("東京都に住むタナカさんです大阪")
    return make_tokenizer([*known, *(f"##{one}" for one in known)], lower_case=False, **rules)
