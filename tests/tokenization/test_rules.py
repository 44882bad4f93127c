"""Rules: resolved and checked when made, plain values out and in."""

import json
from dataclasses import FrozenInstanceError, replace

import pytest

from anaume.errors import SettingsError
from anaume.tokenization import TokenizerRules


def test_defaults_are_berts_and_nothing_stays_open():
    rules = TokenizerRules()
    assert (rules.lower_case, rules.strip_accents, rules.nfkc, rules.split_cjk) == (True, True, False, True)
    japanese = TokenizerRules(words="mecab")
    assert (japanese.lower_case, japanese.strip_accents, japanese.nfkc) == (False, False, True)


@pytest.mark.parametrize("lower_case", [True, False])
def test_strip_accents_follows_lower_case(lower_case):
    assert TokenizerRules(lower_case=lower_case).strip_accents is lower_case
    assert TokenizerRules(lower_case=lower_case, strip_accents=not lower_case).strip_accents is not lower_case


@pytest.mark.parametrize(
    "rules",
    [
        TokenizerRules(),
        TokenizerRules(lower_case=False, protected=("C++", "[x]"), max_word_characters=7, nfkc=True),
        TokenizerRules(words="mecab", subwords="character"),
        TokenizerRules(unk_token="<unk>", mask_token="<mask>", cjk_ranges="huggingface"),
    ],
)
def test_round_trip_through_json(rules):
    assert TokenizerRules.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules


def test_rules_that_behave_alike_are_equal():
    assert TokenizerRules(split_cjk=False, cjk_ranges="huggingface") == TokenizerRules(split_cjk=False)
    assert TokenizerRules(words="mecab", split_cjk=False) == TokenizerRules(words="mecab")
    assert TokenizerRules(subwords="character", max_word_characters=5) == TokenizerRules(subwords="character")


def test_frozen_and_keyword_only():
    with pytest.raises(FrozenInstanceError):
        TokenizerRules().lower_case = False
    with pytest.raises(TypeError):
        TokenizerRules("mecab")
    assert replace(TokenizerRules(), lower_case=False).strip_accents  # already resolved, so it stays


def test_an_unknown_key_is_refused_with_the_nearest_name():
    with pytest.raises(SettingsError, match=r"'lowercase'.*did you mean 'lower_case'"):
        TokenizerRules.from_dict({"lowercase": True})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"words": "sudachi"}, "words must be one of 'bert', 'mecab'; got 'sudachi'"),
        ({"subwords": "bpe"}, "subwords must be one of"),
        ({"cjk_ranges": "all"}, "cjk_ranges must be one of"),
        ({"lower_case": "yes"}, "lower_case must be true or false; got 'yes'"),
        ({"nfkc": 1}, "nfkc must be true or false"),
        ({"max_word_characters": 0}, "from 1; got 0"),
        ({"max_word_characters": True}, "from 1; got True"),
        ({"max_word_characters": 10**30}, "max_word_characters must be at most"),
        ({"protected": 3}, "protected must be a list of strings; got 3"),
        ({"mask_token": ""}, "mask_token must be a non-empty string"),
        ({"mask_token": "[PAD]"}, "the five special tokens must differ"),
        ({"protected": "C++"}, "protected must be a list of strings"),
        ({"protected": ["C++", "C++"]}, "protected strings must differ"),
        ({"protected": [" "]}, "visible"),
        ({"protected": ["[SEP]"]}, "is a special token"),
        ({"words": "mecab", "strip_accents": True}, "strip_accents=True can't be used with words='mecab'"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(SettingsError) as error:
        TokenizerRules.from_dict(values)
    assert message in str(error.value)
