"""Voiced kana are counted, in one character or two."""

import pytest

from anaume.tokenization.kana import count_voiced


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("bus", 0), ("ハス", 0), ("バス", 1), ("ぱぴぷ", 3), ("ヴ", 1), ("は\u3099", 1), ("ｻﾊﾞ", 0), ("がガ", 2)],
)
def test_count_voiced(text, count):
    assert count_voiced(text) == count
