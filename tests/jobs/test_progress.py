"""A bar where somebody is looking, nothing elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from anaume.jobs.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "show", "drawn"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_a_bar_is_drawn_for_eyes_only(monkeypatch: pytest.MonkeyPatch, stream: type, show: bool, drawn: bool) -> None:
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("embedding", 10, show=show) as advance:
        advance(4)
        advance(6)
    assert ("embedding" in screen.getvalue()) == drawn
    assert bool(screen.getvalue()) == drawn
