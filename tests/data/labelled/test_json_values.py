"""JSON documents read a row at a time, whatever the blocks they come in."""

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.files import open_text_stream
from anaume.data.labelled.json_values import _Scanner, json_values
from anaume.errors import DataError


def read(text: str, size: int | None = None) -> list[tuple[int, object]]:
    if size is None:
        return list(json_values(open_text_stream(io.BytesIO(text.encode()), "a.json")))
    scanner = _Scanner("a.json")
    rows = [row for at in range(0, len(text), size) for row in scanner.feed(text[at : at + size])]
    scanner.finish()
    return rows


VALUES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(st.text(max_size=4) | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=2)),
    max_size=3,
)


@given(st.lists(VALUES, max_size=4), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_rows_are_those_of_the_json_module_in_blocks_of_any_size(rows, size, indent, ascii_only):
    array = json.dumps(rows, indent=indent, ensure_ascii=ascii_only)
    assert [value for _, value in read(array, size)] == rows
    assert [number for number, _ in read(array, size)] == list(range(1, len(rows) + 1))
    document = json.dumps({"version": "[{", "data": rows, "more": [{"data": [1]}]}, indent=indent)
    assert [value for _, value in read(document, size)] == rows
    lines = "\n\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows if "data" not in row)
    found = read(lines, size)
    assert [value for _, value in found] == [row for row in rows if "data" not in row]
    assert [number for number, _ in found] == list(range(1, 2 * len(found) + 1, 2))


def test_an_object_of_its_own_is_a_row_with_the_line_where_it_starts():
    assert read('\n{"a": 1,\n "b": [2]}\n{"a": 3}') == [(2, {"a": 1, "b": [2]}), (4, {"a": 3})]
    assert read("") == read(" \n") == read("[]") == []
    assert read('{"data": "a text"}') == [(1, {"data": "a text"})]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"a": 1}, 2]', "line 1: not JSON: expected objects, came '2'"),
        ('["a", "b"]', "expected objects, came"),
        ('[{"a": 1}', "it ends in the middle"),
        ('{"a": "b', "it ends in the middle"),
        ('{"a": 1}\n}', "line 2: not JSON: a '}' that closes nothing"),
        ('{"a": 1}\n\n{"a": 1, "a": 2}', "row 3: not JSON: the field 'a' comes twice"),
        ('[{"a": 1},\n{"a" 2}]', "row 2: not JSON: Expecting ':'"),
        ("a text", "expected objects, came 'a text'"),
    ],
)
def test_what_is_no_json_is_an_error_with_its_place(text, told):
    with pytest.raises(DataError, match=r"a\.json") as error:
        read(text)
    assert told in str(error.value)


def test_memory_is_that_of_a_row():
    row = json.dumps({"context": "x" * 2000, "answers": [{"text": "x"}]})
    text = ("[" + ",".join([row] * 2_000) + "]").encode()
    tracemalloc.start()
    try:
        count = sum(1 for _ in json_values(open_text_stream(io.BytesIO(text), "a.json")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2_000
    assert peak < len(text)
