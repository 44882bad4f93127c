"""Whether a bundle makes the very vectors that an index holds, also when it has been changed since."""

from __future__ import annotations

import os

from anaume.bundle import Bundle
from anaume.errors import BundleError
from anaume.search.record import IndexRecord

_MIXABLE = {"float32", "bfloat16"}


class Seal:
    """A bundle's fingerprint, hashed again only when something of the bundle has changed.

    Hashing takes 0.1 s for 22 M parameters: too long for every query, and a bundle may be trained while it is used.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self._state: object = None
        self._fingerprint = ""

    def fingerprint(self) -> str:
        """Return the fingerprint of the vectors that the bundle makes now."""
        # torch counts every change made in place; an export never changes.
        parts = {} if self.bundle.exported is not None else self.bundle.model.state_dict()
        tensors = [(tensor.data_ptr(), tensor._version) for tensor in parts.values()]
        state = (tensors, self.bundle.embedding)
        if state != self._state:
            self._state, self._fingerprint = state, self.bundle.fingerprint
        return self._fingerprint


def refuse_other(record: IndexRecord, fingerprint: str, bundle: Bundle, where: str) -> None:
    """Raise BundleError unless the bundle makes the very vectors that an index holds."""
    if fingerprint != record.fingerprint:
        name = _near(bundle.parts.source) or "the bundle in memory"
        same = " (it has changed since)" if record.bundle and bundle.parts.source == record.bundle else ""
        raise BundleError(
            f"{where} holds vectors of {_near(record.bundle) or 'a bundle never saved'}, fingerprint "
            f"{record.fingerprint}, and {name} makes vectors of fingerprint {fingerprint}{same}: use the first, or "
            f"`anaume index migrate {where} --bundle {name}`"
        )
    if bundle.precision != record.precision and not {bundle.precision, record.precision} <= _MIXABLE:
        raise BundleError(
            f"{where} holds {record.precision} vectors, and the bundle makes {bundle.precision} ones, which are not "
            f"near enough: open it with precision={record.precision!r}"
        )


def _near(path: str) -> str:
    """Return a path as it is named from here, if it lies below."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith(os.pardir) else relative
