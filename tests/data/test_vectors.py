import datetime
import decimal
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data import Row, open_vectors, read_rows, read_vectors
from anaume.data.columns import ColumnWriter
from anaume.errors import AnaumeWarning, DataError, SettingsError

ENDINGS = ["npy", "jsonl", "parquet"]
SIZE = 3


def make_rows(records, source="in.jsonl"):
    return [
        Row(number=number, text=record.get("text", ""), fields=record, source=source)
        for number, record in enumerate(records, 1)
    ]


def make_vectors(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, SIZE)).astype(np.float32)


def store(path, records, vectors=None, step=1000, **how):
    rows = make_rows(records)
    vectors = make_vectors(len(rows)) if vectors is None else vectors
    with open_vectors(path, **{"fingerprint": "f0", "size": SIZE, **how}) as out:
        for start in range(0, len(rows), step):
            out.write(rows[start : start + step], vectors[start : start + step])
    assert out.rows_written == len(rows)
    return vectors


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_vectors_come_back_bit_for_bit_with_what_made_them(tmp_path, ending, step):
    records = [{"id": number, "text": f"日本 {number}\u2028", "tags": ["a", "b"]} for number in range(7)]
    vectors = store(tmp_path / f"v.{ending}", records, step=step, extra={"precision": "float32", "bundle": "穴埋め"})
    read = read_vectors(tmp_path / f"v.{ending}")
    np.testing.assert_array_equal(read.vectors, vectors)
    assert read.vectors.dtype == np.float32
    assert read.fingerprint == "f0"
    assert read.metadata == {"precision": "float32", "bundle": "穴埋め"}
    assert read.rows == (None if ending == "npy" else records)


def test_extreme_floats_survive_json(tmp_path):
    vectors = np.array([[1e-45, 3.4028235e38, -0.0], [0.1, 1 / 3, 16777217.0]], dtype=np.float32)
    store(tmp_path / "v.jsonl", [{"text": "a"}, {"text": "b"}], vectors)
    assert read_vectors(tmp_path / "v.jsonl").vectors.tobytes() == vectors.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_rows_make_a_valid_file(tmp_path, ending):  # LIM-07
    path = tmp_path / f"v.{ending}"
    store(path, [])
    read = read_vectors(path)
    assert read.vectors.dtype == np.float32
    if ending == "jsonl":  # no line, so nowhere to keep size or fingerprint
        assert path.read_bytes() == b""
        assert (read.vectors.shape, read.fingerprint) == ((0, 0), None)
    else:
        assert (read.vectors.shape, read.fingerprint) == ((0, SIZE), "f0")


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_of_a_vector_file_are_rows_again(tmp_path, ending):
    records = [{"id": "007", "text": "NA"}, {"id": "", "text": ""}]
    store(tmp_path / f"v.{ending}", records)
    again = list(read_rows(tmp_path / f"v.{ending}"))
    assert [row.text for row in again] == ["NA", ""]
    assert [row.fields["id"] for row in again] == ["007", ""]
    with pytest.raises(DataError, match=r"row 1: has a field 'vector' already"):
        store(tmp_path / f"w.{ending}", [row.fields for row in again])
    store(tmp_path / "w.npy", [row.fields for row in again])  # keeps no fields, so nothing clashes


@pytest.mark.parametrize("field", ["vector", "fingerprint", "vector_metadata"])
def test_json_fields_of_ours_are_not_overwritten(tmp_path, field):
    with pytest.raises(DataError, match=f"in.jsonl: row 1: has a field '{field}'"):
        store(tmp_path / "v.jsonl", [{"text": "a", field: 1}])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_names_its_row_and_leaves_no_file(tmp_path, ending, bad):
    vectors = make_vectors(3)
    vectors[1, 2] = bad
    with pytest.raises(DataError, match=r"in\.jsonl: row 2: its vector is not finite"):
        store(tmp_path / f"v.{ending}", [{"text": "a"}] * 3, vectors)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_error_late_leaves_the_old_file(tmp_path, ending):
    path = tmp_path / f"v.{ending}"
    vectors = store(path, [{"text": "old"}])
    with pytest.raises(RuntimeError), open_vectors(path, fingerprint="f1", size=SIZE) as out:  # noqa: PT012
        out.write(make_rows([{"text": "a"}] * 2000), make_vectors(2000))  # Parquet has a group on disk by now
        raise RuntimeError
    np.testing.assert_array_equal(read_vectors(path).vectors, vectors)
    assert read_vectors(path).fingerprint == "f0"


