"""The texts a bundle is checked with when none are given: English, Japanese, and what breaks pipelines."""

from __future__ import annotations

SAMPLE_TEXTS: tuple[str, ...] = (
    "The bank raised its interest rates again.",
    "We sat on the bank of the river and watched the boats.",
    "Run this function later, after a delay of five seconds, unless it has been cancelled before.",
    "plum jam",
    "a",
    "",
    " \t\n",
    "ΑΒΓ naïve café — “quoted” … 1,234.50 €",
    "吾輩は猫である。名前はまだ無い。",
    "バスに乗って銀行へ行きました。",
    "ハスの花が咲いた。",
    "今日は😀 良い天気👩‍👩‍👧‍👦ですね！",
    "Supercalifragilisticexpialidocious" * 4,
    "Literal [SEP] and [MASK] and [CLS] stay text.",
    "one two three four five six seven eight nine ten, " * 10 + "and so on.",
)
