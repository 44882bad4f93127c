"""Learning a vocabulary: every character kept, the same ids in every process."""

import os
import subprocess
import sys

import pytest

from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization import Tokenizer, TokenizerRules
from anaume.tokenization.learning import learn_vocabulary

TEXTS = ["the lowest of the low rivers flows slowly", "newer lower slower towers, wider rivers!", "über naïve"] * 4
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_order_of_the_ids():
    """Special tokens, the sorted alphabet, then what was learned."""
    tokenizer = Tokenizer.train(TEXTS, vocab_size=70, lower_case=False)
    vocab = tokenizer.vocab
    letters = sorted(set("".join(TEXTS)) - {" "})
    joinable = [letter for letter in letters if letter.isalpha()]
    alphabet = [*letters, *(f"##{letter}" for letter in joinable)]
    assert vocab[: 5 + len(alphabet)] == [*SPECIALS, *alphabet]
    assert len(vocab) == 70
    assert all(len(token.removeprefix("##")) > 1 for token in vocab[5 + len(alphabet) :])
    assert sum(encoding.unknown for encoding in tokenizer.encode_batch(TEXTS)) == 0


def test_both_forms_of_every_character():
    """VOC-05: 'ba' after a corpus of 'ab'."""
    tokenizer = Tokenizer.train(["ab ab ab"], vocab_size=20)
    assert {"a", "b", "##a", "##b"} <= set(tokenizer.vocab)
    assert tokenizer.encode("ba").tokens[1:-1] == ["b", "##a"]
    assert tokenizer.encode("ab").tokens[1:-1] == ["ab"]


def test_no_rare_character_is_lost():
    """VOC-04: the library's own default keeps 1,000 characters."""
    kanji = [chr(0x4E00 + k) for k in range(1_500)]
    tokenizer = Tokenizer.train(["".join(kanji)] * 3, vocab_size=20_000, strip_accents=False)
    assert sum(encoding.unknown for encoding in tokenizer.encode_batch(kanji)) == 0
    assert tokenizer.training_report.characters == 1_500
    assert tokenizer.training_report.lost_characters == ()
    assert tokenizer.vocab_size == 1_505  # an ideograph always stands alone, so it needs no ## form


@pytest.mark.parametrize("flags", [{}, {"words": "mecab"}, {"subwords": "character"}], ids=str)
def test_the_same_in_every_process(flags, tmp_path):
    """VOC-05: byte for byte, whatever the seed of Python's hashes."""
    texts = [*TEXTS, "東京都に住むタナカさんです。", "吾輩は猫である。名前はまだ無い。"] * 2
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(texts), encoding="utf-8")
    flags = {"lower_case": False} | flags
    program = (
        "from anaume.tokenization import Tokenizer\n"
        f"print(Tokenizer.train([{str(corpus)!r}], vocab_size=190, **{flags!r}).fingerprint)"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    here = Tokenizer.train(texts, vocab_size=190, **flags)
    assert prints == {here.fingerprint}


def test_a_size_too_small_names_the_least():
    with pytest.raises(SettingsError, match=r"vocab_size=8 is too small: .* 2 characters of the texts need 9"):
        Tokenizer.train(["ab"], vocab_size=8)
    assert Tokenizer.train(["ab"], vocab_size=9).vocab_size == 9


@pytest.mark.parametrize("subwords", ["wordpiece", "character"])
def test_a_limited_alphabet_is_reported(subwords):
    with pytest.warns(AnaumeWarning, match=r"limit_alphabet=2 leaves out 1 of 3 characters, 10\.000% of the text"):
        tokenizer = Tokenizer.train(["ab ab ab ac", "ba"], vocab_size=20, limit_alphabet=2, subwords=subwords)
    report = tokenizer.training_report
    assert report.lost_characters == ("c",)
    assert report.lost_share == pytest.approx(0.1)
    assert (report.texts, report.words, report.distinct_words, report.characters) == (2, 5, 3, 3)
    assert not any("c" in token for token in tokenizer.vocab[5:])


def test_fewer_entries_than_asked_shows_in_the_report():
    report = Tokenizer.train(["ab ab"], vocab_size=5_000).training_report
    assert (report.asked_size, report.size) == (5_000, 10)


def test_characters():
    tokenizer = Tokenizer.train(["ba c", "aB"], vocab_size=50, subwords="character", lower_case=False)
    assert tokenizer.vocab == [*SPECIALS, "B", "a", "b", "c"]
    assert tokenizer.encode("cab").tokens[1:-1] == ["c", "a", "b"]


def test_japanese_words():
    tokenizer = Tokenizer.train(["東京に住む", "京都に住む"] * 3, vocab_size=60, words="mecab")
    assert tokenizer.encode("東京に住む").tokens[1:-1] == ["東京", "に", "住む"]
    assert tokenizer.encode("む京").unknown == 0  # every character in both forms
    assert "##京" in tokenizer.vocab


def test_stripping_voicing_marks_is_warned_about():
    """JA-01: バ would become ハ."""
    with pytest.warns(AnaumeWarning, match=r"3 voiced kana .* strip_accents=False .* split_cjk"):
        Tokenizer.train(["サバとバス", "か\u3099"], vocab_size=50)
    Tokenizer.train(["サバとバス"], vocab_size=50, strip_accents=False)


def test_protected_strings_are_entries_and_teach_nothing():
    tokenizer = Tokenizer.train(["xC++x C++ C++", "x"], vocab_size=40, protected=["C++"], lower_case=False)
    assert tokenizer.vocab[5:7] == ["C++", "x"]
    assert "C" not in tokenizer.vocab
    assert tokenizer.encode("xC++").tokens[1:-1] == ["x", "C++"]


def test_files_and_texts(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ab cd\r\nab\n")
    from_texts = Tokenizer.train(iter(["ab cd", "ab"]), vocab_size=20)
    for source in (path, str(path), [path], [str(path)]):
        assert Tokenizer.train(source, vocab_size=20).fingerprint == from_texts.fingerprint
    assert from_texts.training_report.texts == 2
    lone = Tokenizer.train(["a\ud800b a\x00b"], vocab_size=20)
    assert lone.token_to_id("ab") is not None


def test_a_byte_order_mark_is_no_character(tmp_path):
    """DAT-02"""
    path = tmp_path / "marked.txt"
    path.write_bytes("\ufeff東京に住む\r\n京都に住む\n".encode())
    marked, plain = (
        Tokenizer.train(source, vocab_size=60, words="mecab") for source in (path, ["東京に住む", "京都に住む"])
    )
    assert marked.vocab == plain.vocab


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ([], DataError, "no words to learn from: 0 texts"),
        (["", " \u200b"], DataError, "no words to learn from: 2 texts"),
        ("no/such/file.txt", SettingsError, "there is no file 'no/such/file.txt'"),
        ([b"abc"], SettingsError, "every text must be a str; got bytes"),
        ([None], SettingsError, "every text must be a str; got NoneType"),
        (b"abc", SettingsError, "a text file or an iterable of texts was expected; got bytes"),
        (None, SettingsError, "a text file or an iterable of texts was expected; got NoneType"),
    ],
)
def test_wrong_sources(source, error, message):
    with pytest.raises(error) as caught:
        Tokenizer.train(source, vocab_size=20)
    assert message in str(caught.value)


