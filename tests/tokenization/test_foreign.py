"""Foreign files are read into rules and a vocabulary, or refused by the name of what can't be expressed."""

import contextlib
import copy
import json
from pathlib import Path

import pytest

from anaume.errors import TokenizerError
from anaume.tokenization import Tokenizer, TokenizerRules, write_vocab
from helpers import SPECIALS, make_tokenizer

SPLIT = {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated", "invert": False}
BERT_NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}


@pytest.fixture
def saved(tmp_path):
    """A directory as the ecosystem writes it: BertTokenizer, tokenizer.json, vocab.txt."""
    make_tokenizer("a b ##b A C++", cjk_ranges="huggingface").save(tmp_path)
    return tmp_path


def edit(path: Path, **changes):
    content = json.loads(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        if value is None:
            content.pop(key, None)
        else:
            content[key] = value
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_foreign_file_is_read_into_rules(saved):
    """TOK-04: without the extra split it keeps the gap of the Rust ranges, and a note says so."""
    tokenizer = Tokenizer.from_file(saved / "tokenizer.json")
    assert tokenizer.rules.cjk_ranges == "huggingface"
    assert "U+2B820..U+2B91F" in tokenizer.notes[0]
    assert tokenizer.encode("ab").tokens[1:-1] == ["a", "##b"]


def test_ours_is_read_back_whole(tmp_path):
    rules = {"nfkc": True, "lower_case": False, "strip_accents": True, "max_word_characters": 9, "protected": ["C++"]}
    for subwords in ("wordpiece", "character"):
        tokenizer = make_tokenizer("a C++", subwords=subwords, **rules)
        tokenizer.save(tmp_path)
        for again in (Tokenizer.from_file(tmp_path / "tokenizer.json"), Tokenizer.from_directory(tmp_path)):
            assert again.rules == tokenizer.rules
            assert again.fingerprint == tokenizer.fingerprint


def test_truncation_and_padding_are_noted_never_obeyed(saved):
    edit(
        saved / "tokenizer.json",
        truncation={"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        padding={"strategy": {"Fixed": 128}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
    )
    tokenizer = Tokenizer.from_file(saved / "tokenizer.json")
    assert len(tokenizer.encode("a b a b")) == 6
    for name in ("truncation", "padding"):
        assert sum(f"has {name} switched on; it is not obeyed" in note for note in tokenizer.notes) == 1


def test_added_tokens_become_protected(saved):
    """TOK-13"""
    content = json.loads((saved / "tokenizer.json").read_text(encoding="utf-8"))
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    content["added_tokens"] += [{"id": 9, "content": "C++", **plain}, {"id": 10, "content": "<new>", **plain}]
    (saved / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    tokenizer = Tokenizer.from_directory(saved)
    assert tokenizer.rules.protected == ("C++", "<new>")
    assert tokenizer.vocab[-1] == "<new>"
    assert tokenizer.encode("aC++<new>").token_ids == [2, 5, 9, 10, 3]
    assert not any("added token" in note for note in tokenizer.notes)  # exactly what it was
    content["added_tokens"][-1]["normalized"] = True
    (saved / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    assert "added token '<new>' was matched after normalisation" in " ".join(Tokenizer.from_directory(saved).notes)
    content["added_tokens"][-1]["lstrip"] = True
    (saved / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"added token '<new>' has lstrip"):
        Tokenizer.from_directory(saved)


def template(pair):
    names = {"[CLS]": 2, "[SEP]": 3}
    parts = [
        {"SpecialToken": {"id": name, "type_id": kind}}
        if name in names
        else {"Sequence": {"id": name, "type_id": kind}}
        for name, kind in pair
    ]
    special = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in names.items()}
    return {"type": "TemplateProcessing", "single": parts[:3], "pair": parts, "special_tokens": special}


GOOD_PAIR = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]


@pytest.mark.parametrize(
    "post_processor",
    [{"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, template(GOOD_PAIR)],
)
def test_post_processors_that_say_the_same(saved, post_processor):
    edit(saved / "tokenizer.json", post_processor=post_processor)
    assert Tokenizer.from_file(saved / "tokenizer.json").encode("a", "b").segment_ids == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, "a Unigram model is not BERT's"),
        ({"model": {"type": "BPE", "unk_token": "[UNK]", "vocab": {"a": 0}, "merges": ["a b"]}}, "a BPE model"),
        ({"model": {"type": "WordPiece", "continuing_subword_prefix": "@@", "vocab": {}}}, "the prefix '@@'"),
        ({"model": None}, "has no model with a vocabulary"),
        ({"normalizer": {"type": "NFC"}}, "the normaliser NFC can't be expressed"),
        ({"normalizer": None}, "the normaliser none can't be expressed"),
        ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend"}, BERT_NORMALIZER]}}, "Prepend + Bert"),
        ({"normalizer": BERT_NORMALIZER | {"clean_text": False}}, "clean_text=false"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "the pre-tokenizer Whitespace can't be expressed"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, {"type": "BertPreTokenizer"}]}},
            "Split + Bert",
        ),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "the pre-tokenizer ByteLevel can't be expressed"),
        ({"post_processor": None}, "the post-processor none can't be expressed"),
        ({"post_processor": {"type": "RobertaProcessing"}}, "the post-processor RobertaProcessing can't be expressed"),
        ({"post_processor": template([*GOOD_PAIR[:4], ("[SEP]", 0)])}, "is not [CLS] A [SEP] B [SEP]"),
        ({"post_processor": template([("[CLS]", 1), *GOOD_PAIR[1:]])}, "is not [CLS] A [SEP] B [SEP]"),
    ],
)
def test_what_the_rules_cant_express_is_refused_by_name(saved, changes, message):
    edit(saved / "tokenizer.json", **changes)
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_file(saved / "tokenizer.json")
    assert message in str(error.value)
    assert "tokenizer.json" in str(error.value)