@pytest.mark.parametrize(
    "vectors", [np.zeros((1, SIZE), np.float64), np.zeros((1, 2), np.float32), np.zeros((2, SIZE), np.float32)]
)
def test_shape_and_dtype_are_checked(tmp_path, vectors):
    with pytest.raises(SettingsError, match=rf"expected float32 vectors \(1, {SIZE}\), came"):
        store(tmp_path / "v.npy", [{"text": "a"}], vectors)


def test_the_place_and_the_settings_are_checked_at_once(tmp_path):
    for path, message in [("v.bin", r"\.npy, \.jsonl, \.parquet, not '\.bin'"), ("absent/v.npy", "does not exist")]:
        with pytest.raises(DataError, match=message), open_vectors(tmp_path / path, fingerprint="f", size=1):
            raise AssertionError("the block must not start")
    for how in ({"fingerprint": "", "size": 1}, {"fingerprint": "f", "size": 0}):
        with pytest.raises(SettingsError), open_vectors(tmp_path / "v.npy", **how):
            raise AssertionError("the block must not start")


@pytest.mark.parametrize("limit", [1, 4000, 100_000])  # in the header, in the first group, later or in the footer
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_one_clear_error_and_the_old_file_stays(tmp_path, ending, limit):
    code = """
import resource, sys
import numpy as np
from anaume.data import Row, open_vectors
from anaume.errors import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
rows = [Row(number=1, text="a", fields={}, source="x")] * 1024
try:
    with open_vectors(sys.argv[1], fingerprint="f1", size=64) as out:
        for turn in range(20):
            out.write(rows, np.random.default_rng(turn).random((1024, 64), dtype=np.float32))
except DataError as error:
    print(error)
"""
    path = tmp_path / f"v.{ending}"
    store(path, [{"text": "old"}])
    old = path.read_bytes()
    command = [sys.executable, "-W", "error", "-c", code, str(path), str(limit)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.stderr == b""  # no traceback, and no writer that fails a second time when it is thrown away
    assert b"File too large; nothing was written" in done.stdout
    assert path.read_bytes() == old
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_npy_is_plain_numpy_however_many_rows(tmp_path):
    vectors = store(tmp_path / "v.npy", [{"text": "a"}] * 1234, step=100)
    loaded = np.load(tmp_path / "v.npy", allow_pickle=False, mmap_mode="r")
    np.testing.assert_array_equal(loaded, vectors)
    assert loaded.offset == 128
    assert json.loads((tmp_path / "v.npy.json").read_bytes())["rows"] == 1234


def test_parquet_says_what_it_holds(tmp_path):
    store(tmp_path / "v.parquet", [{"text": "a", "n": 1}], extra={"precision": "int8"})
    schema = pq.read_schema(tmp_path / "v.parquet")
    assert schema.field("vector").type == pa.list_(pa.float32(), SIZE)
    assert schema.field("n").type == pa.int64()
    assert schema.metadata[b"anaume.fingerprint"] == b"f0"
    assert json.loads(schema.metadata[b"anaume.metadata"]) == {"precision": "int8"}


def test_a_buffer_used_again_does_not_change_what_was_written(tmp_path):
    buffer = np.zeros((1, SIZE), dtype=np.float32)
    with open_vectors(tmp_path / "v.parquet", fingerprint="f", size=SIZE) as out:
        for number in range(3):
            buffer[:] = number
            out.write(make_rows([{"text": "a"}]), buffer)
    assert read_vectors(tmp_path / "v.parquet").vectors[:, 0].tolist() == [0, 1, 2]


def test_lone_surrogates_are_escaped_in_json_and_replaced_and_counted_in_parquet(tmp_path):
    records = [{"text": "a\ud800日", "tags": ["\udfff"]}]
    store(tmp_path / "v.jsonl", records)
    assert read_vectors(tmp_path / "v.jsonl").rows == records
    assert b"\\ud800" in (tmp_path / "v.jsonl").read_bytes()
    with pytest.warns(AnaumeWarning, match="2 lone surrogates"):
        store(tmp_path / "v.parquet", records)
    assert read_vectors(tmp_path / "v.parquet").rows == [{"text": "a\ufffd日", "tags": ["\ufffd"]}]


def test_the_types_of_parquet_are_written_as_json_texts(tmp_path):
    record = {"text": "a", "when": datetime.datetime(2024, 1, 2, 3), "price": decimal.Decimal("1.10")}
    store(tmp_path / "v.jsonl", [record])
    assert read_vectors(tmp_path / "v.jsonl").rows == [{"text": "a", "when": "2024-01-02T03:00:00", "price": "1.10"}]
    store(tmp_path / "v.parquet", [record])
    assert read_vectors(tmp_path / "v.parquet").rows == [record]
    with pytest.raises(DataError, match="row 1: a field can't be written as JSON: bytes"):
        store(tmp_path / "w.jsonl", [{"text": "a", "raw": b"x"}])


# The rule for columns: the first rows fix them.


def columns(*groups):
    writer, made = ColumnWriter(), []
    for records in groups:
        made.append({name: array.to_pylist() for name, array in writer.arrays(make_rows(records)).items()})
    return writer, made


def test_missing_fields_are_null_and_null_columns_are_text():
    writer, made = columns([{"a": 1}, {"b": None, "text": "x"}], [{"a": None, "text": "y"}])
    assert made[0] == {"text": ["", "x"], "a": [1, None], "b": [None, None]}
    assert made[1] == {"text": ["y"], "a": [None], "b": [None]}
    assert writer.types["b"] == pa.string()


def test_integers_and_floats_together_are_floats():
    writer, made = columns([{"text": "", "n": 1}, {"text": "", "n": 0.5}, {"text": "", "n": float("nan")}])
    assert writer.types["n"] == pa.float64()
    assert made[0]["n"][:2] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (1, 2.5),  # Arrow would cut it to 2
        (1, "a"),
        ("a", 1),
        ("a", b"b"),
        (1.5, 2**60 + 1),
        (1, True),
        (True, 1),
        ({"a": 1}, {"a": 1, "b": 2}),  # Arrow would drop b
        ([{"a": 1}], [{"a": 1}, {"b": 2}]),
        ([1], ["a"]),
        (None, 1),
        (1, 2**70),
    ],
)
def test_a_value_that_does_not_fit_its_column_names_row_and_field(first, later):
    rows = [{"text": "x", "f": first}]
    with pytest.raises(DataError, match=r"in\.jsonl: row 3: field 'f'"):
        columns(rows, [*rows, *rows, {"text": "x", "f": later}, *rows])


