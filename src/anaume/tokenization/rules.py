"""The rules of a tokenizer: everything besides the ordered vocabulary that decides which ids a text gets."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from anaume.errors import SettingsError, nearest

Words = Literal["bert", "mecab"]
Subwords = Literal["wordpiece", "character"]
CjkRanges = Literal["bert", "huggingface"]

_CHOICES = {
    "words": ("bert", "mecab"),
    "subwords": ("wordpiece", "character"),
    "cjk_ranges": ("bert", "huggingface"),
}
_SWITCHES = ("lower_case", "strip_accents", "split_cjk", "nfkc")
SPECIAL_FIELDS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


@dataclass(frozen=True, kw_only=True)
class TokenizerRules:
    """How text becomes pieces; frozen and checked when made.

    words: "bert" cuts at blanks, punctuation and (split_cjk) ideographs, as the original BERT code does; "mecab"
        cuts Japanese into the words of MeCab with unidic-lite, as the public Japanese BERTs do.
    subwords: "wordpiece", greedy longest match with "##" (Wu et al. 2016; Devlin et al. 2019, section 3), or
        "character", one piece a character.
    lower_case: None becomes True for "bert", False for "mecab". Per character: no Turkish i, no final sigma.
    strip_accents: drop non-spacing marks after NFD; None becomes lower_case ("bert") or False ("mecab"). It also
        drops the voicing marks of kana: バ becomes ハ.
    split_cjk: every ideograph is a word of its own ("bert" only).
    nfkc: NFKC before everything else; None becomes False for "bert", True for "mecab".
    max_word_characters: a longer word becomes one [UNK] (wordpiece only).
    protected: strings matched anywhere in the text, before every other rule; case kept; each must be in the vocabulary.
    cjk_ranges: "bert" isolates every ideograph of the original code; "huggingface" misses U+2B820..U+2B91F, as
        the Rust normaliser does.

    What has no effect under the other rules is set to its default, so that equal behaviour has one fingerprint.
    Raises SettingsError.
    """

    words: Words = "bert"
    subwords: Subwords = "wordpiece"
    lower_case: bool | None = None
    strip_accents: bool | None = None
    split_cjk: bool = True
    nfkc: bool | None = None
    max_word_characters: int = 100
    protected: tuple[str, ...] = ()
    cjk_ranges: CjkRanges = "bert"
    pad_token: str = "[PAD]"
    unk_token: str = "[UNK]"
    cls_token: str = "[CLS]"
    sep_token: str = "[SEP]"
    mask_token: str = "[MASK]"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise SettingsError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
        mecab = self.words == "mecab"
        self._resolve("lower_case", not mecab)
        self._resolve("strip_accents", self.lower_case and not mecab)
        self._resolve("nfkc", mecab)
        for name in _SWITCHES:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise SettingsError(f"{name} must be true or false; got {value!r}")
        if mecab and self.strip_accents:
            raise SettingsError(
                "strip_accents=True can't be used with words='mecab': it would turn バ into ハ after the words are cut"
            )
        if type(self.max_word_characters) is not int or self.max_word_characters < 1:
            raise SettingsError(f"max_word_characters must be a whole number from 1; got {self.max_word_characters!r}")
        if self.max_word_characters > sys.maxsize:
            raise SettingsError(f"max_word_characters must be at most {sys.maxsize}; got {self.max_word_characters}")
        self._check_specials()
        self._check_protected()
        if mecab:
            object.__setattr__(self, "split_cjk", True)
        if mecab or not self.split_cjk:
            object.__setattr__(self, "cjk_ranges", "bert")
        if self.subwords == "character":
            object.__setattr__(self, "max_word_characters", 100)

    def _resolve(self, name: str, default: object) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, bool(default))

    def _check_specials(self) -> None:
        for name in SPECIAL_FIELDS:
            value = getattr(self, name)
            if not isinstance(value, str) or not value or "\n" in value:
                raise SettingsError(f"{name} must be a non-empty string on one line; got {value!r}")
        if len(set(self.specials)) != len(SPECIAL_FIELDS):
            raise SettingsError(f"the five special tokens must differ; got {', '.join(self.specials)}")

    def _check_protected(self) -> None:
        listed = isinstance(self.protected, Iterable) and not isinstance(self.protected, str)
        if not listed or not all(isinstance(item, str) for item in self.protected):
            raise SettingsError(f"protected must be a list of strings; got {self.protected!r}")
        protected = tuple(self.protected)
        for item in protected:
            if not item.strip() or "\n" in item:
                raise SettingsError(f"a protected string must be visible and on one line; got {item!r}")
            if item in self.specials:
                raise SettingsError(f"{item!r} is a special token and can't be protected as well")
        if len(set(protected)) != len(protected):
            raise SettingsError(f"protected strings must differ; got {protected!r}")
        object.__setattr__(self, "protected", protected)

    @property
    def specials(self) -> tuple[str, str, str, str, str]:
        """The five special tokens: padding, unknown, start, separator, mask."""
        return (self.pad_token, self.unk_token, self.cls_token, self.sep_token, self.mask_token)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` of it equals self."""
        return asdict(self) | {"protected": list(self.protected)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TokenizerRules:
        """Make rules from plain values; an unknown key is refused with the nearest known name. Raises SettingsError."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise SettingsError(f"unknown tokenizer rule {key!r}{nearest(key, known)}; known: {', '.join(known)}")
        return cls(**values)
