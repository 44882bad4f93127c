"""Parity: transformers' AutoTokenizer opens what we save and gives the same ids, segments and truncation.

Listed exceptions, decided on purpose: literal special tokens in a text; lone surrogates (transformers raises); an empty
second text, which transformers takes for none; the odd piece when both texts of a pair are cut (below); and for
Japanese NUL (MeCab stops there), lower-casing of a capital sigma at a word's end, and the few characters whose NFKC
differs between the Unicode tables of Python and of the Rust library.
"""

import gzip
import json
import random
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from anaume.tokenization import Tokenizer, TokenizerRules, read_vocab
from helpers import make_tokenizer, public_data

transformers = pytest.importorskip("transformers", reason="transformers, the parity reference, is not installed")

LETTERS = [*"abcABCxé東京タナカさんバハ。、!?12ᄒ"]
SMALL = list(dict.fromkeys([*LETTERS, *(f"##{letter}" for letter in LETTERS), "ab", "##ab", "東京", "C++"]))
ODD = ["e\u0301", "\u200b", "\u2028", "\x85", "\x1c", "\ufe0f", "\U0002b820"]
SCRAPS = st.sampled_from([*"abcABC é東京タナカさんバハ。、!? \t\n　12ﾀﾞＡ①㍿ßΣΟ한", *ODD])
TEXTS = st.lists(SCRAPS | st.characters(exclude_categories=["Cs"]), max_size=15).map("".join)
NFKC = normalizers.NFKC().normalize_str

RULES = [
    {},
    {"lower_case": False},
    {"strip_accents": False},
    {"cjk_ranges": "huggingface"},
    {"split_cjk": False, "lower_case": False},
    {"nfkc": True, "max_word_characters": 4},
    {"subwords": "character"},
    {"protected": ["C++"]},
    {"words": "mecab"},
    {"words": "mecab", "lower_case": True},
    {"words": "mecab", "nfkc": False},
    {"words": "mecab", "subwords": "character"},
    {"words": "mecab", "protected": ["C++"]},
]


def reopened(tokenizer, folder, **options):
    """Save as part of a BERT directory, and open it as a user of transformers would."""
    tokenizer.save(folder, **options)
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    return transformers.AutoTokenizer.from_pretrained(str(folder))


def is_an_exception(text, rules):
    if rules.words != "mecab":
        return False
    return (
        "\x00" in text
        or (rules.nfkc and NFKC(text) != unicodedata.normalize("NFKC", text))
        or (rules.lower_case and "Σ" in unicodedata.normalize("NFKC", text))
    )


@pytest.mark.parametrize("flags", RULES, ids=str)
def test_any_text(flags, tmp_path):
    tokenizer = make_tokenizer(SMALL, **flags)
    reference = reopened(tokenizer, tmp_path)

    @settings(max_examples=100, deadline=None, database=None)
    @given(TEXTS, TEXTS)
    def check(text, pair):
        assume(not is_an_exception(text, tokenizer.rules) and not is_an_exception(pair, tokenizer.rules))
        assert tokenizer.encode(text).token_ids == reference(text)["input_ids"]
        if pair == "":
            return
        ours, theirs = tokenizer.encode(text, pair), reference(text, pair)
        assert ours.token_ids == theirs["input_ids"]
        assert ours.segment_ids == theirs["token_type_ids"]

    check()


@pytest.mark.parametrize(
    ("flags", "max_length"), [({}, 65), ({"words": "mecab"}, 64), ({"words": "mecab", "subwords": "character"}, 65)]
)
def test_truncation(flags, max_length, tmp_path):
    """An odd budget shared by two long texts: the first keeps one more, as in the original BERT code and in
    transformers' Python tokenizers; its Rust ones give it to the second (so their length here leaves an even budget).
    """
    tokenizer = make_tokenizer(SMALL, **flags)
    reference = reopened(tokenizer, tmp_path, max_length=max_length)
    assert reference.model_max_length == max_length
    for first, second in [(25, 300), (300, 25), (300, 300), (299, 300), (300, 299), (0, 300), (10, 20)]:
        text, pair = "a " * first, "b " * second
        for ours, theirs in {"longest-first": "longest_first", "only-second": "only_second"}.items():
            if ours == "only-second" and first > 40:
                continue
            expected = reference(text, pair, max_length=max_length, truncation=theirs)["input_ids"]
            assert tokenizer.encode(text, pair, max_length=max_length, truncation=ours).token_ids == expected


@pytest.mark.parametrize("flags", RULES, ids=str)
def test_saved_again_by_transformers(flags, tmp_path):
    """There and back: what transformers writes is the same tokenizer to us."""
    tokenizer = make_tokenizer(SMALL, **flags)
    reopened(tokenizer, tmp_path / "ours").save_pretrained(str(tmp_path / "theirs"))
    assert Tokenizer.from_directory(tmp_path / "theirs").fingerprint == tokenizer.fingerprint


def test_the_missed_ideographs_reach_transformers(tmp_path):
    """TOK-04: through the saved tokenizer.json transformers isolates them too."""
    reference = reopened(make_tokenizer("a b"), tmp_path)
    assert reference.tokenize("a\U0002b820b") == ["a", "[UNK]", "b"]


def test_protected_strings_reach_transformers(tmp_path):
    """TOK-13"""
    for number, flags in enumerate([{}, {"words": "mecab"}]):
        reference = reopened(make_tokenizer(SMALL, protected=["C++"], **flags), tmp_path / str(number))
        assert reference.tokenize("aC++b") == ["a", "C++", "b"]


def texts_of(kind):
    if kind == "english":
        with gzip.open(public_data("wikitext-2/valid.txt.gz"), "rt", encoding="utf-8") as file:
            lines = [line for line in file if len(line) > 40]
    else:
        path = public_data("books/wagahaiwa_nekodearu_ja.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [line.rstrip("\r\n") for line in file if len(line) > 10]
        path = public_data("jglue/jsts/valid-v1.3.json.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines += [json.loads(line)["sentence1"] for line in file]
    return random.Random(0).sample(lines, 400)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "flags", "kind"),
    [
        ("bert-base-uncased-vocab.txt", {}, "english"),
        ("bert-base-cased-vocab.txt", {"lower_case": False}, "english"),
        ("chinese-roberta-wwm-ext-large/vocab.txt", {}, "japanese"),
        ("bert-base-japanese-v3/vocab.txt", {"words": "mecab"}, "japanese"),
        ("bert-base-japanese-v3/vocab.txt", {"words": "mecab"}, "english"),
        ("deberta-v2-large-japanese-char-wwm/vocab.txt", {"words": "mecab", "subwords": "character"}, "japanese"),
    ],
)
def test_real_text(name, flags, kind, tmp_path):
    tokenizer = Tokenizer(read_vocab(public_data(f"vocab/{name}")), TokenizerRules(**flags))
    reference = reopened(tokenizer, tmp_path)
    texts = texts_of(kind)
    expected = reference(texts)["input_ids"]
    assert [encoding.token_ids for encoding in tokenizer.encode_batch(texts)] == expected


@pytest.mark.real
def test_a_published_directory_as_transformers_opens_it():
    folder = public_data("vocab/bert-base-japanese-v3")
    reference = transformers.AutoTokenizer.from_pretrained(str(folder))
    tokenizer = Tokenizer.from_directory(folder)
    for text in texts_of("japanese")[:100]:
        assert tokenizer.encode(text).token_ids == reference(text)["input_ids"]
