"""Whether a bundle is still the one whose fingerprint was taken."""

from __future__ import annotations

from anaume.bundle import Bundle


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
