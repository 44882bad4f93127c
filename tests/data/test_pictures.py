"""Pictures are whole files, drawn without touching matplotlib's settings."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from anaume.data.pictures import NO_FONT, new_figure, save_figure
from anaume.errors import AnaumeWarning, DataError, MissingExtra


@pytest.mark.parametrize(("ending", "starts"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
def test_a_picture_is_written(tmp_path: Path, ending: str, starts: bytes) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    before = dict(matplotlib.rcParams)
    figure = new_figure(2, 1)
    figure.subplots().plot([1, 2])
    save_figure(figure, tmp_path / f"p.{ending}")
    assert (tmp_path / f"p.{ending}").read_bytes().startswith(starts)
    assert dict(matplotlib.rcParams) == before, "another library's settings are not ours"


def test_another_ending_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(DataError, match=r"\.png, \.svg or \.pdf; got 'a\.gif'"):
        save_figure(new_figure(2, 1), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_install_line_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[plots\]'"):
        new_figure(2, 1)


def test_letters_that_no_font_has_are_said_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = new_figure(2, 1)
    figure.suptitle("\U0010fffc and \U0010fffd, twice: \U0010fffc")  # of private use: in no font
    with pytest.warns(AnaumeWarning, match=rf"{NO_FONT} 2 letters of p\.png, .*: install one") as told:
        save_figure(figure, tmp_path / "p.png")
    assert len(told) == 1
    assert (tmp_path / "p.png").exists()


def test_other_warnings_of_a_picture_stay(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    class Loud(Text):
        def draw(self, *arguments: Any, **options: Any) -> None:
            warnings.warn("a library's own", RuntimeWarning, stacklevel=1)

    figure = new_figure(2, 1)
    figure.add_artist(Loud(0.5, 0.5, "x"))
    with pytest.warns(RuntimeWarning, match="a library's own"):
        save_figure(figure, tmp_path / "p.png")
