"""Hugging Face directories -> (rules, vocabulary, notes).

A directory is read into rules or refused by the name of what the rules can't express; what is ignored is noted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from anaume.errors import TokenizerError
from anaume.tokenization.rules import SPECIAL_FIELDS, TokenizerRules
from anaume.tokenization.tokenizer_json import (
    Read,
    added_token_notes,
    make_rules,
    ordered_vocab,
    read_json,
    read_tokenizer_json,
    well_formed,
)
from anaume.tokenization.vocabulary import first_vocab_difference, read_vocab, vocab_notes

_BERT_CLASSES = ("BertTokenizer", "BertTokenizerFast")
_FAST_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_JAPANESE = "BertJapaneseTokenizer"
# Flags of a BertTokenizer, and the rules they are.
_FLAGS = {"do_lower_case": "lower_case", "strip_accents": "strip_accents", "tokenize_chinese_chars": "split_cjk"}


def read_directory(path: str | Path) -> Read:
    """Read a directory: tokenizer.json with tokenizer_config.json, else vocab.txt with it. Raises TokenizerError."""
    folder = Path(path)
    if not os.path.isdir(folder):  # unlike Path.is_dir, False for a name no file system takes
        raise TokenizerError(f"a directory with tokenizer files was expected; {folder} is none")
    config_path = folder / "tokenizer_config.json"
    with well_formed(folder):
        return _read_directory(folder, config_path)


def _read_directory(folder: Path, config_path: Path) -> Read:
    config = _whole_config(folder, config_path)
    kind = config.get("tokenizer_class")
    if kind is not None and kind not in (*_BERT_CLASSES, *_FAST_CLASSES, _JAPANESE):
        raise TokenizerError(
            f"{config_path}: tokenizer class {kind!r} is not a BERT tokenizer; "
            f"{', '.join((*_BERT_CLASSES, _JAPANESE))} are read here"
        )
    has_json, has_vocab = (folder / "tokenizer.json").is_file(), (folder / "vocab.txt").is_file()
    if kind == _JAPANESE:
        if not has_vocab:
            raise TokenizerError(f"{folder}: a {_JAPANESE} needs vocab.txt, and there is none")
        rules = japanese_rules(config, config_path)
        return rules, *_listed_vocab(folder, config)
    if has_json:
        rules, vocab, notes = read_tokenizer_json(folder / "tokenizer.json", _named_specials(config))
        if has_vocab:
            _refuse_two_vocabularies(folder, vocab)
        if kind not in _FAST_CLASSES:
            rules, more = _obey_config(rules, config)
            notes = (*notes, *more)
        return rules, vocab, notes
    if not has_vocab:
        raise TokenizerError(f"{folder} has neither tokenizer.json nor vocab.txt")
    if kind in _FAST_CLASSES:
        raise TokenizerError(f"{config_path} names {kind}, which needs a tokenizer.json, and {folder} has none")
    rules = bert_rules(config, config_path)
    vocab, notes = _listed_vocab(folder, config)
    if not kind:
        notes = (f"no tokenizer class is named in {config_path.name}; read as BertTokenizer", *notes)
    return rules, vocab, notes


def bert_rules(config: Mapping[str, Any], where: Path) -> TokenizerRules:
    """Rules of a BertTokenizer's tokenizer_config.json. Raises TokenizerError."""
    if config.get("do_basic_tokenize", True) is not True:
        raise TokenizerError(f"{where}: do_basic_tokenize=false (text already cut into words) can't be expressed here")
    values: dict[str, Any] = dict(_named_specials(config))
    for key, rule in _FLAGS.items():
        if config.get(key) is not None:
            values[rule] = config[key]
    return make_rules(values | {"protected": _protected(config)}, where)


