"""The texts every benchmark runs on: paragraphs of the standard library's docstrings, so there is nothing to fetch."""

from __future__ import annotations

import random

from anaume.data.docstrings import standard_library_paragraphs


def paragraphs(count: int, *, minimum: int = 40) -> list[str]:
    """A fixed sample, in a fixed random order; fewer where the library has no more."""
    found = [paragraph.text for paragraph in standard_library_paragraphs(minimum)]
    return random.Random(0).sample(found, min(count, len(found)))
