"""Rules and vocabulary -> ids: what counts as a word, and what normalisation does to it."""

import unicodedata

import pytest

from anaume.errors import TokenizerError
from anaume.tokenization import TokenizerRules
from anaume.tokenization.pipeline import build_normalizer, build_pre_tokenizer
from helpers import make_tokenizer

# (first, last) of every range the original BERT code isolates.
CJK_RANGES = [
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
]


def words(text, **rules):
    made = TokenizerRules.from_dict(rules)
    cut = build_pre_tokenizer(made).pre_tokenize_str(build_normalizer(made).normalize_str(text))
    return [word for word, _ in cut]


@pytest.mark.parametrize("code", [code for ends in CJK_RANGES for code in ends] + [0x2B91F, 0x2B920])
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_ideograph_of_the_original_ranges_is_a_word(code, lower_case):
    """TOK-04: the Rust normaliser starts Extension E 256 ideographs late."""
    tokenizer = make_tokenizer("a b", lower_case=lower_case)
    assert tokenizer.encode(f"a{chr(code)}b").tokens[1:-1] == ["a", "[UNK]", "b"]


@pytest.mark.parametrize("code", [0x33FF, 0x4DC0, 0xA000, 0x2CEB0, 0x30000, 0x2FA20])
def test_outside_the_ranges_nothing_is_cut(code):
    """TOK-04: extensions F, G and H are outside every reference range."""
    assert words(f"a{chr(code)}b", lower_case=False) == [f"a{chr(code)}b"]


def test_huggingface_ranges_keep_the_gap():
    """TOK-04: an imported fast tokenizer keeps its ids, gap included."""
    assert words("a\U0002b820b", cjk_ranges="huggingface") == ["a\U0002b820b"]
    assert words("a\U0002b820b", split_cjk=False) == ["a\U0002b820b"]
    assert words("a漢b", split_cjk=False) == ["a漢b"]


@pytest.mark.parametrize(
    ("text", "rules", "expected"),
    [
        # TOK-07: dotted capital I, and no Turkish rule for the others.
        ("\u0130zmir", {}, ["izmir"]),
        ("\u0130zmir", {"strip_accents": False}, ["i\u0307zmir"]),
        ("DIYARBAKIR", {}, ["diyarbakir"]),
        # TOK-07: cased, the two spellings differ; NFKC makes them one.
        ("a\u0301 \u00e1", {"lower_case": False}, ["a\u0301", "\u00e1"]),
        ("a\u0301 \u00e1", {"lower_case": False, "nfkc": True}, ["\u00e1", "\u00e1"]),
        # TOK-08: lower-casing is per character, so no final sigma.
        ("ΟΔΟΣ", {}, ["οδο\u03c3"]),
        # TOK-09: lower case, not case folding; ligatures stay.
        ("Straße STRASSE ẞ \ufb01n", {}, ["straße", "strasse", "ß", "\ufb01n"]),
        # TOK-10: only the mark goes.
        ("Tōhoku nǚ Ångström Ḍạ ế Ǆ", {}, ["tohoku", "nu", "angstrom", "da", "e", "ǆ"]),
        # TOK-11: U+FE0F is Mn, U+20E3 is Me, U+200D is Cf.
        ("❤\ufe0f", {}, ["❤"]),
        ("❤\ufe0f", {"lower_case": False}, ["❤\ufe0f"]),
        ("1\ufe0f\u20e3", {}, ["1\u20e3"]),
        ("👩\u200d🔬 👍🏽", {}, ["👩🔬", "👍🏽"]),
        # TOK-16: uncased Hangul becomes letters.
        ("한국", {}, [unicodedata.normalize("NFD", "한국")]),
        ("한국", {"lower_case": False}, ["한국"]),
        # JA-01: stripping accents strips voicing; the half-width mark is a letter to NFD.
        ("サバの値段は五百円でした", {}, ["サハの", "値", "段", "は", "五", "百", "円", "てした"]),
        (
            "サバの値段は五百円でした",
            {"strip_accents": False},
            ["サバの", "値", "段", "は", "五", "百", "円", "でした"],
        ),
        ("サバの値段は五百円でした", {"lower_case": False}, ["サバの", "値", "段", "は", "五", "百", "円", "でした"]),
        ("ｻﾊﾞ", {}, ["ｻﾊﾞ"]),
        ("ｻﾊﾞ", {"lower_case": False, "nfkc": True}, ["サバ"]),
        # JA-04: what NFKC does and does not unify.
        ("ＡＢＣ１２３", {"lower_case": False, "nfkc": True}, ["ABC123"]),
        ("①㎏㌔", {"lower_case": False, "nfkc": True}, ["1kgキロ"]),
        ("～ 〜 ｰ － −", {"lower_case": False, "nfkc": True}, ["~", "〜", "ー", "-", "−"]),
        ("ＡＢＣ１２３", {"lower_case": False}, ["ＡＢＣ１２３"]),
    ],
)
def test_words(text, rules, expected):
    assert words(text, **rules) == expected


