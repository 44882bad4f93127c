from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anaume.errors import DataError
from anaume.training.records import JOURNAL, METRICS, LineFile, Records, read_journal, read_lines


def test_what_came_after_the_checkpoint_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    file = LineFile(path, 0)
    file.write({"step": 1})
    size = file.size
    file.write({"step": 2})
    file.close()
    with open(path, "ab") as more:
        more.write(b'{"step": 3, "lo')  # a kill in the middle of a row
    assert [row["step"] for row in read_lines(path)] == [1, 2]
    file = LineFile(path, size)
    assert [row["step"] for row in read_lines(path)] == [1]
    file.write({"step": 2, "again": True})
    file.close()
    assert read_lines(path) == [{"step": 1}, {"step": 2, "again": True}]
    assert file.size == path.stat().st_size


def test_a_file_shorter_than_at_the_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"step": 1}\n', "utf-8")
    with pytest.raises(DataError, match=r"has 12 bytes, and 40 at the checkpoint"):
        LineFile(path, 40)
    assert path.read_text("utf-8") == '{"step": 1}\n'


def test_rows_can_be_read_while_they_are_written(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    with Records(tmp_path, metrics_size=0, journal_size=0, timed=True, reports=[rows.append]) as records:
        records.journal(0, 0.0)
        records.metrics({"step": 1, "loss": 2.5})
        assert read_lines(tmp_path / METRICS) == rows == [{"step": 1, "loss": 2.5}]
        assert read_journal(tmp_path / JOURNAL) == [0.0]
        assert records.sync() == tuple((tmp_path / name).stat().st_size for name in (METRICS, JOURNAL))


def test_a_run_of_steps_has_no_journal_and_other_ranks_have_no_files(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    with Records(tmp_path, metrics_size=0, journal_size=0, timed=False, reports=[rows.append]) as records:
        records.journal(0, 0.0)
    assert not (tmp_path / JOURNAL).exists()
    with Records(None, metrics_size=0, journal_size=0, timed=True, reports=[rows.append]) as records:
        records.journal(0, 0.0)
        records.metrics({"step": 1})
        assert records.sync() == (0, 0)
    assert rows == []


def test_no_row_holds_what_json_can_not(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "rows.jsonl", 0)
    with pytest.raises(ValueError, match="JSON compliant"):
        file.write({"step": 1, "loss": float("nan")})
    file.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"step": 0, "fraction": 0.0}\n{"step": 2, "fraction": 0.5}\n', "line 2: expected step 1"),
        ('{"step": 0, "fraction": 0}\n', "line 1: expected step 0 and its fraction"),
        ('{"step": 0, "fraction": NaN}\n', "line 1: expected step 0 and its fraction"),
        ('{"step": 0, "fraction": -0.5}\n', "line 1: expected step 0 and its fraction"),
        ('{"step": 0, "fraction": 1.0}\n', "line 1: expected step 0 and its fraction"),
        ("[1]\n", r"line 1: expected an object; got \[1\]"),
        ("{nonsense\n", "line 1: not JSON"),
        ("", "holds no step"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(content, "utf-8")
    with pytest.raises(DataError, match=said):
        read_journal(path)
    with pytest.raises(DataError, match="can't be read"):
        read_journal(tmp_path / "none.jsonl")
