import csv
import gzip
import io
import json
import sys
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data import rows as module
from anaume.data.records import FORMATS
from anaume.data.rows import read_rows
from anaume.errors import AnaumeWarning, DataError, SettingsError

# Texts that other readers turn into something else, DAT-01.
TEXTS = [
    "null",
    "NA",
    "N/A",
    "nan",
    "None",
    "",
    "  ",
    "1e5",
    "007",
    "TRUE",
    "2024-01-01",
    "-0",
    "1_000",
    "#N/A",
    "日本",
]
NOT_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def texts(path, **how):
    return [row.text for row in read_rows(path, **how)]


def as_csv(records, **how) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, **how).writerows(records)
    return out.getvalue().encode()


def as_jsonl(records) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def as_parquet(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def written(kind: str, table: dict[str, list[str]]) -> bytes:
    """One table of texts in each format."""
    records = list(zip(*table.values(), strict=True))
    if kind == "jsonl":
        return as_jsonl(dict(zip(table, record, strict=True)) for record in records)
    if kind == "parquet":
        return as_parquet(**{name: pa.array(column, pa.string()) for name, column in table.items()})
    if kind == "csv":
        return as_csv([list(table), *records])
    if kind == "tsv":
        return "".join("\t".join(cells) + "\n" for cells in [list(table), *records]).encode()
    return "".join(text + "\n" for text in table["text"]).encode()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_text_is_the_exact_text_of_the_file(put, kind):  # DAT-01
    table = {"text": TEXTS} if kind == "txt" else {"text": TEXTS, "label": ["NA"] * len(TEXTS)}
    rows = list(read_rows(put(f"in.{kind}", written(kind, table))))
    assert [row.text for row in rows] == TEXTS
    assert all(type(row.text) is str for row in rows)
    if kind != "txt":
        assert {row.fields["label"] for row in rows} == {"NA"}


@pytest.mark.parametrize("kind", ["txt", "csv", "tsv", "jsonl"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_is_no_part_of_the_first_name_or_text(put, kind, encoding):  # DAT-02
    plain = written(kind, {"text": ["日本", "b"], "id": ["1", "2"]})
    marked = put(f"marked.{kind}", plain.decode().encode(encoding))
    assert [row.fields for row in read_rows(marked)] == [row.fields for row in read_rows(put(f"plain.{kind}", plain))]
    assert texts(marked) == ["日本", "b"]


@pytest.mark.parametrize("kind", FORMATS)
def test_separators_that_end_no_line_stay_in_the_text(put, kind):  # DAT-03
    wanted = [f"a{NOT_ENDS}b", "c"]
    assert texts(put(f"in.{kind}", written(kind, {"text": wanted}))) == wanted


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@settings(max_examples=40, deadline=None)
@given(cells=st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"))] * 2), min_size=1))
def test_any_table_comes_back(tmp_path_factory, kind, cells):
    table = {"text": [cell[0] for cell in cells], "other": [cell[1] for cell in cells]}
    path = tmp_path_factory.mktemp("t") / f"in.{kind}"
    path.write_bytes(written(kind, table))
    rows = list(read_rows(path))
    assert [(row.fields["text"], row.fields["other"]) for row in rows] == cells
    assert [row.text for row in rows] == table["text"]


def test_a_quoted_cell_keeps_its_line_ends_and_rows_are_numbered_by_line(put):
    path = put("in.csv", 'id,text\r\n1,"a\r\nb"\r\n2,"say ""hi"", ok"\r\n3,a "b" c\n')
    rows = list(read_rows(path))
    assert [(row.number, row.text) for row in rows] == [(2, "a\r\nb"), (4, 'say "hi", ok'), (5, 'a "b" c')]
    assert rows[0].source == str(path)
    assert rows[0].place == f"{path}: row 2"


def test_tsv_holds_bare_quotes_unless_told(put):
    data = 'text\tlabel\n"open\t1\nan "end"\t0\n'
    assert texts(put("in.tsv", data)) == ['"open', 'an "end"']
    assert texts(put("snli.tsv", 'text\tlabel\n"a ""b"" c"\t1\n'), quoting=True) == ['a "b" c']
    with pytest.raises(DataError, match=r"in\.tsv: row 2: .*quote"):
        texts(put("in.tsv", data), quoting=True)


def test_csv_can_be_read_without_quotes(put):
    assert texts(put("in.csv", 'text,n\n"a,1\n'), quoting=False) == ['"a']


def test_without_a_header_columns_are_numbered(put):  # CoLA
    path = put("cola.tsv", "gj04\t1\t\tThe sailors rode.\nx\t0\t*\tNo.\n")
    rows = list(read_rows(path, header=False, column="4"))
    assert [(row.number, row.text) for row in rows] == [(1, "The sailors rode."), (2, "No.")]
    assert rows[1].fields == {"1": "x", "2": "0", "3": "*", "4": "No."}


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["text", "sentence", "content", "passage"])
def test_the_default_column(put, kind, name):
    assert texts(put(f"in.{kind}", written(kind, {"id": ["1"], name: ["x"]}))) == ["x"]


def test_the_default_column_prefers_in_order_and_may_be_the_only_one(put):
    assert texts(put("a.csv", "passage,sentence\np,s\n")) == ["s"]
    assert texts(put("b.csv", "review\ngood\n\nbad\n")) == ["good", "", "bad"]
    assert texts(put("c.csv", "a,b\n1,2\n"), pair_column="b") == ["1"]


def test_of_several_columns_that_texts_go_by_the_one_taken_is_said(put, caplog):
    with caplog.at_level("INFO", "anaume.data.rows"):
        assert texts(put("a.csv", "passage,id,sentence,text\np,1,s,t\np,2,s,u\n")) == ["t", "u"]
        assert texts(put("b.csv", "id,text\n1,t\n")) == ["t"]
    (line,) = caplog.messages
    assert line.endswith("a.csv: texts are read from its column 'text', not from 'sentence', 'passage'")


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_a_column_that_is_not_there_is_told_with_those_that_are(put, kind):
    path = put(f"in.{kind}", written(kind, {"titel": ["x"], "body": ["y"]}))
    with pytest.raises(DataError, match=r"none of its columns is called text, .* or passage; .*'titel', 'body'"):
        texts(path)
    with pytest.raises(DataError, match=r"no field 'title' \(did you mean 'titel'\?\); it has 'titel', 'body'"):
        texts(path, column="title")
    with pytest.raises(DataError, match="no field 'nope'"):
        texts(path, column="body", pair_column="nope")
    row = next(read_rows(path, column="body", pair_column="titel"))
    assert (row.text, row.pair, row.column) == ("y", "x", "body")


@pytest.mark.parametrize(("name", "data"), [("a.csv", "text;label\nx;1\n"), ("b.csv", "id\ttext\n1\tx\n")])
def test_a_table_in_another_format_is_not_taken_for_one_column(put, name, data):
    with pytest.raises(DataError, match="is it another format"):
        texts(put(name, data))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "text,label\nx,1\ny\n", r"a\.csv: row 3: 1 cells, expected 2 \('text', 'label'\)"),
        ("a.csv", "text,label\nx,1,2\n", "row 2: 3 cells, expected 2"),
        ("a.tsv", "text\tlabel\nx\t1\t2\n", "row 2: 3 cells, expected 2 .*quoting=True"),
        ("a.csv", "text,label\n\nx,1\n", "row 2: a blank line"),
        ("a.csv", "text,text\nx,1\n", "row 1: the header names 'text' twice"),
        ("a.csv", 'text,label\n"a"b,1\n', "row 2: .*expected after"),
        ("a.csv", 'text\n"a\nb\n', "row 2: a quote is opened and never closed"),
        ("a.csv", "text\na\rb\n", "row 2: a CR without LF"),
        ("a.csv", "id,text\n1,a\0b\n", "row 2: cell 2 holds a NUL"),
        ("a.tsv", "id\ttext\n1\ta\0b\n", "row 2: cell 2 holds a NUL"),
        ("a.jsonl", '{"text": "a"}\n{"text": }\n', r"a\.jsonl: row 2: not JSON"),
        ("a.jsonl", '[\n{"text": "a"}\n]', "row 1: not JSON.*array"),
        ("a.jsonl", '{"text": "a"} {"text": "b"}\n', "row 1: not JSON: Extra data"),
        ("a.jsonl", '["a"]\n', "row 1: expected a JSON object or a text, came list"),
        ("a.jsonl", '"a"\nnull\n', "row 2: expected a JSON object or a text, came null"),
        ("a.jsonl", '{"text": "a", "id": 1}\n{"id": 2}\n', "row 2: no field 'text'; it has 'id'"),
        ("a.jsonl", '{"text": null}\n', "row 1: field 'text': expected a text, came null"),
        ("a.jsonl", '\n{"text": 5}\n', "row 2: field 'text': expected a text, came int 5"),
        ("a.jsonl", '{"text": ["a"]}\n', "row 1: field 'text': expected a text, came list"),
        ("a.jsonl", '{"text": "a", "id": 1, "id": 2}\n', "row 1: .*'id' comes twice"),
        ("a.jsonl", "[" * 100_000 + "\n", "row 1: not JSON"),
        ("a.jsonl", '{"text": "a", "n": ' + "9" * 5000 + "}\n", "row 1: not JSON"),
        ("a.txt", b"a\n\xff\n", r"a\.txt: line 2, byte 2"),
        ("a.csv", b"text\n\xff\n", r"a\.csv: line 2, byte 5"),
        ("a.parquet", b"PAR1 no", r"a\.parquet: .*can't be read as Parquet"),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_file_row_and_field(put, name, data, message):
    with pytest.raises(DataError, match=message):
        texts(put(name, data))


def test_pair_of_a_bare_text_is_told(put):
    with pytest.raises(DataError, match="row 1: a bare text, so no field 'b'"):
        texts(put("a.jsonl", '"a"\n'), pair_column="b")


def test_json_lines_may_be_bare_texts_and_blank_lines_hold_no_row(put):
    rows = list(read_rows(put("a.jsonl", '"a"\r\n\r\n{"text": "b", "k": [1, {"x": null}]}\r\n"日\\u2028"')))
    assert [(row.number, row.text) for row in rows] == [(1, "a"), (3, "b"), (4, "日\u2028")]
    assert rows[0].fields == {"text": "a"}
    assert rows[1].fields == {"text": "b", "k": [1, {"x": None}]}


def test_a_lone_surrogate_passes_through(put):
    assert texts(put("a.jsonl", '{"text": "a\\ud800"}\n')) == ["a\ud800"]


def test_parquet_null_and_other_types_are_told(put):
    with pytest.raises(DataError, match=r"in\.parquet: row 2: field 'text': expected a text, came null"):
        texts(put("in.parquet", as_parquet(text=["a", None])))
    with pytest.raises(DataError, match="row 1: field 'text': expected a text, came int 7"):
        texts(put("in.parquet", as_parquet(text=[7])))


def test_parquet_kinds_of_text_and_row_numbers_across_batches(put, monkeypatch):
    monkeypatch.setattr("anaume.data.records._PARQUET_ROWS", 2)
    wanted = ["a", "b", "a", "日", ""]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        rows = list(read_rows(put("in.parquet", as_parquet(text=pa.array(wanted, kind), n=[1, 2, 3, 4, None]))))
        assert [row.text for row in rows] == wanted
        assert [row.number for row in rows] == [1, 2, 3, 4, 5]
        assert rows[4].fields["n"] is None


def test_parquet_value_that_python_cannot_hold_names_its_row(put):
    array = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
    )
    with pytest.raises(DataError, match="row 2: field 'text'"):
        texts(put("in.parquet", as_parquet(text=array)))


def test_parquet_is_not_read_from_stdin():
    with pytest.raises(DataError, match="not from stdin"):
        texts("-", format="parquet")


@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_file_gives_no_rows(put, kind):  # LIM-07
    data = as_parquet(text=pa.array([], pa.string())) if kind == "parquet" else b""
    assert texts(put(f"in.{kind}", data)) == []
    assert texts(put(f"in.{kind}", data), column="any") == []
    if kind in ("csv", "tsv"):
        assert texts(put(f"in.{kind}", "text\n")) == []


def test_blank_lines_at_the_end_of_a_table_are_no_rows(put):
    assert texts(put("a.csv", "text,n\nx,1\n\n\n")) == ["x"]
    assert texts(put("a.tsv", "text\tn\r\nx\t1\r\n\r\n")) == ["x"]


@pytest.mark.parametrize("kind", ["txt", "csv", "tsv", "jsonl"])
def test_gzip_and_stdin_read_alike(put, kind, monkeypatch):
    data = written(kind, {"text": ["日本", "b"]})
    assert texts(put(f"in.{kind}.gz", gzip.compress(data))) == ["日本", "b"]
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(data)}))
    rows = list(read_rows("-", format=None if kind == "txt" else kind))
    assert [(row.text, row.source) for row in rows] == [("日本", "<stdin>"), ("b", "<stdin>")]


