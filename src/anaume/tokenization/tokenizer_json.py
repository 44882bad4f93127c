"""tokenizer.json -> (rules, vocabulary, notes); what the rules can't express is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anaume.errors import SettingsError, TokenizerError
from anaume.tokenization.pipeline import MISSED_IDEOGRAPHS
from anaume.tokenization.rules import TokenizerRules

Read = tuple[TokenizerRules, list[str], tuple[str, ...]]

_NOTE_CJK = (
    "made for the Rust normaliser, which does not isolate the 256 ideographs U+2B820..U+2B91F; kept as it is "
    "(cjk_ranges='huggingface'), while the original BERT code isolates them"
)

_ISOLATE_MISSED = {
    "type": "Split",
    "pattern": {"Regex": MISSED_IDEOGRAPHS},
    "behavior": "Isolated",
    "invert": False,
}


def read_tokenizer_json(path: str | Path, specials: Mapping[str, str] | None = None) -> Read:
    """Read a tokenizer.json; `specials` (pad_token=...) names what the file itself does not. Raises TokenizerError."""
    path = Path(path)
    content = read_json(path)
    with well_formed(path):
        return _read_content(content, path, specials or {})


def _read_content(content: dict[str, Any], path: Path, specials: Mapping[str, str]) -> Read:
    model = _part(content, "model", path)
    values = _model_rules(model, path) | _normalizer_rules(content.get("normalizer"), path)
    values["cjk_ranges"] = _pre_tokenizer_rule(content.get("pre_tokenizer"), path)
    added = content.get("added_tokens") or []
    vocab = ordered_vocab(model["vocab"], added, path)
    (cls, cls_id), (sep, sep_id) = _layout(content.get("post_processor"), path)
    for token, token_id in ((cls, cls_id), (sep, sep_id)):
        if token not in vocab or vocab.index(token) != token_id:
            raise TokenizerError(
                f"{path}: the post-processor gives {token!r} the id {token_id}, the vocabulary does not"
            )
    named = {"cls_token": cls, "sep_token": sep, "unk_token": model["unk_token"]}
    for field, token in named.items():
        if specials.get(field, token) != token:
            raise TokenizerError(f"{path} has {token!r} for {field}, the files beside it {specials[field]!r}")
    named |= specials
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
        notes += added_token_notes(token, named, path)
    rules = make_rules(values | named, path)
    if rules.split_cjk and rules.cjk_ranges == "huggingface":
        notes.append(_NOTE_CJK)
    return rules, vocab, tuple(notes)


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
    if kinds == ["Split", "BertPreTokenizer"] and steps[0] == _ISOLATE_MISSED:
        return "bert"
    raise TokenizerError(f"{path}: the pre-tokenizer {_names(kinds)} can't be expressed here; BertPreTokenizer is read")


def _layout(post_processor: Any, path: Path) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return start and separator (token, id) of a post-processor that makes [CLS] A [SEP] B [SEP], segments 0, 1."""
    kind = post_processor.get("type") if isinstance(post_processor, dict) else None
    if kind == "BertProcessing":
        return tuple(post_processor["cls"]), tuple(post_processor["sep"])
    if kind == "TemplateProcessing":
        single, pair = (
            [(type_, part["id"], part["type_id"]) for step in post_processor[name] for type_, part in step.items()]
            for name in ("single", "pair")
        )
        if len(single) == 3 and len(pair) == 5:
            cls, sep = str(single[0][1]), str(single[2][1])
            head = [("SpecialToken", cls, 0), ("Sequence", "A", 0), ("SpecialToken", sep, 0)]
            if single == head and pair == [*head, ("Sequence", "B", 1), ("SpecialToken", sep, 1)]:
                ids = {token: part["ids"] for token, part in post_processor["special_tokens"].items()}
                return (cls, ids[cls][0]), (sep, ids[sep][0])
        raise TokenizerError(
            f"{path}: the template of its post-processor is not [CLS] A [SEP] B [SEP] with segments 0 and 1"
        )
    raise TokenizerError(
        f"{path}: the post-processor {kind or 'none'} can't be expressed here; BertProcessing, or a TemplateProcessing "
        "that makes [CLS] A [SEP], is read"
    )


def added_token_notes(token: dict[str, Any], named: Mapping[Any, str], path: Path) -> list[str]:
    """Return what changes for an added token that becomes a protected string; refuse flags that can't be expressed."""
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


def ordered_vocab(ids: Mapping[str, int], added: list[dict[str, Any]], path: Path) -> list[str]:
    """Return the entries in the order of their ids, added tokens included; gaps and clashes raise TokenizerError."""
    by_id: dict[int, str] = {}
    for text, token_id in [*ids.items(), *((token["content"], token["id"]) for token in added)]:
        if by_id.setdefault(token_id, text) != text:
            raise TokenizerError(f"{path}: id {token_id} belongs to both {by_id[token_id]!r} and {text!r}")
    for expected, token_id in enumerate(sorted(by_id)):
        if token_id != expected:
            raise TokenizerError(f"{path}: no entry has id {expected}; ids must run from 0 without gaps")
    return [by_id[token_id] for token_id in range(len(by_id))]


@contextmanager
def well_formed(path: Path) -> Iterator[None]:
    """Turn the stumbles over a part of another type than the format says into one clear error."""
    try:
        yield
    except TokenizerError:
        raise
    except SettingsError as error:
        raise TokenizerError(f"{path}: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise TokenizerError(f"{path} is malformed: {type(error).__name__}: {error}") from error


def make_rules(values: dict[str, Any], where: Path) -> TokenizerRules:
    """Make rules of what a file says. Raises TokenizerError naming the file."""
    try:
        return TokenizerRules.from_dict(values)
    except SettingsError as error:
        raise TokenizerError(f"{where}: {error}") from error


def _steps(part: Any, key: str) -> list[dict[str, Any]]:
    if not isinstance(part, dict):
        return []
    if part.get("type") != "Sequence":
        return [part]
    return [step for inner in part.get(key, []) for step in _steps(inner, key)]


def _names(kinds: list[Any]) -> str:
    return " + ".join(map(str, kinds)) or "none"


def _part(content: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    part = content.get(name)
    if not isinstance(part, dict) or not isinstance(part.get("vocab"), (dict, list)):
        raise TokenizerError(f"{path} has no {name} with a vocabulary; is it a tokenizer.json?")
    return part


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises TokenizerError naming the file."""
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise TokenizerError(f"no file {path}") from None
    except (OSError, ValueError, RecursionError) as error:  # also a NUL in the name, and numbers of thousands of digits
        raise TokenizerError(f"{path} is not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise TokenizerError(f"{path} must hold a JSON object; it holds a {type(content).__name__}")
    return content
