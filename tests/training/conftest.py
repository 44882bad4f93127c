from __future__ import annotations

from pathlib import Path

import pytest

from tiny_corpora import make_corpus


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus of counting sentences; only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))