def test_files_follow_one_another_and_choose_their_own_column(put):
    paths = [put("a.txt", "x\n"), put("b.csv", "sentence,n\ny,1\n"), put("c.jsonl", '{"content": "z"}')]
    rows = list(read_rows(paths))
    assert [(row.text, row.number, row.column) for row in rows] == [
        ("x", 1, "text"),
        ("y", 2, "sentence"),
        ("z", 1, "content"),
    ]
    assert [row.source for row in rows] == [str(path) for path in paths]
    assert texts([]) == []


def test_what_is_wrong_with_the_call_is_told_before_reading(put, tmp_path):
    good = put("a.txt", "x\n")
    with pytest.raises(DataError, match=r"'\.doc' tells no format; name it with format= \(txt, csv"):
        read_rows([good, put("b.doc", "x")])
    with pytest.raises(DataError, match=r"b: the ending '\(none\)'"):
        read_rows(put("b", "x"))
    assert texts(put("b", "x"), format="txt") == ["x"]
    with pytest.raises(DataError, match=r"absent\.txt: no such file"):
        read_rows([good, tmp_path / "absent.txt"])
    with pytest.raises(DataError, match="is a folder"):
        read_rows(tmp_path, format="txt")
    with pytest.raises(SettingsError, match=r"unknown format 'josnl' \(did you mean 'jsonl'\?\)"):
        read_rows(good, format="josnl")
    with pytest.raises(SettingsError, match="twice"):
        read_rows(["-", "-"])


