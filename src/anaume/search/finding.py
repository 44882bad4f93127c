"""Searching a table: the nearest passages, exactly below a size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.errors import DataError, SettingsError
from anaume.search.hits import Hit
from anaume.search.record import IndexRecord
from anaume.search.store import said
from anaume.search.table import OWN
from anaume.search.vectors import VECTOR, kept, read_vectors

_QUOTED = re.compile("'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"")
_SHOWN = ["id", "_passage", "_passages", "_start", "_end", "text", "_coverage", "_fields"]


def nearest_passages(
    table: Any, record: IndexRecord, vector: NDArray[np.float32], top_k: int, where: str | None, path: str
) -> list[Hit]:
    """Return the passages nearest to a query's vector (embedding_size,), best first, equal ones by id and place."""
    query = query_vector(vector, record)
    search = table.search(query, vector_column_name=VECTOR).distance_type("dot").limit(top_k)
    rows = filtered(search, where, table, path).select([*_SHOWN, VECTOR, "_distance"])
    with said(path):
        found = rows.to_arrow()
    scores = read_vectors(found[VECTOR]) @ query
    hits = [
        hit_of(row, {"vector": cut_score(score, record)}, "vector")
        for row, score in zip(found.select(_SHOWN).to_pylist(), scores.tolist(), strict=True)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.id, hit.passage))


def query_vector(vector: NDArray[np.float32], record: IndexRecord) -> NDArray[np.float32]:
    """Return a query's vector as it is compared. Raises DataError for another size, or numbers that are not finite."""
    vector = np.asarray(vector, dtype=np.float32)
    if vector.shape != (record.embedding_size,):
        raise DataError(f"the query's vector has shape {vector.shape}, expected ({record.embedding_size},)")
    if not np.isfinite(vector).all():
        raise DataError("the query's vector is not finite; check the model that made it")
    kept_so: NDArray[np.float32] = kept(vector[None], record)[0]
    return kept_so


def filtered(search: Any, where: str | None, table: Any, path: str) -> Any:
    """Put a condition on a search. Raises SettingsError for one that does not fit the index."""
    if where is None:
        return search
    if not isinstance(where, str):
        raise SettingsError(f"a condition is a text, as SQL has it; got {where!r:.60}")
    try:
        _whole(where)
        table.count_rows(f"({where})")
    except (ValueError, RuntimeError, OSError) as error:
        fields = ", ".join(name for name in table.schema.names if name not in (*OWN, VECTOR, "codes", "scale"))
        reason = " ".join(str(error).split()).removeprefix("Invalid input, ").split(", /")[0]
        raise SettingsError(
            f"the condition {where!r} does not fit {path}: {reason[:200]}; fields: id{', ' if fields else ''}{fields}"
        ) from error
    return search.where(f"({where})")


def _whole(condition: str) -> None:
    """Raise ValueError for what LanceDB would read the beginning of, and silently no more."""
    bare = _QUOTED.sub("", condition)
    depths = list(accumulate({"(": 1, ")": -1}.get(character, 0) for character in bare))
    if ";" in bare or min(depths, default=0) < 0 or (depths and depths[-1]):
        raise ValueError("one condition is expected, its brackets in pairs and no ';'")


def cut_score(score: float, record: IndexRecord) -> float:
    """Return a score within the range of a cosine, which rounding leaves by 1e-7."""
    return score if record.similarity == "dot" else min(1.0, max(-1.0, score))


def hit_of(row: Mapping[str, Any], scores: dict[str, float], by: str) -> Hit:
    """Return a row of the table as a hit."""
    return Hit(
        id=row["id"],
        text=row["text"],
        start=row["_start"],
        end=row["_end"],
        passage=row["_passage"],
        passages=row["_passages"],
        score=scores[by],
        coverage=row["_coverage"],
        metadata=json.loads(row["_fields"]),
        scores=scores,
    )
