import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data.corpus.sentences import (
    LONGEST_SENTENCE,
    cut_sentences,
    guess_language,
    language_code,
    split_sentences,
)
from anaume.errors import SettingsError

# Letters, ends, quotes, blanks and line ends in both languages: what sentence rules look at.
CHARACTERS = "aBé 。．！？.!?「」『』（）()\"'”、,\n\t\u3000はとがって漢字カナ12\u0301\U0001f600\u2028"


def split(text: str, language: str | None = None) -> list[str]:
    return split_sentences(text, language)[0]


def characters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # sentencex cuts after the quote; the quotation and its verb are one sentence.
        ("彼は「行く。」と言った。そして帰った。", ["彼は「行く。」と言った。", "そして帰った。"]),
        ("「え？」と彼女は驚いた。次。", ["「え？」と彼女は驚いた。", "次。"]),
        ("彼は「行く。だめだ。」と言った。", ["彼は「行く。だめだ。」と言った。"]),
        ("「嘘だ。」って言うの？うん。", ["「嘘だ。」って言うの？", "うん。"]),
        ("「無理だ。」は彼の口癖だ。", ["「無理だ。」は彼の口癖だ。"]),
        # The closing mark stays with what it closes, and what does not go on is a sentence of its own.
        ("『そうだ。』そう答えた。", ["『そうだ。』", "そう答えた。"]),
        ("「行く！」「待て！」と叫んだ。", ["「行く！」", "「待て！」と叫んだ。"]),
        ("「行こう。」とうとう彼は言った。", ["「行こう。」", "とうとう彼は言った。"]),
        ("「だめ。」ところが彼は来た。", ["「だめ。」", "ところが彼は来た。"]),
        # A line end parts even so.
        ("「行く。」\n\nと言った。", ["「行く。」", "と言った。"]),
        ('"Go!" he said. Then he left.', ['"Go!" he said.', "Then he left."]),
        ("Dr. Smith came. He sat.", ["Dr. Smith came.", "He sat."]),
        ("One paragraph\n\nAnother paragraph", ["One paragraph", "Another paragraph"]),
        ("no end at all", ["no end at all"]),
        ("", []),
        (" \n\u3000\n", []),
    ],
)
def test_sentences(text, expected):
    assert split(text) == expected


@settings(max_examples=200, deadline=None)
@given(st.text(CHARACTERS, max_size=400), st.integers(1, 12))
def test_no_character_is_lost_and_none_is_made(piece, times):
    text = piece * times
    sentences = split(text)
    assert characters("".join(sentences)) == characters(text)
    assert all(sentence == sentence.strip() and sentence for sentence in sentences)


@settings(max_examples=200, deadline=None)
@given(st.text("あ。」』）と言った「 ", min_size=1, max_size=200))
def test_only_a_paragraph_starts_with_a_closing_mark(text):
    assert all(sentence[0] not in "」』）" for sentence in split(text, "ja")[1:])


def test_a_text_without_ends_is_cut_losslessly_at_blanks():
    text = " ".join(f"word{number}" for number in range(2_000))
    sentences, cuts = split_sentences(text)
    assert " ".join(sentences) == text
    assert cuts == len(sentences) - 1 > 5
    assert max(map(len, sentences)) <= LONGEST_SENTENCE
    assert min(map(len, sentences[:-1])) > LONGEST_SENTENCE // 2


@pytest.mark.parametrize("unit", ["a", "漢", "\U0001f600", "「", "。", "」", "(", '"'])
def test_one_character_over_and_over_is_cut_into_blocks(unit):
    text = unit * 20_000
    sentences = split(text)
    assert "".join(sentences) == text
    # One joined mark may follow a full sentence.
    assert max(map(len, sentences)) <= 2 * LONGEST_SENTENCE + 2


@pytest.mark.parametrize("quote", ['"', "「", "("])
def test_a_quote_never_closed_does_not_hide_the_sentences_after_it(quote):
    text = quote + "He came and saw it all. " * 2_000
    assert len(split(text)) > 200


def test_the_time_grows_with_the_length_only():
    def seconds(size: int) -> float:
        text = ("He came, " + 'and said "no. ' + "Then? " * 3) * (size // 40)
        started = time.process_time()
        split(text)
        return time.process_time() - started

    seconds(10_000)
    assert seconds(800_000) < 40 * max(seconds(80_000), 0.01)  # ten times the text; a square would be a hundred


def test_windows_do_not_cut_sentences():
    sentence = "This is the sentence number one of many, and it is not short. "
    assert set(split(sentence * 500)) == {sentence.strip()}


def test_a_language_can_be_named():
    assert split("これは「テスト。」です。次。", "ja")[-1] == "次。"
    assert split("Das ist z. B. gut. Ja.", "de") == ["Das ist z. B. gut.", "Ja."]


@pytest.mark.parametrize(
    ("text", "language"),
    [("plain", "en"), ("Émile was here", "en"), ("これは", "ja"), ("東京 in English mixed", "ja"), ("", "en")],
)
def test_the_language_is_guessed_from_its_characters(text, language):
    assert guess_language(text) == language


def test_given_sentences_stay_as_they_are_but_for_blanks_and_length():
    long = "x" * (2 * LONGEST_SENTENCE + 5)
    kept, cuts = cut_sentences((" Two. Sentences. ", "\u3000", long))
    assert kept[0] == "Two. Sentences."
    assert "".join(kept[1:]) == long
    assert cuts == 2


@pytest.mark.parametrize(
    ("given", "code"), [("ja", "ja"), ("JA", "ja"), ("ja-JP", "ja"), ("en_US", "en"), (None, None)]
)
def test_a_language_is_a_code(given: str | None, code: str | None) -> None:
    assert language_code(given) == code


@pytest.mark.parametrize(
    ("given", "hint"),
    [("japanese", "did you mean 'ja'?"), ("jp", "did you mean 'ja'?"), ("klingon", "expected a code"), ("", "came ''")],
)
def test_what_is_no_code_is_refused(given: str, hint: str) -> None:
    # sentencex would split it by its general rules without a word.
    with pytest.raises(SettingsError) as raised:
        language_code(given)
    assert hint in str(raised.value)