def test_ids_with_gaps_or_twice_are_refused(saved):
    """VOC-03: the embedding table would be too small."""
    path = saved / "tokenizer.json"
    model = json.loads(path.read_text(encoding="utf-8"))["model"]
    edit(path, model=model | {"vocab": {token: k + (k > 6) for token, k in model["vocab"].items()}})
    with pytest.raises(TokenizerError, match="no entry has id 7"):
        Tokenizer.from_file(path)
    edit(path, model=model | {"vocab": model["vocab"] | {"x": 5}})
    with pytest.raises(TokenizerError, match="id 5 belongs to both 'a' and 'x'"):
        Tokenizer.from_file(path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b'{"model": 3}', b"[" * 100_000])
def test_files_that_are_no_tokenizer(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_file(path)
    assert str(path) in str(error.value)


def test_missing_files(tmp_path):
    with pytest.raises(TokenizerError, match="no file"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")
    with pytest.raises(TokenizerError, match=r"neither tokenizer\.json nor vocab\.txt"):
        Tokenizer.from_directory(tmp_path)
    with pytest.raises(TokenizerError, match="a directory with tokenizer files was expected"):
        Tokenizer.from_directory(tmp_path / "nothing")


class TestDirectories:
    """vocab.txt and tokenizer_config.json, where there is no tokenizer.json."""

    def write(self, folder, **config):
        write_vocab([*SPECIALS, "a", "A", "é", "e", "漢a", "漢"], folder / "vocab.txt")
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        return folder

    @pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast"])
    def test_flags(self, tmp_path, name):
        folder = self.write(tmp_path, tokenizer_class=name, do_lower_case=False, tokenize_chinese_chars=False)
        tokenizer = Tokenizer.from_directory(folder)
        assert tokenizer.encode("A é 漢a").tokens[1:-1] == ["A", "é", "漢a"]
        assert tokenizer.notes == ()

    def test_no_class_named(self, tmp_path):
        tokenizer = Tokenizer.from_directory(self.write(tmp_path, do_lower_case=True))
        assert tokenizer.rules.lower_case
        assert "no tokenizer class is named" in tokenizer.notes[0]

    def test_special_tokens_written_as_objects(self, tmp_path):
        folder = self.write(tmp_path, tokenizer_class="BertTokenizer", mask_token={"content": "a", "lstrip": True})
        assert Tokenizer.from_directory(folder).mask_id == 5

    def test_special_tokens_map(self, tmp_path):
        folder = self.write(tmp_path, tokenizer_class="BertTokenizer")
        (folder / "special_tokens_map.json").write_text('{"mask_token": "A"}', encoding="utf-8")
        assert Tokenizer.from_directory(folder).mask_id == 6

    @pytest.mark.parametrize(
        "name", ["RobertaTokenizer", "XLMRobertaTokenizerFast", "DebertaV2Tokenizer", "MPNetTokenizer"]
    )
    def test_other_classes_are_refused_by_name(self, tmp_path, name):
        with pytest.raises(TokenizerError, match=f"tokenizer class '{name}' is not a BERT tokenizer"):
            Tokenizer.from_directory(self.write(tmp_path, tokenizer_class=name))

    @pytest.mark.parametrize("subwords", ["wordpiece", "character"])
    def test_japanese(self, tmp_path, subwords):
        folder = self.write(
            tmp_path,
            tokenizer_class="BertJapaneseTokenizer",
            word_tokenizer_type="mecab",
            subword_tokenizer_type=subwords,
            mecab_kwargs={"mecab_dic": "unidic_lite", "mecab_option": None},
        )
        rules = Tokenizer.from_directory(folder).rules
        assert (rules.words, rules.subwords, rules.lower_case, rules.nfkc) == ("mecab", subwords, False, True)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"word_tokenizer_type": "sudachi"}, "word_tokenizer_type='sudachi'"),
            ({"word_tokenizer_type": None}, "word_tokenizer_type=None"),
            ({"subword_tokenizer_type": "sentencepiece"}, "subword_tokenizer_type='sentencepiece'"),
            ({"mecab_kwargs": {"mecab_dic": "ipadic"}}, "the MeCab dictionary 'ipadic'"),
            ({"mecab_kwargs": {"mecab_option": "-d /x"}}, "mecab_kwargs mecab_option"),
            ({"never_split": ["x"]}, "never_split"),
        ],
    )
    def test_other_japanese_tokenizers_are_refused(self, tmp_path, changes, message):
        config = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"} | changes
        with pytest.raises(TokenizerError) as error:
            Tokenizer.from_directory(self.write(tmp_path, **config))
        assert message in str(error.value)

    def test_added_tokens_behind_the_vocabulary(self, tmp_path):
        config = {"tokenizer_class": "BertTokenizer", "added_tokens_decoder": {"11": {"content": "<x>"}}}
        folder = self.write(tmp_path, **config)
        (folder / "added_tokens.json").write_text('{"<y>": 12}', encoding="utf-8")
        tokenizer = Tokenizer.from_directory(folder)
        assert sorted(tokenizer.rules.protected) == ["<x>", "<y>"]
        assert tokenizer.encode("a<x><y>").token_ids == [2, 5, 11, 12, 3]
        (folder / "added_tokens.json").write_text('{"<y>": 14}', encoding="utf-8")
        with pytest.raises(TokenizerError, match="no entry has id 12"):
            Tokenizer.from_directory(folder)
        (folder / "added_tokens.json").write_text('{"<y>": 6}', encoding="utf-8")
        with pytest.raises(TokenizerError, match="id 6 belongs to both 'A' and '<y>'"):
            Tokenizer.from_directory(folder)

    def test_text_already_cut_is_refused(self, tmp_path):
        with pytest.raises(TokenizerError, match="do_basic_tokenize=false"):
            Tokenizer.from_directory(self.write(tmp_path, tokenizer_class="BertTokenizer", do_basic_tokenize=False))

    def test_fast_without_its_file(self, tmp_path):
        with pytest.raises(TokenizerError, match=r"names PreTrainedTokenizerFast, which needs a tokenizer\.json"):
            Tokenizer.from_directory(self.write(tmp_path, tokenizer_class="PreTrainedTokenizerFast"))

    def test_wrong_values_name_the_file(self, tmp_path):
        with pytest.raises(TokenizerError, match=r"tokenizer_config\.json: lower_case must be true or false"):
            Tokenizer.from_directory(self.write(tmp_path, tokenizer_class="BertTokenizer", do_lower_case="no"))


