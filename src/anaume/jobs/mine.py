"""Hard negatives: passages that a model finds near a query, and that are none of its positives."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anaume.bundle import Bundle
from anaume.data import atomic_file, read_rows
from anaume.data.labelled import SimilarityExample, read_labelled
from anaume.data.vectors import json_line
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs.progress import progress_bar
from anaume.tasks.retrieval import nearest_rows
from anaume.tasks.text_keys import text_key

_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class MineSummary:
    """What a run of `mine_negatives` found."""

    out: str
    queries: int
    passages: int
    """What negatives were looked for among."""
    negatives: int
    """Found, over all queries."""
    short: int
    """Queries that have fewer than were asked for."""
    bare: int
    """Of them, those that have none: they are not in the output."""


def mine_negatives(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    corpus: str | Path | Sequence[str | Path] | None = None,
    negatives: int = 3,
    ranks: tuple[int, int] = (1, 100),
    margin: float = 0.05,
    overwrite: bool = False,
    progress: bool = False,
    **reading: object,
) -> MineSummary:
    """Write queries with positives and hard negatives, a JSON line each, that `finetune` reads.

    paths      pairs or queries with positives, as `read_similar` takes them (`reading` says how)
    out        a .jsonl file: query, positives, negatives
    corpus     files of passages (`read_rows`), in the encoding of `reading`; None = the positives of all queries
    negatives  how many a query gets at most: the nearest that pass
    ranks      first and last rank that is looked at, positives not counted; later ranks are surer to be negatives
    margin     how much less similar (cosine) than the query's farthest positive a negative must be: what is nearer may
               well be a positive that nobody marked

    A text that any row calls a positive of the query, and the query itself, are never its negatives. Raises
    SettingsError for wrong arguments, DataError for a file or a row, or an output that exists.
    """
    first, last = ranks
    if not 1 <= first <= last or negatives < 1 or margin < 0.0:
        raise SettingsError(
            f"ranks must go from 1 or more up, negatives be 1 or more and margin not below 0; got ranks {first} to "
            f"{last}, {negatives} negatives, margin {margin}"
        )
    if Path(out).suffix != ".jsonl":
        raise SettingsError(f"{out}: negatives are written as JSON lines: name a .jsonl file")
    if Path(out).exists() and not overwrite:
        raise DataError(f"{out} exists; overwrite=True (--overwrite) replaces it")
    read = read_labelled("similarity", paths, labelled=False, **reading)
    examples = [example for example in read if isinstance(example, SimilarityExample)]
    positives: dict[str, dict[str, None]] = {}
    for example in examples:
        if not example.positives:
            raise DataError(f"{example.place}: mining needs a query and a positive a row")
        positives.setdefault(example.text, {}).update(dict.fromkeys(example.positives))
    passages = _passages(examples, corpus, {name: reading[name] for name in ("encoding", "errors") if name in reading})
    total = len(passages) + len(positives) + sum(map(len, positives.values()))
    with progress_bar("embedding", total, show=progress) as advance:

        def embed(texts: Sequence[str], as_: str) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
            found = []
            for start in range(0, len(texts), _CHUNK):
                chunk = texts[start : start + _CHUNK]
                (report,) = bundle.embed_stream([chunk], as_=as_, fingerprint="")
                found.append(report.vectors)
                advance(len(chunk))
            return np.concatenate(found)

        rows = embed(passages, "passage")
        asked = embed(list(positives), "query")
        near = embed([text for own in positives.values() for text in own], "passage")
    keys = [text_key(text) for text in passages]
    place, counts = 0, []
    written: list[dict[str, object]] = []
    most = max(map(len, positives.values())) + 1
    for (query, own), vector, (order, scores) in zip(
        positives.items(), asked, nearest_rows(asked, rows, last + most), strict=True
    ):
        ((_, to_own),) = nearest_rows(vector[None], near[place : place + len(own)], len(own))
        place += len(own)
        known = {text_key(query), *map(text_key, own)}
        others = [(row, score) for row, score in zip(order.tolist(), scores, strict=True) if keys[row] not in known]
        found = [passages[row] for row, score in others[first - 1 : last] if score <= to_own[-1] - margin][:negatives]
        counts.append(len(found))
        if found:
            written.append({"query": query, "positives": list(own), "negatives": found})
    if not written:
        named = ", ".join(map(str, [paths] if isinstance(paths, str | Path) else paths))
        raise DataError(
            f"{named}: no query has a negative within ranks {first} to {last} and the margin {margin}; widen ranks= "
            "(--ranks), lower margin= (--margin), or give more passages: corpus= (--corpus)"
        )
    with atomic_file(out) as file:
        for row in written:
            file.write(json_line(row))
    summary = MineSummary(
        out=str(out),
        queries=len(positives),
        passages=len(passages),
        negatives=sum(counts),
        short=sum(count < negatives for count in counts),
        bare=counts.count(0),
    )
    if summary.bare:
        told = f"{summary.bare:,} of {summary.queries:,} queries have no negative and were left out"
        warnings.warn(told, AnaumeWarning, stacklevel=2)
    return summary


def _passages(
    examples: Sequence[SimilarityExample],
    corpus: str | Path | Sequence[str | Path] | None,
    reading: Mapping[str, Any],
) -> list[str]:
    """Return the texts that negatives are looked for among, each once."""
    if corpus is None:
        return list(dict.fromkeys(text for example in examples for text in example.positives))
    found = list(dict.fromkeys(row.text for row in read_rows(corpus, **reading) if row.text.strip()))
    if not found:
        raise DataError(f"{corpus}: no passages in it")
    return found
