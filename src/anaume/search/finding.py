"""Searching a table: by vectors, by words, by both; and the best ordered again by a model that reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anaume.errors import DataError, SettingsError
from anaume.search.documents import whole_characters
from anaume.search.fusion import fuse_ranks
from anaume.search.hits import Hit
from anaume.search.record import IndexRecord
from anaume.search.store import said
from anaume.search.table import kinds_of
from anaume.search.tuning import probes_under, words_indexed
from anaume.search.vectors import CODES, SCALE, VECTOR, code_scores, kept, signs, stored_scores, vector_columns

POOL = 100
"""Passages that each ranking hands to the fusion, and that a cross-encoder reads, unless more are asked for."""
OVERSAMPLE = 4
"""Passages that codes hand on for each one asked for, to be scored by something finer; signs hand on more."""
_SIGNS_OVERSAMPLE = 10

_SHOWN = ["id", "_passage", "_passages", "_start", "_end", "text", "_coverage", "_fields"]
_QUOTED = re.compile("'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"")


class Ranker(Protocol):
    """What orders passages again: a cross-encoder's bundle, or anything that scores them for a query."""

    def rank(self, query: str, passages: Sequence[str], /) -> Sequence[Ranked]:
        """Return each passage's place among those given, and its score; higher is better."""
        ...


class Ranked(Protocol):
    """One passage of a ranking."""

    @property
    def index(self) -> int:
        """Its place among the passages given, from 0."""
        ...

    @property
    def score(self) -> float:
        """Higher is better."""
        ...


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A table at one version, as a search sees it."""

    table: Any
    record: IndexRecord
    path: str
    probes: int
    """Parts of the vectors to look through; 0 = all."""


def find(
    searched: Searched,
    query: str,
    vector: NDArray[np.float32],
    *,
    top_k: int,
    where: str | None = None,
    hybrid: bool = False,
    ranker: Ranker | None = None,
) -> list[Hit]:
    """Return passages for a query and its vector (embedding_size,), best first, equal ones by id and place."""
    wide = max(POOL, top_k) if hybrid or ranker is not None else top_k
    hits = by_vector(searched, vector, wide, where)
    if hybrid:
        hits = _fused(hits, by_words(searched, query, wide, where))
    if ranker is not None:
        hits = _reranked(ranker, query, hits[:wide])
    return hits[:top_k]


def by_vector(searched: Searched, vector: NDArray[np.float32], top_k: int, where: str | None) -> list[Hit]:
    """Return the passages nearest to a vector (embedding_size,)."""
    record = searched.record
    query = query_vector(vector, record)
    condition = checked_condition(where, searched)
    with said(searched.path):
        if condition is not None and searched.probes:
            count = searched.table.count_rows()
            searched = replace(searched, probes=probes_under(searched.probes, condition.matching, count))
        if record.storage == "int8":
            rows = _scanned(searched, query, top_k, condition)
        else:
            rows = _nearest(searched, query, top_k, condition)
    scores = stored_scores(rows, query, record).tolist()
    shown = rows.select(_SHOWN).to_pylist()
    hits = [_hit(row, "vector", _within(score, record)) for row, score in zip(shown, scores, strict=True)]
    return _ordered(hits)[:top_k]


def by_words(searched: Searched, query: str, top_k: int, where: str | None) -> list[Hit]:
    """Return the passages that share words with a query, by BM25."""
    from lancedb import query as asking

    if not words_indexed(searched.table, searched.path):
        return []  # an empty index
    condition = checked_condition(where, searched)
    with said(searched.path):
        match: Any = asking.MatchQuery  # a plain text would be read as a query of a language
        search = searched.table.search(match(whole_characters(query)[0], "text"), query_type="fts").limit(top_k)
        rows = _where(search, condition).select([*_SHOWN, "_score"]).to_arrow().to_pylist()
    return _ordered([_hit(row, "words", row["_score"]) for row in rows])


def query_vector(vector: NDArray[np.float32], record: IndexRecord) -> NDArray[np.float32]:
    """Return a query's vector as it is compared. Raises DataError for another size, or numbers that are not finite."""
    vector = np.asarray(vector, dtype=np.float32)
    if vector.shape != (record.embedding_size,):
        raise DataError(f"the query's vector has shape {vector.shape}, expected ({record.embedding_size},)")
    if not np.isfinite(vector).all():
        raise DataError("the query's vector is not finite; check the model that made it")
    kept_so: NDArray[np.float32] = kept(vector[None], record)[0]
    return kept_so


class Condition(NamedTuple):
    """A condition on metadata."""

    text: str
    """In brackets."""
    matching: int
    """Passages it holds for."""


