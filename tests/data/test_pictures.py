"""Pictures are whole files, drawn without touching matplotlib's settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anaume.data.pictures import new_figure, save_figure
from anaume.errors import DataError, MissingExtra


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
