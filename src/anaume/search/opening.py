"""Open an index with the bundle that it remembers, or with another one that makes the same vectors."""

from __future__ import annotations

import warnings
from pathlib import Path

from anaume.bundle import Bundle
from anaume.engines import Precision
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.search.index import Index
from anaume.search.store import Store
from anaume.search.table import record_of


def open_index(path: str | Path, bundle: Bundle | str | Path | None = None, *, device: str = "auto") -> Index:
    """Open an index.

    path    a folder, or "s3://bucket/path" and the like
    bundle  what to search it with; None = the bundle the index remembers. That, or one given by directory or name, is
            loaded on `device`, in int8 where the index's vectors are

    Raises DataError when no index is there, BundleError when its bundle is gone or has become another one.
    """
    store = Store(path)
    current = store.current()
    if current is None:
        raise DataError(f"{path}: no index is there; anaume index build makes one")
    record = record_of(store.table(current.table), str(path))
    if bundle is None and not record.bundle:
        raise SettingsError(f"{path}: made by a bundle that was never saved; give the bundle to search it with")
    if not isinstance(bundle, Bundle):
        precision: Precision = "int8" if record.precision == "int8" else "float32"
        try:
            bundle = Bundle.load(bundle or record.bundle, device=device, precision=precision)
        except BundleError as error:
            if bundle is not None:
                raise
            raise BundleError(f"{path}: its bundle can't be opened; name it with --bundle: {error}") from error
    index = Index(store, bundle)
    index.checked()
    if current.building:
        warnings.warn(
            f"{path}: its build is going on, or was broken off, with {len(index):,} passages by now; if it was broken "
            "off, the same `anaume index build` line goes on",
            AnaumeWarning,
            stacklevel=2,
        )
    return index
