import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.tokenization import Tokenizer
from anaume.tokenization.bulk import _MARKS, BulkEncoder

TEXTS = [
    "The quick brown fox jumps over the lazy dogs, unquestionably!",
    "Éléphants and naïve cafés; ##hash ## # [SEP] [UNK] [MASK]",
    "吾輩は猫である。名前はまだ無い。",
    "",
    "   ",
    "x" * 300,
    "e\u0301 \u200b\u00a0 ａｂｃ 日本 \U0002b820 \U0001f600",
]
LEARN = [*TEXTS, "fox foxes jumping dogged lazily unquestioning questions", "### ## a##b"]


def tokenizer(**flags) -> Tokenizer:
    return Tokenizer.train(LEARN, vocab_size=400, min_frequency=1, **flags)


RULES = [
    {},
    {"lower_case": False},
    {"strip_accents": False, "nfkc": True},
    {"split_cjk": False},
    {"cjk_ranges": "huggingface"},
    {"max_word_characters": 8},
    {"subwords": "character"},
    {"protected": ("fox", "##hash")},
    {"words": "mecab"},
    {"words": "mecab", "subwords": "character"},
]


def slow(one: Tokenizer, texts):
    """What `Tokenizer.encode` says, text by text."""
    ids, starts, lengths = [], [], []
    for text in texts:
        encoding = one.encode(text)
        words = encoding.word_ids[1:-1]
        ids += encoding.token_ids[1:-1]
        starts += [number == 0 or word != words[number - 1] for number, word in enumerate(words)]
        lengths.append(len(words))
    return ids, [int(start) for start in starts], lengths


def fast(one: Tokenizer, texts):
    pieces = BulkEncoder(one).encode(texts)
    assert (pieces.token_ids.dtype, pieces.word_starts.dtype, pieces.lengths.dtype) == (np.int32, np.uint8, np.int64)
    return pieces.token_ids.tolist(), pieces.word_starts.tolist(), pieces.lengths.tolist()


@pytest.mark.filterwarnings("ignore::anaume.errors.AnaumeWarning")
@pytest.mark.parametrize("flags", RULES, ids=str)
def test_ids_words_and_lengths_are_those_of_encode(flags):
    one = tokenizer(**flags)
    texts = [*TEXTS, *(LEARN * 20)]
    assert fast(one, texts) == slow(one, texts)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ONE = tokenizer()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.text("aBé #[]SEP。猫がは\u0301\u3099 \t\n\u2028\x00\ufffd\U0001f600" + _MARKS[1:], max_size=30), max_size=8
    )
)
def test_texts_joined_never_touch(texts):
    assert fast(ONE, texts) == slow(ONE, texts)


@pytest.mark.parametrize("mark", _MARKS)
def test_a_text_with_the_mark_is_encoded_all_the_same(mark):
    texts = [f"fox{mark}dog", "lazy", mark, mark * 3]
    assert fast(ONE, texts) == slow(ONE, texts)


def test_a_vocabulary_that_holds_the_mark_gets_another_or_none():
    vocab = ONE.vocab
    for count in (1, len(_MARKS)):
        one = Tokenizer([*vocab, *_MARKS[:count]], ONE.rules)
        texts = [f"fox {_MARKS[0]} dog", "lazy fox", _MARKS]
        assert fast(one, texts) == slow(one, texts)


def test_lone_surrogates_read_as_elsewhere():
    texts = ["a\ud800b", "fox"]
    assert fast(ONE, texts) == slow(ONE, texts)


def test_no_texts():
    assert fast(ONE, []) == ([], [], [])
