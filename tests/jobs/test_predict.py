"""Whole files predicted: order, columns, blanks, bounded memory, nothing half-written (TRN-05)."""

from __future__ import annotations

import datetime
import decimal
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.jobs import predict
from anaume.jobs.predict import predict_file
from helpers import PATIENCE
from tiny_labels import texts, write_json, write_table
from tiny_runs import tiny_bundle


@pytest.fixture(scope="module")
def bundle(tuned_dir: Path) -> Bundle:
    return anaume.load(tuned_dir, device="cpu")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_every_row_comes_back_in_order_with_its_columns(
    tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """33 rows with chunks of 8, blank texts among them."""
    monkeypatch.setattr(predict, "CHUNK", 8)
    given = texts(33, longest=14)
    given[3], given[32] = "", "  "
    rows = [(f"id{number}", text, number) for number, text in enumerate(given)]
    source = write_table(tmp_path / "in.tsv", rows, "id", "text", "more")
    summary = predict_file(bundle, source, tmp_path / "out.jsonl")
    found = lines(tmp_path / "out.jsonl")
    assert [(row["id"], row["text"], row["more"]) for row in found] == [(id_, text, str(n)) for id_, text, n in rows]
    assert [row["prediction"]["label"] for row in found] == [one.label for one in bundle.predict(given)]
    for row, one in zip(found, bundle.predict(given), strict=True):
        assert row["prediction"]["probabilities"] == pytest.approx(dict(one.probabilities), abs=1e-5)
    assert (summary.examples, summary.cut, summary.coverage, summary.task) == (33, 0, 1.0, "classification")
    assert summary.messages == ()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "txt"])
def test_any_format_and_labels_that_are_there_are_left_alone(tmp_path: Path, bundle: Bundle, ending: str) -> None:
    path = tmp_path / f"in.{ending}"
    rows = [{"text": text, "label": "no such label"} for text in texts(5)]
    if ending == "csv":
        path.write_bytes(
            b"\xef\xbb\xbftext,label\r\n" + b"".join(f"{r['text']},{r['label']}\r\n".encode() for r in rows)
        )
    elif ending == "jsonl":
        write_json(path, rows)
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{row['text']}\n" for row in rows))
        rows = [{"text": row["text"]} for row in rows]
    predict_file(bundle, path, tmp_path / "out.jsonl")
    assert [
        {key: value for key, value in row.items() if key != "prediction"} for row in lines(tmp_path / "out.jsonl")
    ] == rows


def test_values_json_lacks_are_written_or_refused_with_their_row(tmp_path: Path, bundle: Bundle) -> None:
    when = datetime.date(2024, 5, 6)
    table = {"text": ["a", "dog"], "day": [when, None], "price": [decimal.Decimal("1.50"), decimal.Decimal("2.25")]}
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    predict_file(bundle, tmp_path / "in.parquet", tmp_path / "out.jsonl")
    assert [(row["day"], row["price"]) for row in lines(tmp_path / "out.jsonl")] == [
        ("2024-05-06", "1.50"),
        (None, "2.25"),
    ]
    pq.write_table(pa.table({"text": ["a"], "raw": [b"\x00\xff"]}), tmp_path / "raw.parquet")
    with pytest.raises(DataError, match=r"raw\.parquet: row 1: .*bytes"):
        predict_file(bundle, tmp_path / "raw.parquet", tmp_path / "raw.jsonl")
    assert not (tmp_path / "raw.jsonl").exists()


def test_numbers_are_written_with_six_digits_and_columns_as_they_were(tmp_path: Path, bundle: Bundle) -> None:
    source = write_json(tmp_path / "in.jsonl", [{"text": "dog", "more": 0.12345678901234567}])
    predict_file(bundle, source, tmp_path / "out.jsonl")
    (row,) = lines(tmp_path / "out.jsonl")
    (exact,) = bundle.predict(["dog"])
    assert row["more"] == 0.12345678901234567
    written, whole = row["prediction"]["probabilities"]["animal"], exact.probabilities["animal"]
    assert written == float(f"{whole:.6g}") != whole
    assert len(str(written)) <= len("0.123456")


