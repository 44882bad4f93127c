"""What makes a large table fast: an index of words, of ids, and, above a size, of parts of the vectors.

Up to EXACT_UP_TO passages every vector is compared, and a search is exact. Above, vectors are put into about sqrt(n)
parts (IVF), and a search looks through some of them: as many as were needed, when the index was made, to find RECALL of
the ten nearest neighbours of made-up questions. Passages themselves would be asked too easily: a passage lies amid its
likes, in one part, where a question lies apart from all of them, between parts. A question is made of a passage by the
difference of two others, which moves it as far as texts differ (docs/log.md).
"""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.logs import get_logger
from anaume.search.record import IndexRecord
from anaume.search.store import said
from anaume.search.vectors import VECTOR, read_lists

log = get_logger(__name__)

EXACT_UP_TO = 50_000
"""Passages: comparing so many vectors takes some hundredths of a second."""
RECALL = 0.97
"""Of the made-up questions' nearest; real ones find as much or a little more."""
_IDS_FROM = 10_000  # below, looking through the ids is as fast
_ALIKE = re.compile(r"could only form (\d+) non-empty clusters")
_PARTS = f"{VECTOR}_idx"
_LATE = 5_000  # rows that may wait for an index, found meanwhile by looking through them
_DRAWN = 128
_NEIGHBOURS = 10


def settle(table: Any, record: IndexRecord, where: str, *, probes: int, compact: bool = False) -> int:
    """Make or bring up to date what a table of this size needs; return how many parts a search looks through, 0 = all.

    probes   how many it was when this was last called for this table
    compact  rewrite what is scattered and forget what was deleted, at once
    """
    with said(where):
        count = table.count_rows()
        indices = {index.name: index for index in table.list_indices()}
        parted = indices.get(_PARTS)
        late = max((index.num_unindexed_rows for index in indices.values()), default=0)
        many_late = late > max(_LATE, count // 10)
        if compact:
            # Zero would be warned about: other processes may be reading. They look again, see Index.search_all.
            table.optimize(cleanup_older_than=datetime.timedelta(milliseconds=2))
        elif many_late or table.stats()["fragment_stats"]["num_small_fragments"] > 100:
            table.optimize()
        if count and "text_idx" not in indices:
            _index_words(table)
        if count >= _IDS_FROM and "id_idx" not in indices:
            from lancedb.index import BTree

            table.create_index("id", config=BTree())
        if count <= EXACT_UP_TO or record.storage != "float32":
            return 0
        # The parts are kept while few passages wait for one: making them goes through all vectors.
        if probes and parted is not None and not many_late and not (compact and parted.num_unindexed_rows):
            return probes
        return _index_vectors(table, count)


def probes_under(probes: int, matching: int, count: int) -> int:
    """Return how many parts a search looks through under a condition that holds for some rows; 0 = compare all of them.

    The nearest of few lie farther off, over more parts: where one row in four matches, as many parts are looked
    through as four times as many neighbours need.
    """
    if not probes or matching <= EXACT_UP_TO:
        return 0
    return math.ceil(probes * count / matching)


def words_indexed(table: Any, where: str) -> bool:
    """Whether words can be searched: not in an empty index."""
    with said(where):
        return any(index.name == "text_idx" for index in table.list_indices())


def _index_words(table: Any) -> None:
    from lancedb.index import FTS

    # The default tokenizer cuts at blanks and would find no Japanese; a limit on length would lose its long words. Stop
    # words would be those of all languages at once: "cat" and "dog" among them, which are little words elsewhere.
    table.create_index("text", config=FTS(base_tokenizer="icu", max_token_length=None, remove_stop_words=False))


def _index_vectors(table: Any, count: int) -> int:
    parts = _make_parts(table, max(1, round(math.sqrt(count))))
    asked = _questions(read_lists(table.take_offsets(_spread(count)).select([VECTOR]).to_arrow()[VECTOR]))
    exact = [_ids(table.search(vector, vector_column_name=VECTOR).bypass_vector_index()) for vector in asked]
    probes, recall = max(1, parts // 100), 0.0
    while True:
        found = [_ids(table.search(vector, vector_column_name=VECTOR).nprobes(probes)) for vector in asked]
        shared = [len(one & other) / max(1, len(other)) for one, other in zip(found, exact, strict=True)]
        recall = float(np.mean(shared))
        if recall >= RECALL or probes >= parts:
            break
        probes = min(parts, math.ceil(probes * 1.5))
    log.info(
        "%s passages: a search looks through %d of %d parts of the vectors and finds %.1f%% of the %d nearest",
        f"{count:,}", probes, parts, 100 * recall, _NEIGHBOURS,
    )  # fmt: skip
    return probes


def _make_parts(table: Any, parts: int) -> int:
    """Put the vectors into parts; return how many, fewer where too many vectors are alike for so many."""
    from lancedb.index import IvfFlat

    try:
        table.create_index(VECTOR, config=IvfFlat(distance_type="dot", num_partitions=parts))
    except Exception as error:  # its kind depends on the version
        possible = _ALIKE.search(str(error))
        if possible is None or not 0 < int(possible[1]) < parts:
            raise
        log.info("many passages are alike: their vectors make %s parts, not %d", possible[1], parts)
        return _make_parts(table, int(possible[1]))
    return parts


def _questions(passages: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a made-up question a passage, as long as it is: (n, size), of passages drawn from all over the index."""
    third = len(passages) // 3
    moved = passages + np.roll(passages, third, axis=0) - np.roll(passages, 2 * third, axis=0)
    was, now = (np.linalg.norm(one, axis=1, keepdims=True) for one in (passages, moved))
    return np.asarray(moved * (was / np.where(now > 0, now, 1)), dtype=np.float32)


def _ids(search: Any) -> set[int]:
    rows = search.distance_type("dot").limit(_NEIGHBOURS).select(["_distance"]).with_row_id(True).to_arrow()
    return set(rows["_rowid"].to_pylist())


def _spread(count: int) -> list[int]:
    places: NDArray[np.int64] = np.linspace(0, count - 1, num=min(count, _DRAWN), dtype=np.int64)
    return sorted(set(places.tolist()))
