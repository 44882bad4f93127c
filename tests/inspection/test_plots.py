import numpy as np
import pytest

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


@pytest.mark.filterwarnings(
    "ignore:no font here has:anaume.errors.AnaumeWarning"
)  # no Japanese font is installed on every machine
def test_pictures_are_written(tmp_path, matplotlib):
    for name, plot, report in (("w", plot_word, word_report()), ("a", plot_attention, attention_report())):
        plot(report, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore:no font here has:anaume.errors.AnaumeWarning")
def test_two_sentences_are_enough(tmp_path, matplotlib):
    plot_word(word_report(2), tmp_path / "w.png")
