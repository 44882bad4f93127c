import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data import Row, StoredVectors, join, open_vectors, read_about, read_rows, read_vectors
from anaume.errors import AnaumeWarning, DataError


def save(path, fingerprint="f0", vectors=((1.0, 2.0), (3.0, 4.0)), **extra):
    array = np.array(vectors, dtype=np.float32)
    rows = [Row(number=1, text=path.name, fields={"text": path.name}, source="x")] * len(array)
    with open_vectors(path, fingerprint=fingerprint, size=array.shape[1], extra=extra) as out:
        out.write(rows, array)
    return read_vectors(path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize("ending", ["npy", "jsonl", "parquet"])
def test_names_that_are_not_utf_8(tmp_path, ending):
    """IMP-11: an old Japanese name, or any under LC_ALL=C."""
    path = tmp_path / os.fsdecode("値".encode("cp932") + f".{ending}".encode())
    with open_vectors(path, fingerprint="f0", size=2, extra={"precision": "float32"}) as out:
        out.write([Row(number=1, text="値", fields={"text": "値"}, source="x")], np.ones((1, 2), dtype=np.float32))
    assert read_vectors(path).vectors.tolist() == [[1.0, 1.0]]
    assert read_about(path) == ("f0", {"precision": "float32"})
    if ending != "npy":
        assert [row.text for row in read_rows(path)] == ["値"]


@pytest.mark.parametrize("second", ["b.npy", "b.jsonl", "b.parquet"])
def test_vectors_of_two_models_are_never_joined(tmp_path, second):
    one, other = save(tmp_path / "a.npy", "f0"), save(tmp_path / second, "f1")
    with pytest.raises(DataError, match=rf"a\.npy has fingerprint f0, .*{second} f1") as caught:
        join(one, other)
    assert "embed one of them again" in str(caught.value)


def test_vectors_of_one_model_are_joined_in_order(tmp_path):
    one, other = save(tmp_path / "a.parquet", bundle="x", run="1"), save(tmp_path / "b.jsonl", bundle="x", run="2")
    both = join(one, other)
    np.testing.assert_array_equal(both.vectors, [[1, 2], [3, 4]] * 2)
    assert both.rows == [{"text": "a.parquet"}] * 2 + [{"text": "b.jsonl"}] * 2
    assert (both.fingerprint, both.metadata) == ("f0", {"bundle": "x"})
    assert join(one, save(tmp_path / "c.npy")).rows is None


def test_the_same_fingerprint_with_another_size_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"size 2.*size 3"):
        join(save(tmp_path / "a.npy"), save(tmp_path / "b.npy", vectors=[[1, 2, 3]]))


def test_precisions_mix_with_a_note_or_never(tmp_path):
    saved = {kind: save(tmp_path / f"{kind}.npy", precision=kind) for kind in ("float32", "bfloat16", "int8")}
    assert join(saved["int8"], saved["int8"]).metadata == {"precision": "int8"}
    for one, other in (("float32", "bfloat16"), ("bfloat16", "float32")):
        with pytest.warns(AnaumeWarning, match="mix float32 and bfloat16"):
            assert join(saved[one], saved[other]).metadata == {"precision": "bfloat16"}
    for other in (saved["int8"], save(tmp_path / "unknown.npy")):
        with pytest.raises(DataError, match=r"precision float32 and (int8|None)"):
            join(saved["float32"], other)


def test_a_file_without_rows_joins_with_any_of_its_model(tmp_path):
    full = save(tmp_path / "a.npy")
    for name in ("e.jsonl", "e.npy", "e.parquet"):
        empty = save(tmp_path / name, vectors=np.empty((0, 2)))
        np.testing.assert_array_equal(join(empty, full).vectors, full.vectors)
        np.testing.assert_array_equal(join(full, empty).vectors, full.vectors)


def test_npy_and_its_sidecar_belong_together(tmp_path):
    path, sidecar = tmp_path / "a.npy", tmp_path / "a.npy.json"
    save(path, "f0")
    old = sidecar.read_bytes()
    save(path, "f1", vectors=[[5, 6], [7, 8]])
    sidecar.write_bytes(old)  # as a kill between the two renames leaves it
    with pytest.raises(DataError, match=r"a\.npy\.json was written for other vectors"):
        read_vectors(path)
    sidecar.write_bytes(b"{}")
    with pytest.raises(DataError, match="not what anaume writes"):
        read_vectors(path)
    sidecar.unlink()
    with pytest.raises(DataError, match=r"a\.npy\.json, which says what made these vectors, is missing"):
        read_vectors(path)


def test_pickles_and_other_arrays_are_refused(tmp_path):
    path = tmp_path / "a.npy"
    save(path)
    for array in (np.array([{"a": 1}], dtype=object), np.zeros((2, 2)), np.zeros(2, dtype=np.float32)):
        np.save(path, array, allow_pickle=True)
        with pytest.raises(DataError, match=r"a\.npy: (not a \.npy file|expected float32)"):
            read_vectors(path)


@pytest.mark.parametrize("name", ["a.npy", "a.parquet", "a.jsonl"])
def test_broken_files_are_told(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(DataError, match="no such file"):
        read_vectors(path)
    save(path)
    data = path.read_bytes()
    for broken in (data[:-3], data[:10], b"\x00" * 40):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=name):
            read_vectors(path)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"vector": [1, 2], "fingerprint": "f1"}, r"row 2: fingerprint f1.* differ from the first row's f0"),
        ({"vector": [1], "fingerprint": "f0"}, "row 2: .*size 1"),
        ({"vector": [1, float("nan")], "fingerprint": "f0"}, "vector 2 is not finite"),
        ({"vector": ["1", "2"], "fingerprint": "f0"}, "row 2: 'vector' is no list of numbers"),
        ({"vector": [[1], [2, 3]], "fingerprint": "f0"}, "row 2: 'vector' is no list of numbers"),
        ({"vector": None, "fingerprint": "f0"}, "row 2: 'vector' is no list of numbers"),
        ({"fingerprint": "f0"}, "row 2: expected the fields"),
        ({"vector": [1, 2]}, "row 2: expected the fields"),
        ("text", "row 2: expected the fields"),
    ],
)
def test_json_rows_that_do_not_belong_are_told(tmp_path, second, message):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ({"vector": [1, 2], "fingerprint": "f0"}, second)))
    with pytest.raises(DataError, match=message):
        read_vectors(path)


def test_parquet_without_our_vectors_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    about = {"anaume.fingerprint": "f0"}
    pq.write_table(pa.table({"vector": [[1.0]]}), path)
    with pytest.raises(DataError, match="no fingerprint"):
        read_vectors(path)
    for column in (pa.array([[1.0]]), pa.array([[1.0], None], pa.list_(pa.float32(), 1))):
        pq.write_table(pa.table({"vector": column}).replace_schema_metadata(about), path)
        with pytest.raises(DataError, match="expected fixed_size_list<float32> without nulls"):
            read_vectors(path)


def test_stored_vectors_say_where_they_came_from(tmp_path):
    stored = save(tmp_path / "a.npy")
    assert isinstance(stored, StoredVectors)
    assert stored.source == str(tmp_path / "a.npy")
