"""(rules, vocabulary) -> the Rust pipeline. It is always built here, whatever file the two came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as RustTokenizer

from anaume.tokenization.rules import TokenizerRules
from anaume.tokenization.words import MecabWords

# Extension E starts at U+2B820; the Rust normaliser starts it at U+2B920, so these 256 ideographs stay glued to
# their neighbours. The original BERT code isolates them.
MISSED_IDEOGRAPHS = "[\U0002b820-\U0002b91f]"


def build_pipeline(rules: TokenizerRules, vocab: Sequence[str]) -> RustTokenizer:
    """Return the `tokenizers` pipeline of rules and an ordered vocabulary (both checked before)."""
    ids = {token: token_id for token_id, token in enumerate(vocab)}
    pipeline = RustTokenizer(_model(rules, ids))
    pipeline.normalizer = build_normalizer(rules)
    pipeline.pre_tokenizer = build_pre_tokenizer(rules)
    cls, sep = rules.cls_token, rules.sep_token
    pipeline.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, ids[cls]), (sep, ids[sep])],
    )
    pipeline.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    pipeline.add_special_tokens(list(rules.specials))
    pipeline.add_tokens([AddedToken(text, special=False, normalized=False) for text in rules.protected])
    # A literal "[SEP]" in user text is text. The library does not save this switch: it is set here, once.
    pipeline.encode_special_tokens = True
    return pipeline


def build_normalizer(rules: TokenizerRules) -> Any:
    """Return the Rust normaliser of the rules."""
    if rules.words == "mecab":
        # MeCab reads C strings: a NUL would end its input there.
        steps = [normalizers.Replace("\0", "")]
        return normalizers.Sequence([*steps, normalizers.NFKC()] if rules.nfkc else steps)
    bert = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.split_cjk,
        strip_accents=rules.strip_accents,
        lowercase=bool(rules.lower_case),
    )
    return normalizers.Sequence([normalizers.NFKC(), bert]) if rules.nfkc else bert


def build_pre_tokenizer(rules: TokenizerRules) -> Any:
    """Return the Rust pre-tokenizer of the rules; for MeCab a Python one, which can't be saved. Raises MissingExtra."""
    if rules.words == "mecab":
        words = MecabWords(lower_case=bool(rules.lower_case), keep_blanks=rules.subwords == "character")
        return pre_tokenizers.PreTokenizer.custom(words)
    bert = pre_tokenizers.BertPreTokenizer()
    if rules.split_cjk and rules.cjk_ranges == "bert":
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(MISSED_IDEOGRAPHS), "isolated"), bert])
    return bert


def _model(rules: TokenizerRules, ids: dict[str, int]) -> Any:
    if rules.subwords == "character":
        # Byte-pair encoding without merges gives one piece a character and keeps the word numbers.
        return models.BPE(ids, [], unk_token=rules.unk_token)
    return models.WordPiece(
        ids,
        unk_token=rules.unk_token,
        continuing_subword_prefix="##",
        max_input_chars_per_word=rules.max_word_characters,
    )