def test_broken_files_name_file_and_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(DataError, match=r"a\.txt, line 2: not UTF-8 at byte 1"):
        Tokenizer.train(path, vocab_size=20)
    with pytest.raises(DataError, match="can't read"):
        Tokenizer.train([tmp_path / "missing.txt"], vocab_size=20)


@pytest.mark.parametrize("name", ["vocab_size", "min_frequency", "limit_alphabet"])
def test_wrong_numbers(name):
    arguments = {"vocab_size": 20} | {name: 0}
    with pytest.raises(SettingsError, match=f"{name} must be a whole number from 1; got 0"):
        learn_vocabulary(["a"], TokenizerRules(), **arguments)
    if name != "limit_alphabet":
        with pytest.raises(SettingsError, match=f"{name} must be a whole number from 1; got None"):
            learn_vocabulary(["a"], TokenizerRules(), **(arguments | {name: None}))


def test_min_frequency():
    assert "ab" in Tokenizer.train(["ab ab"], vocab_size=20).vocab
    assert "ab" not in Tokenizer.train(["ab ab"], vocab_size=20, min_frequency=3).vocab


@pytest.mark.parametrize("vocab_size", [10**12, 2**70])
def test_a_size_beyond_all_memory_is_as_good_as_any_that_is_large_enough(vocab_size):
    """The trainer would set aside memory for as many entries as it is told, and end the process."""
    texts = ["the dog is cute", "the dog plays", "dogs"]
    large = Tokenizer.train(texts, vocab_size=vocab_size, min_frequency=1)
    assert large.vocab == Tokenizer.train(texts, vocab_size=1_000, min_frequency=1).vocab
    assert {"the", "dog", "dogs", "plays", "cute"} <= set(large.vocab)
    assert Tokenizer.train(texts, vocab_size=100, min_frequency=vocab_size).training_report.size < 50


def test_words_that_will_be_unknown_teach_nothing():
    """And cost no time: the trainer's grows with the square of a word's length."""
    long = "ab" * 100_000
    tokenizer = Tokenizer.train(["dog dog", long, long], vocab_size=100)
    assert {"dog", "a", "##b"} <= set(tokenizer.vocab)
    assert "ab" not in tokenizer.vocab
    assert tokenizer.encode(long).tokens[1:-1] == ["[UNK]"]
    assert "ab" in Tokenizer.train(["dog dog", "ab" * 60, "ab" * 60], vocab_size=100, max_word_characters=120).vocab
