"""Which table is the index: a new one begun, one brought to what its size asks for."""

from __future__ import annotations

import dataclasses
from typing import Any

from anaume.search.record import IndexRecord
from anaume.search.store import PASSAGES, Current, Store, number_of
from anaume.search.table import schema_of
from anaume.search.tuning import settle


def start_index(store: Store, record: IndexRecord, **state: Any) -> Any:
    """Make the empty table of a new index, in the place of whatever index is there, damaged or not.

    state  what else `current` says
    """
    old = store.passages()
    current = Current(table=f"{PASSAGES}{number_of(old[-1]) + 1 if old else 1}", **state)
    table = store.create(current.table, schema_of(record, {}))
    store.point(current)
    for name in old:
        store.drop(name)
    return table


def settle_index(store: Store, table: Any, record: IndexRecord, /, *, compact: bool = False, **state: Any) -> None:
    """Give a table the indexes its size asks for, and note how it is searched.

    state  what else changes in what `current` says
    """
    current = store.current()
    assert current is not None
    known = current.probes if state.get("table", current.table) == current.table else 0
    probes = settle(table, record, store.path, probes=known, compact=compact)
    after = dataclasses.replace(current, **{"probes": probes, **state})
    if after != current:
        store.point(after)
