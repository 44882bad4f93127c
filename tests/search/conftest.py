from __future__ import annotations

from pathlib import Path

import pytest

from anaume.bundle import Bundle

pytest.importorskip("lancedb", reason="the extra `search` is not installed")


@pytest.fixture(scope="session")
def bundle(tiny_bundle_dir: Path) -> Bundle:
    """Two layers of 16, 16 tokens at most; only read."""
    return Bundle.load(tiny_bundle_dir)