def test_nfkc_composes_squared_words_before_ideographs_are_cut():
    """JA-04: ㍿ is four ideographs once NFKC opened it."""
    assert words("㍿", nfkc=True) == ["株", "式", "会", "社"]


def test_literal_special_tokens_are_ordinary_text():
    tokenizer = make_tokenizer("[ ] sep cls mask pad unk a")
    encoding = tokenizer.encode("a[SEP][MASK] [CLS][PAD][UNK]")
    assert " ".join(encoding.tokens[1:-1]) == "a [ sep ] [ mask ] [ cls ] [ pad ] [ unk ]"
    assert encoding.special_mask == [True] + [False] * 16 + [True]


class TestProtected:
    """TOK-13: strings that are never split."""

    def test_matched_anywhere_with_their_case(self):
        tokenizer = make_tokenizer("[kaidan] C++ 。 uses , see [ ] cls c + x", protected=["[kaidan]", "C++"])
        text = "。[kaidan] uses C++, see [CLS] c++ xC++x"
        tokens = tokenizer.encode(text).tokens[1:-1]
        assert " ".join(tokens) == "。 [kaidan] uses C++ , see [ cls ] c + + x C++ x"

    def test_offsets_and_word_numbers(self):
        encoding = make_tokenizer("C++ é e x", protected=["C++"], lower_case=False).encode("é C++x")
        assert encoding.offsets[1:-1] == [(0, 1), (2, 5), (5, 6)]
        assert encoding.word_ids[1:-1] == [0, 1, 2]

    def test_survives_saving(self, tmp_path):
        tokenizer = make_tokenizer("C++ c + a", protected=["C++"])
        tokenizer.save(tmp_path)
        again = type(tokenizer).from_directory(tmp_path)
        assert again.fingerprint == tokenizer.fingerprint
        assert again.encode("aC++ c++") == tokenizer.encode("aC++ c++")

    def test_must_be_in_the_vocabulary(self):
        with pytest.raises(TokenizerError, match=r"'C\+\+' is not in the vocabulary \(6 entries\)"):
            make_tokenizer("a", protected=["C++"])


def test_a_word_past_the_limit_is_one_unknown_piece():
    """JA-05: 150 katakana without a blank are one word, and the unknown share shows it."""
    tokenizer = make_tokenizer(["ア", "##ア"])
    assert tokenizer.encode("ア" * 100).unknown == 0
    assert tokenizer.encode("ア" * 150).tokens[1:-1] == ["[UNK]"]
    assert make_tokenizer(["ア", "##ア"], max_word_characters=150).encode("ア" * 150).pieces == 150


def test_characters_one_by_one():
    """JA-05: the character rule has no word limit; word numbers stay."""
    tokenizer = make_tokenizer("a b ab", subwords="character")
    encoding = tokenizer.encode("abx ba")
    assert encoding.tokens[1:-1] == ["a", "b", "[UNK]", "b", "a"]
    assert encoding.word_ids[1:-1] == [0, 0, 0, 1, 1]
    assert tokenizer.encode("ab" * 15_000).pieces == 30_000