def test_a_lone_surrogate_survives(tmp_path: Path, bundle: Bundle) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "dog \\ud800 cat"}\n')
    predict_file(bundle, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert lines(tmp_path / "out.jsonl")[0]["text"] == "dog \ud800 cat"


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "CHUNK", 2)
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n{"body": "d"}\n')
    with pytest.raises(DataError, match=r"in\.jsonl: row 4: no field 'text'"):
        predict_file(bundle, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_outputs_are_never_replaced_unasked(tmp_path: Path, bundle: Bundle) -> None:
    source = write_json(tmp_path / "in.jsonl", [{"text": "a"}])
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    with pytest.raises(DataError, match="exists; overwrite=True"):
        predict_file(bundle, source, out)
    assert out.read_text() == "mine"
    predict_file(bundle, source, out, overwrite=True)
    assert len(lines(out)) == 1
    with pytest.raises(SettingsError, match=r"in\.jsonl is the output and one of the inputs"):
        predict_file(bundle, source, source, overwrite=True)
    with pytest.raises(SettingsError, match=r"name a \.jsonl file"):
        predict_file(bundle, source, tmp_path / "out.csv")
    with pytest.raises(DataError, match=r"out\.jsonl: row 1: the input has a column 'prediction'"):
        predict_file(bundle, out, tmp_path / "next.jsonl")
    with pytest.raises(SettingsError, match="expected at least one file to predict; none came"):
        predict_file(bundle, [], tmp_path / "next.jsonl")


def test_one_warning_sums_up_all_chunks(tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict, "CHUNK", 2)
    source = write_json(tmp_path / "in.jsonl", [{"text": "dog " * 100}] * 5 + [{"text": "zebra"}])
    with pytest.warns(AnaumeWarning, match="5 of 6 texts were longer than 40 tokens and were cut") as seen:
        summary = predict_file(bundle, source, tmp_path / "out.jsonl")
    assert len(seen) == 1
    assert (summary.cut, summary.coverage) == (5, pytest.approx((5 * 0.38 + 1) / 6))


def test_a_bundle_without_a_task_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    source = write_json(tmp_path / "in.jsonl", [{"text": "a"}])
    with pytest.raises(SettingsError, match="predicting needs a head trained for a task"):
        predict_file(tiny_bundle("mlm"), source, tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


# The peak of this very program: ru_maxrss would begin with what pytest, which starts it, holds.
_PEAK = """
import sys, anaume
from anaume.jobs.predict import predict_file
bundle = anaume.load(sys.argv[1], device="cpu")
predict_file(bundle, sys.argv[2], sys.argv[3])
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_many_rows_need_no_more_memory_than_some(tmp_path: Path, tuned_dir: Path) -> None:
    """Peak memory of 250,000 rows is that of 20,000."""
    if not Path("/proc/self/status").exists():
        pytest.skip("a program's peak memory is read from Linux's /proc")
    peaks = []
    for rows in (20_000, 250_000):
        source = tmp_path / f"{rows}.txt"
        source.write_text("".join(f"my dog is cute {number}\n" for number in range(rows)))
        command = [sys.executable, "-W", "ignore", "-c", _PEAK, tuned_dir, source, tmp_path / f"{rows}.jsonl"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=4 * PATIENCE)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
        with open(tmp_path / f"{rows}.jsonl", encoding="utf-8") as file:
            assert sum(1 for _ in file) == rows
    print("peak MiB", peaks)
    assert peaks[1] < peaks[0] + 20


@pytest.mark.filterwarnings("ignore:.*unknown to the vocabulary")  # the questions' own words
def test_answers_go_to_the_file_that_the_official_evaluation_reads(tmp_path: Path, bundle: Bundle) -> None:
    questions = tiny_bundle("span")
    rows = [{"id": f"q{number}", "question": "the dog ?", "context": text} for number, text in enumerate(texts(4))]
    source = write_json(tmp_path / "in.jsonl", rows)
    predict_file(questions, source, tmp_path / "out.json")
    answers = json.loads((tmp_path / "out.json").read_text("utf-8"))
    predict_file(questions, source, tmp_path / "out.jsonl")
    assert answers == {
        f"q{number}": line["prediction"]["answer"] for number, line in enumerate(lines(tmp_path / "out.jsonl"))
    }
    write_json(tmp_path / "twice.jsonl", [*rows, rows[0]])
    with pytest.raises(DataError, match="the id 'q0' is another question's too"):
        predict_file(questions, tmp_path / "twice.jsonl", tmp_path / "no.json")
    assert not (tmp_path / "no.json").exists()
    with pytest.raises(SettingsError, match=r"name a \.jsonl file"):
        predict_file(bundle, source, tmp_path / "no.json")
