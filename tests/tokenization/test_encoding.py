"""Encodings: layout, offsets in the original text, coverage."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.tokenization import Coverage, TokenizerRules
from anaume.tokenization.encoding import settle_offsets
from anaume.tokenization.pipeline import build_normalizer
from helpers import make_tokenizer

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def spelling(**rules):
    """Every lower-case letter in both forms, and a few others."""
    more = ["東", "京", "タワー", "!", "’", "—", "。"]
    return make_tokenizer(LETTERS + [f"##{letter}" for letter in LETTERS] + more, **rules)


def word_spans(encoding):
    spans = {}
    for word, (start, end) in zip(encoding.word_ids, encoding.offsets, strict=True):
        if word is not None:
            first, _ = spans.get(word, (start, end))
            spans[word] = (first, end)
    return list(spans.values())


def test_layout_of_one_text_and_of_a_pair():
    tokenizer = make_tokenizer("a b c")
    one = tokenizer.encode("a b")
    assert one.token_ids == [2, 5, 6, 3]
    assert one.segment_ids == [0, 0, 0, 0]
    pair = tokenizer.encode("a b", "c c c")
    assert " ".join(pair.tokens) == "[CLS] a b [SEP] c c c [SEP]"
    assert pair.segment_ids == [0, 0, 0, 0, 1, 1, 1, 1]
    assert pair.word_ids == [None, 0, 1, None, 0, 1, 2, None]
    assert pair.special_mask == [True, False, False, True, False, False, False, True]
    assert pair.offsets == [(0, 0), (0, 1), (2, 3), (0, 0), (0, 1), (2, 3), (4, 5), (0, 0)]
    assert (len(pair), pair.pieces, pair.unknown) == (8, 5, 0)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b", "\u0301", "\ufffd\x00", "\ud800"])
def test_a_text_that_is_empty_after_cleaning(text):
    """TOK-15: exactly the special tokens, alone and in a batch."""
    tokenizer = spelling()
    expected = tokenizer.encode(text)
    assert expected.token_ids == [2, 3]
    assert tokenizer.encode_batch(["ab", text])[1] == expected
    assert tokenizer.encode(text, text).token_ids == [2, 3, 3]
    assert tokenizer.encode(text, text).segment_ids == [0, 0, 1]
    assert expected.coverage == (Coverage(0, 0, 0, len(text)),)
    assert expected.coverage[0].share == 1.0


def test_offsets_of_the_original_text():
    """OFF-01: two blanks, a zero-width space, a curly apostrophe, ideographs."""
    encoding = spelling().encode("Le  café\u200b d\u2019Émile — 東京タワー!")
    assert word_spans(encoding) == [
        (0, 2),
        (4, 8),
        (10, 11),
        (11, 12),
        (12, 17),
        (18, 19),
        (20, 21),
        (21, 22),
        (22, 25),
        (25, 26),
    ]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("cafe\u0301 bar", [(0, 5), (6, 9)]),  # OFF-04
        ("cafe\u0301\u0323s", [(0, 7)]),
        ("e\u0301e\u0301", [(0, 4)]),
        ("\u0301a", [(1, 2)]),  # no character before it
        ("a \u0301b", [(0, 1), (3, 4)]),  # the character before it is a blank
        ("❤\ufe0f a", [(0, 2), (3, 4)]),
        ("\u0130zmir", [(0, 5)]),  # TOK-07
    ],
)
def test_a_removed_mark_belongs_to_the_character_before_it(text, spans):
    assert word_spans(spelling().encode(text)) == spans


def test_marks_inside_a_word():
    """OFF-04: cut between the pieces, the accent goes with its letter."""
    encoding = spelling().encode("fe\u0301s")
    assert encoding.offsets[1:-1] == [(0, 1), (1, 3), (3, 4)]


def test_a_letter_that_becomes_two():
    """TOK-07: six code points from five characters, all spans within the five."""
    text = "\u0130zmir"
    encoding = make_tokenizer("i ##\u0307 ##z ##m ##i ##r", strip_accents=False).encode(text)
    assert encoding.tokens[1:-1] == ["i", "##\u0307", "##z", "##m", "##i", "##r"]
    assert encoding.offsets[1:-1] == [(0, 1), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_hangul_letters_share_the_span_of_their_syllable():
    """TOK-16"""
    tokenizer = make_tokenizer("ᄒ ##ᅡ ##ᆫ ##ᄀ ##ᅮ ##ᆨ")
    encoding = tokenizer.encode("한국")
    assert encoding.tokens[1:-1] == ["ᄒ", "##ᅡ", "##ᆫ", "##ᄀ", "##ᅮ", "##ᆨ"]
    assert encoding.offsets[1:-1] == [(0, 1)] * 3 + [(1, 2)] * 3


def test_emoji():
    """TOK-11: one unknown piece for a run that is not in the vocabulary, and its span shows what it was."""
    absent = make_tokenizer("ok").encode("ok 🍙🍙 ok")
    assert absent.tokens[1:-1] == ["ok", "[UNK]", "ok"]
    assert absent.offsets[1:-1] == [(0, 2), (3, 5), (6, 8)]
    present = make_tokenizer("ok 🍙 ##🍙").encode("ok 🍙🍙 ok")
    assert present.tokens[1:-1] == ["ok", "🍙", "##🍙", "ok"]
    assert present.offsets[2:4] == [(3, 4), (4, 5)]
    assert make_tokenizer("👩 ##🔬").encode("👩\u200d🔬").offsets[1:-1] == [(0, 1), (2, 3)]
    assert make_tokenizer("👩🔬").encode("👩\u200d🔬").offsets[1:-1] == [(0, 3)]


@pytest.mark.parametrize("surrogate", ["\ud83d", "\ud800\ud800"])
def test_a_lone_surrogate_is_a_replacement_character(surrogate):
    """TOK-14: the ids of the text without it, offsets of the text with it."""
    tokenizer = spelling()
    encoding = tokenizer.encode(f"a{surrogate}b c")
    assert encoding.token_ids == tokenizer.encode("ab c").token_ids
    assert word_spans(encoding) == [(0, 2 + len(surrogate)), (3 + len(surrogate), 4 + len(surrogate))]
    assert encoding == tokenizer.encode("a" + "\ufffd" * len(surrogate) + "b c")
    assert tokenizer.encode_batch(["x", f"a{surrogate}b c"])[1] == encoding
    pair = tokenizer.encode("x", f"a{surrogate}b c")
    assert pair.token_ids[3:] == encoding.token_ids[1:]


def test_nul_does_not_cut_a_text():
    tokenizer = spelling()
    assert tokenizer.encode("a\x00b \x00 c").token_ids == tokenizer.encode("ab c").token_ids


def test_nothing_a_caller_does_to_a_list_comes_back():
    encoding = spelling().encode("é bc")
    for name in ("token_ids", "tokens", "offsets", "word_ids", "segment_ids", "special_mask"):
        expected = list(getattr(encoding, name))
        getattr(encoding, name).clear()
        assert getattr(encoding, name) == expected
    with pytest.raises(AttributeError):
        encoding.token_ids = []


def test_encodings_compare_pickle_and_show():
    tokenizer = make_tokenizer("a b")
    encoding = tokenizer.encode("a b a", max_length=4)
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    assert encoding != tokenizer.encode("a b")
    assert encoding != "a b"
    assert repr(encoding) == "Encoding([CLS] a b [SEP])"


def test_settled_spans_never_go_back_or_outside():
    assert settle_offsets([(2, 3), (1, 2), (2, 9)], "aéabc") == [(2, 3), (2, 2), (2, 5)]


# What real texts mix: Latin, marks, kana in three widths, ideographs, Hangul, controls, emoji, and anything at all.
MIXED = ["e\u0301", "\u0323", "\u3099", "か\u3099", "\u200d", "\ufe0f", "\u200b", "👩\u200d🔬", "\U0002b820", "㍿", "①"]
RARE = ["\x00", "\u1100\u1161\u11a8", "\u0344", "\ufdfa", "\ud800", "\u0e33"]
SCRAPS = st.sampled_from([*"aBé .,!?\t\nタナﾀﾞﾊﾟｶ東京한국ǅİßΣＡ１", *MIXED, *RARE])
TEXTS = st.lists(SCRAPS | st.characters(), max_size=15).map("".join)


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"lower_case": False},
        {"strip_accents": False},
        {"nfkc": True},
        {"subwords": "character"},
        {"words": "mecab"},
        {"words": "mecab", "subwords": "character", "lower_case": True},
    ],
    ids=str,
)
def test_offsets_hold_for_any_text(rules):
    """OFF-01: in order, within the text, and the slice normalises to the token."""
    made = TokenizerRules.from_dict(rules)
    normalize = build_normalizer(made).normalize_str
    letters = [*"abeéßσタナハカ東京ᄒ가ab1会"]
    entries = letters + [f"##{letter}" for letter in letters if made.subwords == "wordpiece"]
    tokenizer = make_tokenizer(list(dict.fromkeys(entries)), **rules)

    @settings(max_examples=120, deadline=None, database=None)
    @given(TEXTS)
    def check(text):
        encoding = tokenizer.encode(text)
        low = 0
        for token, (start, end), special in zip(encoding.tokens, encoding.offsets, encoding.special_mask, strict=True):
            if special:
                assert (start, end) == (0, 0)
                continue
            assert low <= start < end <= len(text)
            low = start
            if token != tokenizer.rules.unk_token:
                part = text[start:end].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                shown = normalize(part).strip()
                assert token.removeprefix("##") in (shown.lower() if made.lower_case else shown)
        assert encoding.coverage[0] == Coverage(encoding.pieces, encoding.pieces, 0, len(text))

    check()
