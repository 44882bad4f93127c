"""Livedoor's news: 7,367 Japanese articles of nine categories, for pretraining and for classification.

An article that is scored on is one whose hash (`share_of`) is below `BACK`, which the corpus holds back as text: no
run trains on it, neither with its label nor without.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from functools import cache

from anaume.data.labelled import TextExample
from benchmarks.sources import public_data, share_of

CATEGORIES = (
    *("dokujo-tsushin", "it-life-hack", "kaden-channel", "livedoor-homme", "movie-enter", "peachy"),
    *("smax", "sports-watch", "topic-news"),
)
FILES = tuple(f"livedoor/{category}.tar.xz" for category in CATEGORIES)
BACK = 0.2
"""The share of the articles that is scored on."""
BODY = 200
"""Characters of an article's body that stand behind its title where its category is to be told."""


@cache
def articles() -> tuple[tuple[str, str, str], ...]:
    """Return (category, title, body) of every article, in the order of the files."""
    found = []
    for category, relative in zip(CATEGORIES, FILES, strict=True):
        with tarfile.open(public_data(relative)) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                if not member.isfile() or "LICENSE" in member.name or not member.name.endswith(".txt"):
                    continue
                file = archive.extractfile(member)
                assert file is not None
                # URL, date, title, then the body.
                _, _, title, *body = io.TextIOWrapper(file, encoding="utf-8").read().split("\n")
                found.append((category, title.strip(), "\n".join(body).strip()))
    return tuple(found)


def documents(tell: Callable[[str], None]) -> Iterator[str]:
    """Yield every article as a document of a corpus."""
    for _, title, body in articles():
        yield f"{title}\n{body}"


def examples() -> tuple[list[TextExample], list[TextExample]]:
    """Return train and dev: the title and the beginning of the body, with the category."""
    parts: tuple[list[TextExample], list[TextExample]] = [], []
    for number, (category, title, body) in enumerate(articles(), 1):
        text = f"{title}\n{body[:BODY]}"
        own = TextExample(text=text, label=category, place=f"livedoor, article {number}")
        parts[share_of(f"{title}\n{body}") < BACK].append(own)
    return parts
