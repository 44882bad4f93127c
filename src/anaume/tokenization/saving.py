"""Rules and vocabulary -> files that transformers and sentence-transformers open with the same ids."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as RustTokenizer

from anaume.errors import AnaumeWarning, SettingsError
from anaume.tokenization.rules import SPECIAL_FIELDS, TokenizerRules
from anaume.tokenization.vocabulary import write_vocab


def write_directory(
    directory: str | Path,
    rules: TokenizerRules,
    vocab: Sequence[str],
    pipeline: RustTokenizer,
    *,
    max_length: int | None,
) -> list[str]:
    """Write the files into a directory (made when missing) and return their names. Raises SettingsError."""
    if max_length is not None and (type(max_length) is not int or max_length < 2):
        raise SettingsError(f"max_length must be a whole number from 2; got {max_length!r}")
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["vocab.txt", "tokenizer_config.json", "special_tokens_map.json"]
    write_vocab(vocab, folder / names[0])
    _write_json(folder / names[1], tokenizer_config(rules, vocab, max_length))
    _write_json(folder / names[2], {name: getattr(rules, name) for name in SPECIAL_FIELDS})
    if rules.words != "mecab":
        names.append("tokenizer.json")
        (folder / names[-1]).write_text(pipeline.to_str(pretty=True), encoding="utf-8")
    else:
        _warn_where_transformers_differs(rules)
        # A file left from another tokenizer would be read before vocab.txt.
        (folder / "tokenizer.json").unlink(missing_ok=True)
    return names


def tokenizer_config(rules: TokenizerRules, vocab: Sequence[str], max_length: int | None) -> dict[str, Any]:
    """Return the content of tokenizer_config.json."""
    config: dict[str, Any] = {"tokenizer_class": tokenizer_class(rules)}
    config |= {name: getattr(rules, name) for name in SPECIAL_FIELDS}
    config["do_lower_case"] = rules.lower_case
    if rules.words == "mecab":
        config["word_tokenizer_type"] = "mecab"
        config["subword_tokenizer_type"] = rules.subwords
        config["mecab_kwargs"] = {"mecab_dic": "unidic_lite", "normalize_text": rules.nfkc}
        if rules.max_word_characters != 100:
            config["max_input_chars_per_word"] = rules.max_word_characters
    else:
        config["strip_accents"] = rules.strip_accents
        config["tokenize_chinese_chars"] = rules.split_cjk
    # PreTrainedTokenizerFast and BertJapaneseTokenizer would leave the segment ids out.
    config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    added = [(token, True) for token in rules.specials] + [(token, False) for token in rules.protected]
    config["added_tokens_decoder"] = {
        str(vocab.index(token)): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": special,
        }
        for token, special in added
    }
    if max_length is not None:
        config["model_max_length"] = max_length
    return config


def tokenizer_class(rules: TokenizerRules) -> str:
    """Return the class transformers must open the files with to give the same ids.

    In transformers 5 BertTokenizer rebuilds its pipeline from the vocabulary and four flags and ignores
    tokenizer.json, so it is named only when those flags say everything.
    """
    if rules.words == "mecab":
        return "BertJapaneseTokenizer"
    plain = (
        rules.subwords == "wordpiece"
        and not rules.nfkc
        and not rules.protected
        and rules.max_word_characters == 100
        and (not rules.split_cjk or rules.cjk_ranges == "huggingface")
    )
    return "BertTokenizer" if plain else "PreTrainedTokenizerFast"


def _warn_where_transformers_differs(rules: TokenizerRules) -> None:
    if rules.subwords == "wordpiece" and rules.max_word_characters != 100:
        warnings.warn(
            f"max_word_characters={rules.max_word_characters} is saved, but transformers' BertJapaneseTokenizer always "
            "uses 100: longer words get other ids there",
            AnaumeWarning,
            stacklevel=4,
        )
    if rules.subwords == "character" and not rules.nfkc:
        warnings.warn(
            "nfkc=False is saved, but transformers' BertJapaneseTokenizer always applies NFKC before characters: "
            "full-width and half-width characters get other ids there",
            AnaumeWarning,
            stacklevel=4,
        )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
