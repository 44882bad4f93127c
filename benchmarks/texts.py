"""The texts every benchmark runs on: paragraphs of the standard library's docstrings, so there is nothing to fetch."""

from __future__ import annotations

import random
import re
from functools import cache

from anaume.data.docstrings import standard_library_paragraphs
from anaume.tokenization import Tokenizer


def paragraphs(count: int, *, minimum: int = 40) -> list[str]:
    """A fixed sample, in a fixed random order; fewer where the library has no more."""
    found = _found(minimum)
    return random.Random(0).sample(found, min(count, len(found)))


@cache
def _found(minimum: int) -> list[str]:
    return [paragraph.text for paragraph in standard_library_paragraphs(minimum)]


def queries(count: int) -> list[str]:
    """Four to six words in a row out of a paragraph: about 8 tokens each."""
    draw = random.Random(1)
    source = [words for text in paragraphs(20_000) if len(words := re.findall("[A-Za-z]+", text)) >= 6]
    found = []
    for _ in range(count):
        words = draw.choice(source)
        first = draw.randrange(len(words) - 5)
        found.append(" ".join(words[first : first + draw.randint(4, 6)]))
    return found


def long_texts(count: int, tokenizer: Tokenizer, *, shortest: int = 256, longest: int = 512) -> list[str]:
    """Paragraphs side by side, cut at a length drawn evenly from shortest to longest, in tokens."""
    draw = random.Random(2)
    source = paragraphs(20_000)
    texts = []
    for _ in range(count):
        tokens = draw.randint(shortest, longest)
        words = ""
        while len(encoding := tokenizer.encode(words)) < tokens:
            words = f"{words} {draw.choice(source)}".strip()
        texts.append(words[: encoding.offsets[tokens - 2][1]])  # the last piece before [SEP]
    return texts
