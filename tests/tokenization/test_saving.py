"""A saved directory holds everything, and names the class that reads it with the same ids."""

import json

import pytest

from anaume.errors import AnaumeWarning, SettingsError
from anaume.tokenization import Tokenizer, TokenizerRules
from anaume.tokenization.saving import tokenizer_class
from helpers import make_tokenizer

FILES = ["vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"]


@pytest.mark.parametrize(
    ("rules", "files"),
    [
        ({}, FILES),
        ({"lower_case": False, "strip_accents": True, "split_cjk": False}, FILES),
        ({"cjk_ranges": "huggingface"}, FILES),
        ({"subwords": "character", "nfkc": True}, FILES),
        ({"protected": ["C++"], "max_word_characters": 12}, FILES),
        ({"words": "mecab"}, FILES[:3]),
        ({"words": "mecab", "subwords": "character", "lower_case": True, "protected": ["C++"]}, FILES[:3]),
    ],
    ids=str,
)
def test_round_trip(tmp_path, rules, files):
    tokenizer = make_tokenizer("a A 東京 東 C++", **rules)
    assert tokenizer.save(tmp_path / "new" / "folder") == files
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(files)
    again = Tokenizer.from_directory(tmp_path / "new" / "folder")
    assert again.rules == tokenizer.rules
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode("a A 東京 C++") == tokenizer.encode("a A 東京 C++")


def test_saving_twice_gives_the_same_bytes(tmp_path):
    tokenizer = make_tokenizer("a b")
    for name in ("one", "two"):
        tokenizer.save(tmp_path / name, max_length=512)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ({}, "PreTrainedTokenizerFast"),
        ({"cjk_ranges": "huggingface"}, "BertTokenizer"),
        ({"split_cjk": False}, "BertTokenizer"),
        ({"split_cjk": False, "nfkc": True}, "PreTrainedTokenizerFast"),
        ({"split_cjk": False, "max_word_characters": 20}, "PreTrainedTokenizerFast"),
        ({"words": "mecab"}, "BertJapaneseTokenizer"),
    ],
)
def test_the_class_that_gives_the_same_ids(rules, name):
    assert tokenizer_class(TokenizerRules.from_dict(rules)) == name


def test_max_length_is_written(tmp_path):
    make_tokenizer("a").save(tmp_path, max_length=384)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 384
    make_tokenizer("a").save(tmp_path)
    assert "model_max_length" not in json.loads((tmp_path / "tokenizer_config.json").read_text())
    with pytest.raises(SettingsError, match="max_length must be a whole number from 2"):
        make_tokenizer("a").save(tmp_path, max_length=1)


def test_a_mecab_tokenizer_leaves_no_tokenizer_json_behind(tmp_path):
    make_tokenizer("a").save(tmp_path)
    japanese = make_tokenizer("a", words="mecab")
    japanese.save(tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()
    assert Tokenizer.from_directory(tmp_path).fingerprint == japanese.fingerprint


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_word_characters": 50}, "always uses 100"),
        ({"subwords": "character", "nfkc": False}, "always applies NFKC"),
    ],
)
def test_where_transformers_will_differ_is_said(tmp_path, rules, message):
    tokenizer = make_tokenizer("a", words="mecab", **rules)
    with pytest.warns(AnaumeWarning, match=message):
        tokenizer.save(tmp_path)
    assert Tokenizer.from_directory(tmp_path).fingerprint == tokenizer.fingerprint
