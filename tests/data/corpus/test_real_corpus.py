"""Corpora of public text: published counts, real encodings, real line ends, real quotations."""

import gzip
import warnings

import numpy as np
import pytest

from anaume.checks.corpus import check_corpus
from anaume.data.corpus import DocumentReader, Reading, find_inputs, open_corpus, prepare_corpus, split_sentences
from anaume.errors import AnaumeWarning, DataError
from anaume.tokenization import Tokenizer
from helpers import public_data

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def data():
    return public_data("")


def prepare(paths, out, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        return prepare_corpus(paths, out, **how)


def test_movie_reviews_in_a_zip(data, tmp_path):
    source = data / "nltk_corpora" / "movie_reviews.zip"
    summary = prepare(source, tmp_path / "c", vocab_size=8_000, held_out=0.05)
    assert (summary.train.documents, summary.held_out.documents) == (1_900, 100)
    corpus = open_corpus(tmp_path / "c")
    tokenizer = Tokenizer.from_directory(corpus.tokenizer_directory)
    # The first document, read and tokenised the long way.
    first = next(iter(DocumentReader(find_inputs(source).inputs, Reading())))
    ids = [token_id for line in split_sentences(first.text)[0] for token_id in tokenizer.encode(line).token_ids[1:-1]]
    shards = [shard for split in ("train", "held-out") for shard in corpus.split(split).shards]
    starts = [
        shard.token_ids[shard.sentence_starts[shard.document_starts[number]] :][: len(ids)].tolist()
        for shard in shards
        for number in range(shard.documents)
    ]
    assert ids in starts
    assert summary.unknown_share < 0.001


def test_addresses_that_are_not_all_utf8_are_read_when_told_so(data):
    inputs = find_inputs(data / "nltk_corpora" / "state_union.zip").inputs
    assert len(list(DocumentReader(inputs, Reading(encoding="latin-1")))) == 65
    lenient = DocumentReader(inputs, Reading(errors="replace"))
    assert len(list(lenient)) == 65
    if lenient.replaced:
        with pytest.raises(DataError, match=r"state_union\.zip/.*line \d+, byte \d+: not utf-8.*encoding='latin-1'"):
            list(DocumentReader(inputs, Reading()))


def test_a_japanese_novel_with_crlf_keeps_its_quotations_whole(data):
    source = data / "books" / "wagahaiwa_nekodearu_ja.txt.gz"
    (document,) = DocumentReader(find_inputs(source).inputs, Reading())
    raw = gzip.decompress(source.read_bytes()).decode()
    assert "\r" in raw
    assert document.text == raw.replace("\r\n", "\n")
    sentences, cuts = split_sentences(document.text)
    assert "".join("".join(sentences).split()) == "".join(document.text.split())
    assert 5_000 < len(sentences) < 6_000
    assert cuts < 30
    # Beginnings that only a quotation goes on with are left where the novel breaks the line before them.
    torn = [one for one in sentences if one.startswith(("と云", "と言", "」", "』", "、", "。"))]
    lines = {line.strip() for line in document.text.split("\n")}
    assert len([one for one in torn if not any(line.startswith(one) for line in lines)]) < 30


def test_wikitext_is_read_line_by_line_or_whole(data, tmp_path):
    source = data / "wikitext-2" / "valid.txt.gz"
    summary = prepare(source, tmp_path / "c", vocab_size=4_000, layout="lines")
    lines = [line for line in gzip.decompress(source.read_bytes()).decode().split("\n") if line.strip()]
    assert summary.train.documents + summary.held_out.documents == len(set(map(str.strip, lines)))
    assert summary.duplicates == len(lines) - len(set(map(str.strip, lines)))
    whole = prepare(source, tmp_path / "d", tokenizer=Tokenizer.from_directory(tmp_path / "c" / "tokenizer"))
    counts = open_corpus(tmp_path / "d").split("train").token_counts()
    assert counts.sum() == whole.train.tokens
    assert np.isclose(whole.train.tokens, summary.train.tokens, rtol=0.05)


def test_what_leaked_into_sentence_polarity_is_found(data, tmp_path):
    check = check_corpus(
        data / "nltk_corpora" / "sentence_polarity.zip",
        format="txt",
        layout="lines",
        encoding="latin-1",
        against=[data / "glue" / "SST-2" / "dev.tsv"],
    )
    (overlap,) = check.overlaps
    assert overlap.texts == 872
    # The notes of the data name 731 that stand there letter by letter; "do n't" for "don't" and their kin are more.
    assert overlap.whole >= 731
    assert overlap.whole + overlap.part >= 860
    clean = check_corpus(data / "wikitext-2" / "valid.txt.gz", against=[data / "glue" / "SST-2" / "dev.tsv"])
    assert clean.overlaps[0].whole <= 5
