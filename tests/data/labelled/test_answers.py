"""Files of answers: what the official evaluation of SQuAD reads, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from anaume.data.labelled.answers import read_answers
from anaume.errors import DataError


def test_answers_are_read_with_bom_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{\r\n "q1": "1702",\r\n "q2": ""}\r\n')
    assert read_answers(tmp_path / "a.json") == {"q1": "1702", "q2": ""}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ('{"q1": "a"}\n{"q2": "b"}\n', "not JSON: Extra data"),
        ('["a"]', "expected one object"),
        ('{"q1": ["a", "b"]}', "the answer to 'q1' must be a text, \"\" where there is none; came list"),
        ('{"q1": null}', "came null"),
        ('{"q1": "a", "q1": "b"}', "q1"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError) as caught:
        read_answers(tmp_path / "a.json")
    assert "a.json: " in str(caught.value)
    assert said in str(caught.value)