def places(value, path=()):
    """Every place in a JSON value, as a path of keys."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("junk", [None, 3, "x", [], {}, [[]]], ids=repr)
@pytest.mark.parametrize(
    ("rules", "keep_json"), [({}, True), ({"cjk_ranges": "huggingface"}, False), ({"words": "mecab"}, False)], ids=str
)
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
def test_any_part_replaced_by_junk_is_a_tokenizer_error_or_harmless(tmp_path, rules, keep_json, name, junk):
    make_tokenizer("a b C++", protected=["C++"], **rules).save(tmp_path)
    if not keep_json:
        (tmp_path / "tokenizer.json").unlink(missing_ok=True)
        edit(tmp_path / "tokenizer_config.json", tokenizer_class="BertJapaneseTokenizer" if "words" in rules else None)
        if name == "tokenizer.json":
            return
    original = json.loads((tmp_path / name).read_text(encoding="utf-8"))
    for path in places(original):
        content = copy.deepcopy(original)
        if path:
            inner = content
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = junk
        else:
            content = junk
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
        with contextlib.suppress(TokenizerError):
            Tokenizer.from_directory(tmp_path).encode("a b")


def test_names_of_the_special_tokens_in_a_lone_file(tmp_path):
    """VOC-03: <pad> and <mask> are found among the special added tokens."""
    names = {
        "pad_token": "<pad>",
        "mask_token": "<mask>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "unk_token": "<unk>",
    }
    tokenizer = Tokenizer(["<s>", "<pad>", "</s>", "<unk>", "a", "<mask>"], TokenizerRules(**names))
    tokenizer.save(tmp_path)
    assert Tokenizer.from_file(tmp_path / "tokenizer.json").fingerprint == tokenizer.fingerprint


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "tokenizer.json",
            {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 9]}},
            "id 9",
        ),
        ("special_tokens_map.json", {"cls_token": "a"}, "'[CLS]' for cls_token, the files beside it 'a'"),
    ],
)
def test_special_tokens_that_disagree(saved, name, changes, message):
    edit(saved / "tokenizer_config.json", cls_token=None)
    edit(saved / name, **changes)
    with pytest.raises(TokenizerError) as error:
        Tokenizer.from_directory(saved)
    assert message in str(error.value)


class TestFilesThatDisagree:
    def test_two_vocabularies(self, saved):
        vocab = Tokenizer.from_directory(saved).vocab
        write_vocab([*vocab[:6], "z", *vocab[7:]], saved / "vocab.txt")
        with pytest.raises(TokenizerError, match="differ, first at id 6: 'b' and 'z'"):
            Tokenizer.from_directory(saved)

    def test_flags_of_the_config_win_as_in_transformers(self, saved):
        edit(saved / "tokenizer_config.json", do_lower_case=False, strip_accents=None)
        tokenizer = Tokenizer.from_directory(saved)
        assert (tokenizer.rules.lower_case, tokenizer.rules.strip_accents) == (False, False)
        assert any("do_lower_case=False and tokenizer.json True; the former is followed" in n for n in tokenizer.notes)

    def test_a_flag_only_in_the_json_stands_with_a_note(self, tmp_path):
        make_tokenizer("A", cjk_ranges="huggingface", lower_case=False).save(tmp_path)
        edit(tmp_path / "tokenizer_config.json", do_lower_case=None)
        tokenizer = Tokenizer.from_directory(tmp_path)
        assert not tokenizer.rules.lower_case
        assert any("transformers 5 would take do_lower_case=True" in note for note in tokenizer.notes)


@pytest.mark.parametrize("read", [Tokenizer.from_directory, Tokenizer.from_file, Tokenizer.from_vocab])
@pytest.mark.parametrize("name", ["a" * 5_000, "a\0b"])
def test_a_name_no_file_system_takes(read, name):
    with pytest.raises(TokenizerError):
        read(name)
