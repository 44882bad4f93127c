"""The facade: one value, safe to share, copy and compare."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization import Tokenizer, TokenizerRules
from helpers import SPECIALS, make_tokenizer


def test_names_and_ids():
    tokenizer = make_tokenizer("a b")
    assert tokenizer.vocab == [*SPECIALS, "a", "b"]
    assert tokenizer.vocab_size == 7
    ids = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    assert ids == (0, 1, 2, 3, 4)
    assert (tokenizer.token_to_id("b"), tokenizer.token_to_id("zz")) == (6, None)
    assert repr(tokenizer) == "Tokenizer(words='bert', subwords='wordpiece', vocab_size=7)"
    tokenizer.vocab.clear()
    assert tokenizer.vocab_size == 7


def test_the_fingerprint_is_rules_and_order():
    tokenizer = make_tokenizer("a b")
    assert tokenizer.fingerprint == make_tokenizer("a b").fingerprint
    others = [
        make_tokenizer("b a"),
        make_tokenizer("a c"),
        make_tokenizer("a b", lower_case=False),
        make_tokenizer("a b", protected=["a"]),
        make_tokenizer("a b", cjk_ranges="huggingface"),
    ]
    assert len({tokenizer.fingerprint, *(other.fingerprint for other in others)}) == 6
    # Pinned: a stored vector or bundle from before must still match.
    assert tokenizer.fingerprint == "7535772cd65734ae427f090cf39654751de9281645f9d0988cf5c664e733b48e"


@pytest.mark.parametrize("rules", [{}, {"words": "mecab"}], ids=str)
def test_copies(rules):
    tokenizer = Tokenizer([*SPECIALS, "東京", "C++"], TokenizerRules(protected=("C++",), **rules), notes=["a note"])
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert again.fingerprint == tokenizer.fingerprint
        assert again.notes == ("a note",)
        assert again.encode("東京C++[SEP]") == tokenizer.encode("東京C++[SEP]")


def test_a_batch_is_its_texts_one_by_one():
    tokenizer = make_tokenizer("a b ##b")
    texts, pairs = ["", "ab b", "b \ud800", "é"], ["b", "", "a b a b", "x"]
    for options in ({}, {"max_length": 5}):
        assert tokenizer.encode_batch(texts, **options) == [tokenizer.encode(text, **options) for text in texts]
        assert tokenizer.encode_batch(texts, pairs, **options) == [
            tokenizer.encode(*both, **options) for both in zip(texts, pairs, strict=True)
        ]


def test_an_empty_batch():
    """LIM-07"""
    tokenizer = make_tokenizer("a")
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.encode_batch([], []) == []


def test_many_threads_agree_with_one():
    tokenizer = make_tokenizer("a b ##b ##a")
    texts = [("ab ba [SEP] é\ud800 " * (k % 7 + 1))[: 5 * k] for k in range(40)]
    expected = [tokenizer.encode(text, max_length=9) for text in texts]
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda text: tokenizer.encode(text, max_length=9), texts * 5)) == expected * 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.encode(None), "item 0 is NoneType"),
        (lambda t: t.encode_batch(["a", b"a"]), "item 1 is bytes"),
        (lambda t: t.encode_batch(["a", "a"], ["a", 3]), "item 1 is int"),
        (lambda t: t.encode_batch("abc"), "a single string came"),
        (lambda t: t.encode_batch(["abc"], "abc"), "a single string came"),
        (lambda t: t.encode_batch(["a"], ["a", "b"]), "got 1 and 2"),
        (lambda t: t.encode(["already", "cut"]), "item 0 is list"),
        (lambda t: t.encode_batch(None), "a list of texts was expected; got NoneType"),
        (lambda t: t.encode_batch(["a"], 3), "a list of texts was expected; got int"),
        (lambda t: t.windows("a", max_length=None, stride=0), "max_length must be a whole number; got None"),
        (lambda t: t.decode(None), "token ids must be a list of whole numbers"),
        (lambda t: t.decode("abc"), "token ids must be a list of whole numbers"),
        (lambda t: t.decode([5.0]), "token ids must be a list of whole numbers"),
        (lambda t: t.decode([[5, 6]]), "token ids must be a list of whole numbers, of one text"),
    ],
)
def test_what_is_no_text_is_refused(call, message):
    with pytest.raises(SettingsError) as error:
        call(make_tokenizer("a"))
    assert message in str(error.value)


def test_decode():
    tokenizer = make_tokenizer("un ##want ##ed , runn ##ing ! do n ' t")
    ids = tokenizer.encode("unwanted, running!").token_ids
    assert tokenizer.decode(ids) == "unwanted, running!"
    assert tokenizer.decode(ids, keep_special=True) == "[CLS] unwanted, running! [SEP]"
    assert tokenizer.decode([tokenizer.unk_id, 0, 0]) == "[UNK]"
    assert tokenizer.decode([]) == ""
    for wrong in (tokenizer.vocab_size, -1):
        with pytest.raises(TokenizerError, match=f"token id {wrong} is outside the vocabulary of 16 entries"):
            tokenizer.decode([wrong])


def test_decode_characters():
    tokenizer = make_tokenizer(list("吾輩は猫"), words="mecab", subwords="character")
    assert tokenizer.decode(tokenizer.encode("吾輩は猫").token_ids) == "吾輩は猫"


def test_unknown_rule_flags():
    with pytest.raises(SettingsError, match="did you mean 'lower_case'"):
        Tokenizer.train(["a"], vocab_size=20, lowercase=True)
