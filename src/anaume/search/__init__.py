"""PASSAGES + THEIR VECTORS -> an index that knows which model made it, and what it finds (extra `search`)."""

from anaume.search.fusion import fuse_ranks
from anaume.search.hits import Hit
from anaume.search.index import Index
from anaume.search.migrating import Migrated, migrate_index
from anaume.search.opening import open_index
from anaume.search.stats import IndexStats, read_stats

__all__ = ["Hit", "Index", "IndexStats", "Migrated", "fuse_ranks", "migrate_index", "open_index", "read_stats"]
