"""Corpora of the pretraining benchmarks: no evaluation sentence in them, and always the same documents held back."""

import json

import pytest

from anaume.data.corpus import open_corpus
from anaume.errors import SettingsError
from anaume.tokenization import Tokenizer
from benchmarks import corpora, debian
from benchmarks.corpora import Leaks, Text
from tiny_studies import documents

LEAK = "The quick brown fox ."


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A corpus of 200 documents, one of which holds an evaluation sentence, with another mark."""
    monkeypatch.setattr(corpora, "CORPORA", tmp_path)
    monkeypatch.setattr(corpora, "EVALUATION", {"set": lambda: iter([LEAK, "never seen here", "one"])})
    texts = documents(200, length=30)
    texts[7] += " And then: the quick, brown FOX jumps."
    sources = {"numbers": lambda tell: iter(texts[:150]), "others": lambda tell: iter([*texts[150:], texts[0]])}
    monkeypatch.setitem(corpora.TEXTS, "made", Text(sources, back=0.1, held_out=0.1))
    return texts


def test_a_document_that_holds_an_evaluation_sentence_is_left_out_and_counted(made):
    folder = corpora.texts("made")
    kept = [json.loads(line)["text"] for line in (folder / "train.jsonl").read_text().splitlines()]
    kept += corpora.held_out_texts("made")
    assert sorted(kept) == sorted([*(text for text in made if text is not made[7]), made[0]])
    assert corpora.about("made")["sources"]["numbers"]["leaks left out"] == 1
    assert corpora.overlap("made") == {"set": (0, 2)}, "the text of one word is no sentence"
    assert "set 0 of 2; 1 documents that held one" in corpora.overlap_line("made")


def test_what_is_overlooked_is_found_when_it_is_counted(made, monkeypatch):
    monkeypatch.setattr(Leaks, "held_by", lambda self, document: False)
    assert corpora.overlap("made") == {"set": (1, 2)}


def test_documents_are_held_back_by_their_text_alone(made, monkeypatch):
    back = corpora.held_out_texts("made")
    assert 8 < len(back) < 35
    train = (corpora.texts("made") / "train.jsonl").read_text()
    assert not any(json.dumps(text) in train for text in back)
    shuffled = list(reversed(made))
    monkeypatch.setitem(corpora.TEXTS, "other", Text({"all": lambda tell: iter(shuffled)}, back=0.1))
    assert set(corpora.held_out_texts("other")) == set(back)


def test_a_corpus_is_made_once_and_prepared_by_each_tokenizer(made, monkeypatch):
    first = corpora.prepared("made", "own-60")
    monkeypatch.setattr(corpora, "Leaks", None)
    monkeypatch.setattr(corpora, "prepare_corpus", None)
    assert corpora.prepared("made", "own-60") == first
    opened = open_corpus(first)
    assert opened.split("held-out").documents > 5
    assert Tokenizer.from_directory(opened.tokenizer_directory).vocab_size <= 60
    assert "200 documents" not in corpora.size("made")


@pytest.mark.parametrize(("name", "tokenizer"), [("mad", "own-60"), ("made", "own-"), ("made", "Bert")])
def test_an_unknown_corpus_or_tokenizer_is_refused(made, name, tokenizer):
    with pytest.raises(SettingsError, match=r"did you mean|own-N"):
        corpora.prepared(name, tokenizer)


def test_leaks_are_whole_words_in_their_order():
    leaks = Leaks(["a fine day", "it does n't matter much ."])
    assert leaks.held_by("What a fine day!")
    assert leaks.held_by("It doesn't matter MUCH")
    assert not leaks.held_by("a fine daylight")
    assert not leaks.held_by("a day fine")
    assert not leaks.held_by("a fine")


PAGE = """<html><head><title>No</title></head><body><nav><ul><li>menu</li></ul></nav>
<div role="navigation"><div>more menu</div></div>
<h1>Title<a class="headerlink" href="#x">¶</a></h1><p>A line
that <b>goes</b> on &amp; on.</p><img src="x"><pre>one
  two</pre><ul class="docnav"><li>Next</li></ul>last</body></html>"""


def test_a_page_gives_its_running_text():
    assert debian.html_text(PAGE) == "Title\nA line that goes on & on.\none\ntwo\nlast"


def test_a_package_that_cannot_be_had_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    told = []
    assert list(debian.documents(debian.PACKAGES[0], tmp_path, told.append)) == []
    assert told == ["linux-doc is left out: no apt-get here, so this is no Debian"]