def test_values_that_never_fit_together_name_the_first_that_does_not():
    with pytest.raises(DataError, match="row 3: field 'f'"):
        columns([{"text": "", "f": value} for value in (1, None, "a", 2, "b")])
    with pytest.raises(DataError, match="row 1: field 'f': Parquet has no empty objects"):
        columns([{"text": "", "f": {}}])


def test_a_field_the_first_rows_lack_is_told_and_not_dropped():
    with pytest.raises(
        DataError, match=r"row 2: field 'lable' \(did you mean 'label'\?\) occurs in none of the first rows"
    ):
        columns([{"text": "", "label": 1}], [{"text": "", "label": 1}, {"text": "", "lable": 1}])


def test_objects_with_other_keys_keep_them_within_the_first_rows():
    _, made = columns([{"text": "", "f": {"a": 1}}, {"text": "", "f": {"b": [1, 2]}}, {"text": "", "f": None}])
    assert made[0]["f"] == [{"a": 1, "b": None}, {"a": None, "b": [1, 2]}, None]


def test_the_schema_is_fixed_by_1024_rows_however_they_are_handed_over(tmp_path):
    records = [{"text": "a"}] * 1000 + [{"text": "b", "late": 1}] * 1000
    store(tmp_path / "v.parquet", records, step=7)
    read = read_vectors(tmp_path / "v.parquet")
    assert read.rows[0] == {"text": "a", "late": None}
    assert read.rows[-1] == {"text": "b", "late": 1}
    assert len(read.rows) == 2000
