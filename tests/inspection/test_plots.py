import sys

import numpy as np
import pytest

from anaume.errors import DataError, MissingExtra
from anaume.inspection.attention import AttentionReport
from anaume.inspection.plots import plot_attention, plot_word
from anaume.inspection.words import LayerCosines, Nearest, WordReport


def word_report(sentences=3):
    vectors = np.random.default_rng(0).normal(size=(2, sentences, 8)).astype(np.float32)
    layers = (LayerCosines("token", 1.0, 1.0), LayerCosines("layer 1", 0.9, float("nan")))
    nearest = tuple(Nearest(row, 0, 0.5, True) for row in range(sentences))
    senses = ("河", "money", "河", "money")[:sentences]
    return WordReport("bank", ("a bank",) * sentences, senses, False, layers, nearest, vectors)


def attention_report():
    weights = np.full((2, 3, 4, 4), 0.25, dtype=np.float32)
    return AttentionReport(("[CLS]", "my", "dog", "[SEP]"), weights, 2)


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib")


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")  # no Japanese font is installed on every machine
@pytest.mark.parametrize(("ending", "starts"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_pictures_are_written(tmp_path, matplotlib, ending, starts):
    before = dict(matplotlib.rcParams)
    for name, plot, report in (("w", plot_word, word_report()), ("a", plot_attention, attention_report())):
        plot(report, tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"{name}.{ending}").read_bytes().startswith(starts)
    assert dict(matplotlib.rcParams) == before, "another library's settings are not ours"


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
def test_two_sentences_are_enough(tmp_path, matplotlib):
    plot_word(word_report(2), tmp_path / "w.png")


def test_another_ending_is_refused_and_leaves_no_file(tmp_path, matplotlib):
    with pytest.raises(DataError, match=r"\.png, \.svg or \.pdf; got 'a\.gif'"):
        plot_attention(attention_report(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_install_line_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[plots\]'"):
        plot_attention(attention_report(), tmp_path / "a.png")
