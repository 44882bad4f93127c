"""The guides run as they are written; apart from the other pages, as a file's tests share a process and these train."""

from __future__ import annotations

import pytest

from helpers import refresh_check
from test_docs import GUIDES


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("name", GUIDES)
def test_every_command_of_a_guide_prints_what_is_shown(name: str) -> None:
    refresh_check(name)