def test_replaced_bytes_are_counted(put):
    with pytest.warns(AnaumeWarning, match="2 malformed"):
        assert texts(put("a.csv", b"text,n\n\xff,1\nb\xff,2\n"), errors="replace") == ["\ufffd", "b\ufffd"]


def test_a_cell_may_be_long_but_not_without_end(put, monkeypatch):
    long = "x" * 200_000
    assert texts(put("a.csv", f"text\n{long}\n")) == [long]
    monkeypatch.setattr("anaume.data.records._CELL_LIMIT", 10)
    before = csv.field_size_limit(10)
    try:
        with pytest.raises(DataError, match="row 2: a cell of more than 10 characters"):
            texts(put("a.csv", 'text\n"12345678901\n'))
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("kind", FORMATS)
def test_memory_does_not_grow_with_the_file(put, kind):
    path = put(f"in.{kind}", written(kind, {"text": ["x" * 1000] * 20_000}))
    for _ in read_rows(path):  # imports and caches
        break
    tracemalloc.start()
    assert sum(len(row.text) for row in read_rows(path)) == 20_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


def test_a_row_made_by_hand_writes_its_text():
    row = module.Row(number=1, text="a", fields={"id": 3}, source="x")
    assert row.record() == {"text": "a", "id": 3}
    assert module.Row(number=1, text="a", fields={"s": "a"}, source="x", column="s").record() == {"s": "a"}
