"""PASSAGES + THEIR VECTORS -> an index that knows which model made it, and what it finds (extra `search`)."""

from anaume.search.hits import Hit
from anaume.search.index import Index, open_index

__all__ = ["Hit", "Index", "open_index"]