def checked_condition(where: str | None, searched: Searched) -> Condition | None:
    """Return a condition, checked. Raises SettingsError for one that does not fit the index."""
    if where is None:
        return None
    if not isinstance(where, str):
        raise SettingsError(f"a condition is a text, as SQL has it; got {where!r:.60}")
    try:
        _one_condition(where)
        matching = searched.table.count_rows(f"({where})")
    except (ValueError, RuntimeError, OSError) as error:
        names = ["id", *(f"{name} ({kind})" for name, kind in kinds_of(searched.table).items())]
        reason = " ".join(str(error).split()).removeprefix("Invalid input, ").split(", /")[0]
        raise SettingsError(
            f"the condition {where!r} does not fit {searched.path}: {reason[:200]}; fields: {', '.join(names)}"
        ) from error
    return Condition(f"({where})", matching)


def _nearest(searched: Searched, query: NDArray[np.float32], top_k: int, condition: Condition | None) -> Any:
    """Return rows by LanceDB's search: float32 vectors by their product, signs by how many differ."""
    record = searched.record
    if record.storage == "binary":
        wide = max(top_k * _SIGNS_OVERSAMPLE, POOL)
        search = searched.table.search(signs(query[None])[0], vector_column_name=CODES).distance_type("hamming")
        search = search.limit(wide)
    else:
        search = searched.table.search(query, vector_column_name=VECTOR).distance_type("dot").limit(top_k)
        if searched.probes:
            search = search.nprobes(searched.probes)
        else:
            search = search.bypass_vector_index()
    return _where(search, condition).select([*_SHOWN, *vector_columns(record), "_distance"]).to_arrow()


def _scanned(searched: Searched, query: NDArray[np.float32], top_k: int, condition: Condition | None) -> Any:
    """Return rows by going through all 8-bit codes, which LanceDB has no search for."""
    record, wide = searched.record, top_k * (OVERSAMPLE if searched.record.rescore else 1)
    best: tuple[NDArray[Any], NDArray[Any]] = (np.empty(0, np.uint64), np.empty(0, np.float32))
    search = _where(searched.table.search(), condition).select([CODES, SCALE]).with_row_id(True)
    for batch in search.to_batches(8192):
        ids = np.concatenate([best[0], batch["_rowid"].to_numpy()])
        scores = np.concatenate([best[1], code_scores(batch, query, record)])
        order = np.argsort(-scores, kind="stable")[:wide]
        best = ids[order], scores[order]
    columns = [*_SHOWN, *vector_columns(record)]
    if not len(best[0]):
        return pa.table({name: pa.array([], searched.table.schema.field(name).type) for name in columns})
    return searched.table.take_row_ids(best[0].tolist()).select(columns).to_arrow()


def _where(search: Any, condition: Condition | None) -> Any:
    return search if condition is None else search.where(condition.text)


def _fused(*rankings: list[Hit]) -> list[Hit]:
    """Return the hits of several rankings by the sum of their reciprocal ranks, each with all its scores."""
    scores: dict[tuple[str, int], dict[str, float]] = {}
    hits: dict[tuple[str, int], Hit] = {}
    for ranking in rankings:
        for hit in ranking:
            hits.setdefault((hit.id, hit.passage), hit)
            scores.setdefault((hit.id, hit.passage), {}).update(hit.scores)
    fused = fuse_ranks(*([(hit.id, hit.passage) for hit in ranking] for ranking in rankings))
    return _ordered(
        [replace(hit, score=fused[key], scores={**scores[key], "fused": fused[key]}) for key, hit in hits.items()]
    )


def _reranked(ranker: Ranker, query: str, hits: list[Hit]) -> list[Hit]:
    """Return hits by what a cross-encoder says of them."""
    ranked = ranker.rank(query, [hit.text for hit in hits]) if hits else []
    return _ordered(
        [
            replace(hits[one.index], score=one.score, scores={**hits[one.index].scores, "rerank": one.score})
            for one in ranked
        ]
    )


def _ordered(hits: list[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.id, hit.passage))


def _hit(row: Mapping[str, Any], by: str, score: float) -> Hit:
    return Hit(
        id=row["id"],
        text=row["text"],
        start=row["_start"],
        end=row["_end"],
        passage=row["_passage"],
        passages=row["_passages"],
        score=score,
        coverage=row["_coverage"],
        metadata=json.loads(row["_fields"]),
        scores={by: score},
    )


def _within(score: float, record: IndexRecord) -> float:
    """Return a score within the range of a cosine, which rounding leaves by 1e-7."""
    return score if record.similarity == "dot" else min(1.0, max(-1.0, score))


def _one_condition(condition: str) -> None:
    """Raise ValueError for what LanceDB would read the beginning of, and silently no more."""
    bare = _QUOTED.sub("", condition)
    depths = list(accumulate({"(": 1, ")": -1}.get(character, 0) for character in bare))
    if ";" in bare or min(depths, default=0) < 0 or (depths and depths[-1]):
        raise ValueError("one condition is expected, its brackets in pairs and no ';'")
