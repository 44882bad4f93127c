"""Words a user gives -> entries a vocabulary can take, and what became of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anaume.tokenization.counting import WordCounter
from anaume.tokenization.rules import TokenizerRules
from anaume.tokenization.tokenizer import Tokenizer

_SHOWN, _LONG = 5, 40  # examples in a message, and characters of one


@dataclass(frozen=True, kw_only=True)
class GivenWords:
    """A list of words, sorted: each is in `tokens` or counted elsewhere."""

    tokens: tuple[str, ...]
    """Those to add, as the rules normalise them, in order."""
    already: int
    """How many were entries before."""
    repeated: int
    """How many came before in the list, perhaps spelt otherwise."""
    blank: int
    """How many are blank."""
    refused: tuple[tuple[int, str, str], ...]
    """(number from 1, word, why) of each that can't be an entry."""

    def refusals(self) -> str:
        """Return the first refused words with the reasons, by number."""
        shown = ", ".join(f"{number} {word[:_LONG]!r} ({why})" for number, word, why in self.refused[:_SHOWN])
        return shown + (", ..." if len(self.refused) > _SHOWN else "")


def sort_given(words: Sequence[str], tokenizer: Tokenizer, counter: WordCounter, seen: Mapping[str, int]) -> GivenWords:
    """Sort a user's words; `seen` are the words of the texts, which tell what MeCab keeps whole within a sentence."""
    tokens: dict[str, None] = {}
    refused: list[tuple[int, str, str]] = []
    already = repeated = blank = 0
    for number, word in enumerate(words, start=1):
        text = word.strip()
        token, why = _one_word(text, tokenizer.rules, counter, seen)
        why = why or unfit(token, tokenizer.rules)
        if not text:
            blank += 1
        elif any(tokenizer.token_to_id(form) is not None for form in (text, token) if form):
            already += 1
        elif why:
            refused.append((number, text, why))
        elif token in tokens:
            repeated += 1
        else:
            tokens[token] = None
    return GivenWords(tokens=tuple(tokens), already=already, repeated=repeated, blank=blank, refused=tuple(refused))


def unfit(token: str, rules: TokenizerRules) -> str:
    """Return why a word, as the rules give it, can't be an entry; "" when it can."""
    if rules.subwords == "character":
        if len(token) > 1:
            return "the pieces are characters, and it has more than one"
    elif len(token) > rules.max_word_characters:
        return f"it has {len(token)} characters; words over {rules.max_word_characters} are always {rules.unk_token}"
    elif token.startswith("##"):
        return "'##' would make it the end of a word"
    if not token.isprintable() or "\ufffd" in token:
        return "it holds characters that can't be shown"
    return ""


def _one_word(text: str, rules: TokenizerRules, counter: WordCounter, seen: Mapping[str, int]) -> tuple[str, str]:
    """Return (the word that the rules make of a text, "") or ("", why they make none)."""
    inside = [string for string in rules.protected if string in text]
    if inside:
        return "", f"it holds the protected string {inside[0]!r}"
    words = counter.words(text)
    joined = "".join(words)
    if len(words) == 1 or (joined in seen and len(text.split()) == 1):
        return joined, ""
    if not words:
        return "", "the rules leave nothing of it"
    return "", f"the rules make {len(words)} words of it: {' '.join(words[:_SHOWN])}"