def japanese_rules(config: Mapping[str, Any], where: Path) -> TokenizerRules:
    """Rules of a BertJapaneseTokenizer's tokenizer_config.json. Raises TokenizerError."""
    words, subwords = config.get("word_tokenizer_type", "basic"), config.get("subword_tokenizer_type", "wordpiece")
    if words != "mecab" or config.get("do_word_tokenize", True) is not True:
        raise TokenizerError(f"{where}: word_tokenizer_type={words!r} can't be expressed here; 'mecab' is read")
    if subwords not in ("wordpiece", "character") or config.get("do_subword_tokenize", True) is not True:
        raise TokenizerError(
            f"{where}: subword_tokenizer_type={subwords!r} can't be expressed here; 'wordpiece' or 'character' is read"
        )
    mecab = dict(config.get("mecab_kwargs") or {})
    dictionary = mecab.pop("mecab_dic", "unidic_lite")
    if dictionary != "unidic_lite":
        raise TokenizerError(
            f"{where}: the MeCab dictionary {dictionary!r} cuts other words than 'unidic_lite', read here"
        )
    nfkc = mecab.pop("normalize_text", True)
    if any(mecab.values()):
        raise TokenizerError(f"{where}: mecab_kwargs {', '.join(sorted(mecab))} can't be expressed here")
    if config.get("never_split"):
        raise TokenizerError(f"{where}: never_split can't be expressed here; use added tokens")
    values = {
        "words": "mecab",
        "subwords": subwords,
        "lower_case": bool(config.get("do_lower_case", False)),
        "nfkc": nfkc,
        "max_word_characters": config.get("max_input_chars_per_word", 100),
        "protected": _protected(config),
    }
    return make_rules(values | _named_specials(config), where)


def _obey_config(rules: TokenizerRules, config: Mapping[str, Any]) -> tuple[TokenizerRules, list[str]]:
    """Follow the flags of a BertTokenizer where they differ from tokenizer.json, as transformers does."""
    notes, changes = [], {}
    for key, rule in _FLAGS.items():
        mine, theirs = getattr(rules, rule), config.get(key)
        if theirs is not None and theirs != mine:
            changes[rule] = theirs
            notes.append(f"tokenizer_config.json says {key}={theirs} and tokenizer.json {mine}; the former is followed")
        elif theirs is None and key != "strip_accents" and not mine:
            notes.append(f"tokenizer.json says {rule}={mine} and is followed; transformers 5 would take {key}=True")
    if "lower_case" in changes and config.get("strip_accents") is None:
        changes["strip_accents"] = changes["lower_case"]
    return replace(rules, **changes), notes


def _refuse_two_vocabularies(folder: Path, vocab: list[str]) -> None:
    listed = read_vocab(folder / "vocab.txt")
    difference = first_vocab_difference(vocab, listed)
    # Added tokens may follow the listed ones.
    if difference and difference[0] < len(listed):
        token_id, mine, theirs = difference
        raise TokenizerError(
            f"{folder}: tokenizer.json and vocab.txt differ, first at id {token_id}: {mine!r} and {theirs!r}; "
            "remove the one that does not belong to the model"
        )


def _whole_config(folder: Path, config_path: Path) -> dict[str, Any]:
    """Return tokenizer_config.json completed by the files older versions wrote beside it."""
    config = read_json(config_path) if config_path.is_file() else {}
    specials, added = folder / "special_tokens_map.json", folder / "added_tokens.json"
    if specials.is_file():
        config = read_json(specials) | config
    if added.is_file():
        listed = {str(token_id): {"content": text} for text, token_id in read_json(added).items()}
        config["added_tokens_decoder"] = listed | (config.get("added_tokens_decoder") or {})
    return config


def _listed_vocab(folder: Path, config: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """Read vocab.txt and put the added tokens with higher ids behind it."""
    path = folder / "vocab.txt"
    vocab = read_vocab(path)
    listed = (config.get("added_tokens_decoder") or {}).items()
    added = [token | {"id": int(token_id)} for token_id, token in listed]
    named = dict(enumerate(TokenizerRules().specials)) | _named_specials(config)
    notes = [note for token in added for note in added_token_notes(token, named, path)]
    ids = {token: token_id for token_id, token in enumerate(vocab)}
    return ordered_vocab(ids, added, path), (*vocab_notes(vocab), *notes)


def _named_specials(config: Mapping[str, Any]) -> dict[str, str]:
    named = {}
    for field in SPECIAL_FIELDS:
        value = config.get(field)
        if value is not None:
            named[field] = value["content"] if isinstance(value, dict) else value
    return named


def _protected(config: Mapping[str, Any]) -> list[str]:
    specials = set(_named_specials(config).values()) | set(TokenizerRules().specials)
    added = (config.get("added_tokens_decoder") or {}).values()
    return [token["content"] for token in added if token["content"] not in specials]
