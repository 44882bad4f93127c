"""Japanese tasks: what is scored on is trained on nowhere, counting characters is a fair rival, the page is honest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anaume.data.labelled.examples import SimilarityExample
from anaume.errors import SettingsError
from benchmarks import finetune_made, japanese, japanese_bundle, livedoor, tfidf
from benchmarks.finetune_data import JAPANESE, drawn
from benchmarks.finetune_study import FinetuneStudy
from benchmarks.sources import share_of
from benchmarks.study import Study
from helpers import public_data


@pytest.mark.parametrize("kind", sorted({*tfidf.KINDS} & {*finetune_made.KINDS}))
def test_characters_tell_made_up_labels(kind: str) -> None:
    train, dev = finetune_made.examples(kind)
    found = tfidf.score(kind, train, dev)
    assert found is not None
    assert 0.7 < found <= 1.0


def test_pairs_have_the_same_score_as_numbers_and_as_vectors() -> None:
    parts = finetune_made.examples("regression")
    pairs = [
        [SimilarityExample(place=one.place, text=one.text, positives=(one.pair,), label=one.label) for one in part]
        for part in parts
    ]
    assert tfidf.score("similarity", *pairs) == tfidf.score("regression", *parts)


def test_characters_tell_no_tags_and_no_answers() -> None:
    for kind in ("ner", "question-answering"):
        assert tfidf.score(kind, *finetune_made.examples(kind)) is None


def test_a_page_of_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(japanese, "machine", lambda: "a machine")
    monkeypatch.setattr(japanese.corpora, "size", lambda name: f"Corpus {name}.")
    monkeypatch.setattr(japanese.corpora, "overlap_line", lambda name: "No overlap.")
    tables = japanese.plan()
    rows = [one for starts in tables.values() for own in starts.values() for one in own]
    pretraining = Study("p", [japanese_bundle.ROW], lambda *_: {}, kept=tmp_path)
    done = japanese.Japanese(pretraining, FinetuneStudy(rows, name="japanese", kept=tmp_path))
    assert [row.name for row in done.rows][:2] == ["pretraining", "livedoor-news-untrained-s0"]
    assert len(done.rows) == 1 + len(JAPANESE) * 2 * 3
    page = japanese.make_page(done, tables)
    assert page.count("not run yet") == 2 * len(JAPANESE)
    assert "Not run yet." in page
    assert "Corpus livedoor." in page


def test_rows_wait_for_the_bundle_they_start_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        japanese_bundle, "study", lambda: Study("p", [japanese_bundle.ROW], lambda *_: {}, runs=tmp_path)
    )
    japanese_bundle.opened.cache_clear()
    for name in (japanese_bundle.PRETRAINED, japanese_bundle.UNTRAINED):
        with pytest.raises(SettingsError, match="the row 'pretraining' makes it"):
            japanese_bundle.opened(name)


@pytest.mark.real
def test_articles_are_trained_on_or_scored_on_never_both() -> None:
    public_data(livedoor.FILES[0])
    train, dev = livedoor.examples()
    assert len(train) + len(dev) == 7_367
    assert 0.18 < len(dev) / 7_367 < 0.22
    assert {example.label for example in dev} == set(livedoor.CATEGORIES)
    shares = [share_of(text) for text in livedoor.documents(print)]
    assert sum(share < livedoor.BACK for share in shares) == len(dev)
    for data in JAPANESE:
        own = drawn(data)
        assert (len(own.train), len(own.dev), own.overlap) == (2_000, 1_000, 0), data


@pytest.mark.slow
@pytest.mark.real
def test_the_command_runs(tmp_path: Path) -> None:
    public_data("glue/SST-2/dev.tsv")  # which the corpus is looked through for
    out = tmp_path / "japanese.md"
    command = [sys.executable, "-m", "benchmarks.japanese", "--quick", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = out.read_text("utf-8")
    assert "made multiple-choice | accuracy | 24, 12 |  | 100.0" in page
    assert "made classification | accuracy | 24, 12 | 50.0 | 100.0" in page
    assert "not run yet" not in page
