"""What a user should know about a vocabulary under its rules, before it costs a training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from anaume.tokenization.tokenizer import Tokenizer

# A hundred common kanji (taught in the first school years).
COMMON_KANJI = (
    "一二三四五六七八九十百千万円年月日時分半今人男女子母父友大小中上下左右前後東西南北山川田"
    "水火木金土天気空雨花学校先生本文字名書読話語見聞行来食飲買入出立休車電駅道国外間口目耳手"
    "足力会社店新古高安長白黒赤青何毎"
)
_SMALL = 100
_CAPITALS_WORTH_A_WORD = 0.05
_JAPANESE_FROM = 0.2


@dataclass(frozen=True)
class Finding:
    """One short sentence; "warning" means the text will lose something, "info" is a fact to know."""

    severity: Literal["info", "warning"]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """The findings and the facts behind them.

    voicing_kept: バス and ハス get different ids; None when the vocabulary can't spell either.
    unknown_kanji: share of a hundred common kanji that are unknown. capitalised: share of the vocabulary's word starts
    that hold a capital letter.
    """

    findings: tuple[Finding, ...]
    voicing_kept: bool | None
    unknown_kanji: float
    capitalised: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the findings that are warnings."""
        return tuple(finding.sentence for finding in self.findings if finding.severity == "warning")


def check_tokenizer(tokenizer: Tokenizer) -> SelfCheck:
    """Compute the self-check; a few milliseconds."""
    rules = tokenizer.rules
    bus, lotus, *kanji = tokenizer.encode_batch(["バス", "ハス", *COMMON_KANJI])
    spelt = not (bus.unknown and lotus.unknown)
    voicing_kept = bus.token_ids != lotus.token_ids if spelt else None
    unknown_kanji = sum(encoding.unknown > 0 for encoding in kanji) / len(kanji)
    japanese = unknown_kanji < _JAPANESE_FROM
    findings: list[Finding] = []
    if voicing_kept is False:
        findings.append(
            Finding(
                "warning" if japanese else "info",
                "バス and ハス get the same ids: strip_accents drops the voicing marks of kana; "
                "for Japanese set strip_accents=False" + ("" if japanese else " and use a Japanese vocabulary"),
            )
        )
    if unknown_kanji:
        ending = "" if japanese else "; this is not a Japanese vocabulary"
        findings.append(
            Finding(
                "warning" if japanese and unknown_kanji > 0.05 else "info",
                f"{unknown_kanji:.0%} of {len(kanji)} common kanji are unknown{ending}"
                + ("" if rules.words == "mecab" or not rules.split_cjk else " (split_cjk makes each kanji a word)"),
            )
        )
    capitalised, finding = _check_case(tokenizer)
    findings += finding
    return SelfCheck(
        findings=tuple(findings), voicing_kept=voicing_kept, unknown_kanji=unknown_kanji, capitalised=capitalised
    )


def _check_case(tokenizer: Tokenizer) -> tuple[float, list[Finding]]:
    starts = [token for token in tokenizer.vocab if token[:1].isascii() and token.isalpha()]
    capitals = sum(token != token.lower() for token in starts)
    share = capitals / len(starts) if starts else 0.0
    if tokenizer.rules.lower_case and share > _CAPITALS_WORTH_A_WORD and capitals >= 10:
        sentence = (
            f"{capitals} of {len(starts)} Latin word starts hold capitals, which lower_case=True can never produce: "
            "this looks like a cased vocabulary; set lower_case=False"
        )
        return share, [Finding("warning", sentence)]
    if not tokenizer.rules.lower_case and capitals == 0 and len(starts) >= _SMALL:
        sentence = (
            f"none of {len(starts)} Latin word starts holds a capital, so capitalised words become unknown: this looks "
            "like an uncased vocabulary; set lower_case=True"
        )
        return share, [Finding("warning", sentence)]
    return share, []
