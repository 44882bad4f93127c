"""Japanese words through MeCab: compatible words, offsets in the original, any number of threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from anaume.errors import MissingExtra, TokenizerError
from anaume.tokenization import words as words_module
from anaume.tokenization.words import MecabWords
from helpers import make_tokenizer

TEXT = "東京都に住むﾀﾅｶさん　です"


def spans(encoding):
    return dict(zip(encoding.tokens[1:-1], encoding.offsets[1:-1], strict=True))


def test_offsets_through_nfkc():
    """JA-03: ﾀﾅｶ is (6, 9) of the original; the ideographic space belongs to no token."""
    tokenizer = make_tokenizer("東京 都 に 住む タナカ さん です", words="mecab")
    assert spans(tokenizer.encode(TEXT)) == {
        "東京": (0, 2),
        "都": (2, 3),
        "に": (3, 4),
        "住む": (4, 6),
        "タナカ": (6, 9),
        "さん": (9, 11),
        "です": (12, 14),
    }


def test_offsets_of_characters():
    """JA-03, characters: word numbers still say which word a character is in."""
    tokenizer = make_tokenizer(list("東京都に住むタナカさんです"), words="mecab", subwords="character")
    encoding = tokenizer.encode(TEXT)
    assert spans(encoding)["ナ"] == (7, 8)
    assert encoding.offsets[-3:-1] == [(12, 13), (13, 14)]
    assert encoding.word_ids[1:4] == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "token", "span"),
    [
        ("ｻﾊﾞ", "サバ", (0, 3)),  # a half-width mark is composed with its letter
        ("か\u3099", "が", (0, 2)),
        ("㍿", "株式会社", (0, 1)),  # one character becomes a word
        ("ＡＢＣ", "ABC", (0, 3)),
    ],
)
def test_composed_and_decomposed(text, token, span):
    encoding = make_tokenizer([token, "株式", "会社"], words="mecab").encode(text)
    assert (encoding.offsets[1][0], encoding.offsets[-2][1]) == span


def test_nfkc_can_be_off():
    """JA-04"""
    tokenizer = make_tokenizer("ＡＢＣ ABC", words="mecab", nfkc=False)
    assert tokenizer.encode("ＡＢＣ").tokens[1:-1] == ["ＡＢＣ"]


def test_lower_case_after_the_words_are_cut():
    tokenizer = make_tokenizer("iphone 8 が", words="mecab", lower_case=True)
    assert tokenizer.encode("iPhone８が").tokens[1:-1] == ["iphone", "8", "が"]


@pytest.mark.parametrize("text", ["", " ", "　", "\n\t"])
def test_blank_texts(text):
    """TOK-15, in Japanese."""
    assert make_tokenizer("a", words="mecab").encode(text).token_ids == [2, 3]


def test_nul_and_surrogates_cut_nothing():
    """TOK-14: MeCab reads C strings, and fugashi raises on a lone surrogate."""
    tokenizer = make_tokenizer("東京 都 です", words="mecab")
    encoding = tokenizer.encode("東京\x00都です")
    assert encoding.tokens[1:-1] == ["東京", "都", "です"]
    assert encoding.offsets[2] == (3, 4)
    assert tokenizer.encode("東京\ud83dです") == tokenizer.encode("東京\ufffdです")
    assert tokenizer.encode("東京\ud83dです").tokens[1:-1] == ["東京", "[UNK]", "です"]


def test_protected_strings():
    tokenizer = make_tokenizer("C++ を 使う", words="mecab", protected=["C++"])
    assert tokenizer.encode("C++を使う").tokens[1:-1] == ["C++", "を", "使う"]


def test_many_threads_agree_with_one():
    tokenizer = make_tokenizer(list("東京都に住むタナカさんです。猫吾輩は名前"), words="mecab", subwords="character")
    texts = [f"{TEXT[:k]}。吾輩は猫です{k}" for k in range(1, 15)] * 20
    expected = [encoding.token_ids for encoding in map(tokenizer.encode, texts)]
    with ThreadPoolExecutor(32) as pool:
        alone = list(pool.map(lambda text: tokenizer.encode(text).token_ids, texts))
        batches = list(pool.map(lambda _: [e.token_ids for e in tokenizer.encode_batch(texts)], range(8)))
    assert alone == expected
    assert all(batch == expected for batch in batches)


def test_tokenizers_share_their_taggers(monkeypatch):
    """fugashi never lets go of a dictionary: one more for each tokenizer would end where a process may map no more."""
    make_tokenizer("a", words="mecab")

    def fail(self):
        raise AssertionError("another tagger was made")

    monkeypatch.setattr(MecabWords, "_new_tagger", fail)
    for subwords in ("wordpiece", "character"):
        assert make_tokenizer("a", words="mecab", subwords=subwords).encode("a").tokens[1:-1] == ["a"]


def test_a_long_page_takes_no_quadratic_time():
    words = MecabWords(lower_case=False, keep_blanks=False).words("吾輩は猫である。" * 500)
    assert "".join(words) == "吾輩は猫である。" * 500


@pytest.mark.parametrize("missing", ["fugashi", "unidic_lite"])
def test_a_missing_extra_is_named_when_the_tokenizer_is_made(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[ja\]'"):
        make_tokenizer("a", words="mecab")


def test_a_missing_dictionary_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr(words_module, "_dictionary_options", lambda: f'-d "{tmp_path}" -r "{tmp_path / "mecabrc"}"')
    with pytest.raises(TokenizerError, match="can't open the unidic-lite dictionary") as error:
        make_tokenizer("a", words="mecab")
    assert "\n" not in str(error.value)
