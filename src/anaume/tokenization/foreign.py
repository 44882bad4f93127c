"""Foreign files -> (rules, vocabulary, notes): Hugging Face directories and tokenizer.json.

A file is read into rules or refused by the name of what the rules can't express; what is ignored on purpose is noted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization.pipeline import MISSED_IDEOGRAPHS
from anaume.tokenization.rules import SPECIAL_FIELDS, TokenizerRules
from anaume.tokenization.vocabulary import first_vocab_difference, read_vocab, vocab_notes

Read = tuple[TokenizerRules, list[str], tuple[str, ...]]

_BERT_CLASSES = ("BertTokenizer", "BertTokenizerFast")
_FAST_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_JAPANESE = "BertJapaneseTokenizer"
_NOTE_CJK = (
    "made for the Rust normaliser, which does not isolate the 256 ideographs U+2B820..U+2B91F; kept as it is "
    "(cjk_ranges='huggingface'), while the original BERT code isolates them"
)


def read_directory(path: str | Path) -> Read:
    """Read a directory: tokenizer.json with tokenizer_config.json, else vocab.txt with it. Raises TokenizerError."""
    folder = Path(path)
    if not folder.is_dir():
        raise TokenizerError(f"a directory with tokenizer files was expected; {folder} is none")
    config_path = folder / "tokenizer_config.json"
    with _well_formed(folder):
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
    return _make(values | {"protected": _protected(config)}, where)


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
    return _make(values | _named_specials(config), where)


def read_tokenizer_json(path: str | Path, specials: Mapping[str, str] | None = None) -> Read:
    """Read a tokenizer.json; `specials` (pad_token=...) names what the file itself does not. Raises TokenizerError."""
    path = Path(path)
    content = _read_json(path)
    with _well_formed(path):
        return _read_content(content, path, specials or {})


def _read_content(content: dict[str, Any], path: Path, specials: Mapping[str, str]) -> Read:
    model = _part(content, "model", path)
    values = _model_rules(model, path) | _normalizer_rules(content.get("normalizer"), path)
    values["cjk_ranges"] = _pre_tokenizer_rule(content.get("pre_tokenizer"), path)
    cls, sep = _layout(content.get("post_processor"), path)
    added = content.get("added_tokens") or []
    named = {"cls_token": cls, "sep_token": sep, "unk_token": model["unk_token"]} | dict(specials)
    special_texts = [token["content"] for token in added if token.get("special")]
    for field in ("pad_token", "mask_token"):
        stem = field.removesuffix("_token")
        guesses = [text for text in special_texts if text.strip("[]<>").lower() == stem]
        named.setdefault(field, guesses[0] if guesses else f"[{stem.upper()}]")
    notes = [
        f"{path.name} has {name} switched on; it is not obeyed: give max_length where you encode"
        for name in ("truncation", "padding")
        if content.get(name) is not None
    ]
    values["protected"] = [token["content"] for token in added if token["content"] not in named.values()]
    for token in added:
        notes += _added_token_notes(token, named, path)
    rules = _make(values | named, path)
    if rules.split_cjk and rules.cjk_ranges == "huggingface":
        notes.append(_NOTE_CJK)
    return rules, _ordered(model["vocab"], added, path), tuple(notes)


_FLAGS = {"do_lower_case": "lower_case", "strip_accents": "strip_accents", "tokenize_chinese_chars": "split_cjk"}


def _model_rules(model: dict[str, Any], path: Path) -> dict[str, Any]:
    kind = model.get("type", "WordPiece" if "max_input_chars_per_word" in model else "no type")
    if kind == "WordPiece":
        if model.get("continuing_subword_prefix", "##") != "##":
            raise TokenizerError(f"{path}: the prefix {model['continuing_subword_prefix']!r} is not BERT's '##'")
        return {"subwords": "wordpiece", "max_word_characters": model.get("max_input_chars_per_word", 100)}
    odd = ("merges", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges")
    if kind == "BPE" and model.get("unk_token") and not any(model.get(key) for key in odd):
        return {"subwords": "character"}
    raise TokenizerError(
        f"{path}: a {kind} model is not BERT's; WordPiece, or BPE without merges (characters), is read"
    )


def _normalizer_rules(normalizer: Any, path: Path) -> dict[str, Any]:
    steps = _steps(normalizer, "normalizers")
    kinds = [step.get("type") for step in steps]
    if kinds not in (["BertNormalizer"], ["NFKC", "BertNormalizer"]):
        raise TokenizerError(
            f"{path}: the normaliser {_names(kinds)} can't be expressed here; BertNormalizer, with or without NFKC "
            "before it, is read"
        )
    bert = steps[-1]
    if not bert.get("clean_text", True):
        raise TokenizerError(f"{path}: clean_text=false (control characters kept) can't be expressed here")
    return {
        "nfkc": len(steps) == 2,
        "lower_case": bert.get("lowercase", True),
        "strip_accents": bert.get("strip_accents"),
        "split_cjk": bert.get("handle_chinese_chars", True),
    }


def _pre_tokenizer_rule(pre_tokenizer: Any, path: Path) -> str:
    steps = _steps(pre_tokenizer, "pretokenizers")
    kinds = [step.get("type") for step in steps]
    if kinds == ["BertPreTokenizer"]:
        return "huggingface"
    if kinds == ["Split", "BertPreTokenizer"] and steps[0].get("pattern") == {"Regex": MISSED_IDEOGRAPHS}:
        return "bert"
    raise TokenizerError(f"{path}: the pre-tokenizer {_names(kinds)} can't be expressed here; BertPreTokenizer is read")


def _layout(post_processor: Any, path: Path) -> tuple[str, str]:
    """Return the start and separator tokens of a post-processor that makes [CLS] A [SEP] B [SEP], segments 0 and 1."""
    kind = post_processor.get("type") if isinstance(post_processor, dict) else None
    if kind == "BertProcessing":
        return post_processor["cls"][0], post_processor["sep"][0]
    if kind == "TemplateProcessing":
        single, pair = (
            [(type_, part["id"], part["type_id"]) for step in post_processor[name] for type_, part in step.items()]
            for name in ("single", "pair")
        )
        if len(single) == 3 and len(pair) == 5:
            cls, sep = str(single[0][1]), str(single[2][1])
            head = [("SpecialToken", cls, 0), ("Sequence", "A", 0), ("SpecialToken", sep, 0)]
            if single == head and pair == [*head, ("Sequence", "B", 1), ("SpecialToken", sep, 1)]:
                return cls, sep
        raise TokenizerError(
            f"{path}: the template of its post-processor is not [CLS] A [SEP] B [SEP] with segments 0 and 1"
        )
    raise TokenizerError(
        f"{path}: the post-processor {kind or 'none'} can't be expressed here; BertProcessing, or a TemplateProcessing "
        "that makes [CLS] A [SEP], is read"
    )


def _added_token_notes(token: dict[str, Any], named: Mapping[Any, str], path: Path) -> list[str]:
    text = token["content"]
    if text in named.values():
        return []
    odd = [flag for flag in ("single_word", "lstrip", "rstrip") if token.get(flag)]
    if odd:
        raise TokenizerError(f"{path}: the added token {text!r} has {', '.join(odd)}, which can't be expressed here")
    if token.get("normalized"):
        return [
            f"the added token {text!r} was matched after normalisation; protected here, it is matched as it is written"
        ]
    return []


def _ordered(ids: Mapping[str, int], added: list[dict[str, Any]], path: Path) -> list[str]:
    by_id: dict[int, str] = {}
    for text, token_id in [*ids.items(), *((token["content"], token["id"]) for token in added)]:
        if by_id.setdefault(token_id, text) != text:
            raise TokenizerError(f"{path}: id {token_id} belongs to both {by_id[token_id]!r} and {text!r}")
    for expected, token_id in enumerate(sorted(by_id)):
        if token_id != expected:
            raise TokenizerError(f"{path}: no entry has id {expected}; ids must run from 0 without gaps")
    return [by_id[token_id] for token_id in range(len(by_id))]


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
    config = _read_json(config_path) if config_path.is_file() else {}
    specials, added = folder / "special_tokens_map.json", folder / "added_tokens.json"
    if specials.is_file():
        config = _read_json(specials) | config
    if added.is_file():
        listed = {str(token_id): {"content": text} for text, token_id in _read_json(added).items()}
        config["added_tokens_decoder"] = listed | (config.get("added_tokens_decoder") or {})
    return config


def _listed_vocab(folder: Path, config: Mapping[str, Any]) -> tuple[list[str], tuple[str, ...]]:
    """Read vocab.txt and put the added tokens with higher ids behind it."""
    path = folder / "vocab.txt"
    vocab = read_vocab(path)
    listed = (config.get("added_tokens_decoder") or {}).items()
    added = [token | {"id": int(token_id)} for token_id, token in listed]
    named = dict(enumerate(TokenizerRules().specials)) | _named_specials(config)
    notes = [note for token in added for note in _added_token_notes(token, named, path)]
    ids = {token: token_id for token_id, token in enumerate(vocab)}
    return _ordered(ids, added, path), (*vocab_notes(vocab), *notes)


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


@contextmanager
def _well_formed(path: Path) -> Iterator[None]:
    """Turn the stumbles over a part of another type than the format says into one clear error."""
    try:
        yield
    except SettingsError as error:
        raise TokenizerError(f"{path}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise TokenizerError(f"{path} is malformed: {type(error).__name__}: {error}") from error


def _make(values: dict[str, Any], where: Path) -> TokenizerRules:
    try:
        return TokenizerRules.from_dict(values)
    except SettingsError as error:
        raise TokenizerError(f"{where}: {error}") from error


def _names(kinds: list[Any]) -> str:
    return " + ".join(map(str, kinds)) or "none"


def _steps(part: Any, key: str) -> list[dict[str, Any]]:
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    return [step for inner in part.get(key, []) for step in _steps(inner, key)]


def _part(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    part = content.get(name)
    if not isinstance(part, dict) or not isinstance(part.get("vocab"), (dict, list)):
        raise TokenizerError(f"{path} has no {name} with a vocabulary; is it a tokenizer.json?")
    return part


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise TokenizerError(f"no file {path}") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise TokenizerError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path} must hold a JSON object; it holds a {type(content).__name__}")
    return content
