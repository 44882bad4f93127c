"""Texts, pairs and their labels: columns by name and by layout, labels of every kind, and what is refused."""

import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data.labelled import read_texts
from anaume.errors import AnaumeWarning, DataError, SettingsError


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        if isinstance(data, list):
            data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def rows(path, **how):
    return [(example.text, example.pair, example.label) for example in read_texts(path, **how)]


def refused(path, **how):
    with pytest.raises(DataError) as error:
        list(read_texts(path, **how))
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("first", ["\ufeff", ""])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_marks_and_line_ends_are_not_part_of_anything(put, first, end):
    path = put("a.tsv", first + end.join(["label\tsentence", "1\tgood ", "0\tbad", ""]))
    assert rows(path) == [("good ", None, "1"), ("bad", None, "0")]
    assert [example.place for example in read_texts(path)] == [f"{path}: row 2", f"{path}: row 3"]
    assert next(read_texts(path)).fields == {"label": "1", "sentence": "good "}


@pytest.mark.parametrize(
    ("header", "row", "kind", "expected"),
    [
        ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\t"a\tb', "class", ('"a', "b", "1")),
        ("index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment", "class", ("a", "b", "entailment")),
        ("index\tquestion\tsentence\tlabel", "0\ta\tb\tx", "class", ("a", "b", "x")),
        ("id\tquestion1\tquestion2\tis_duplicate", "0\ta\tb\t1", "class", ("a", "b", "1")),
        ("label1\tsentence1\tsentence2\tgold_label", "x\ta\tb\tneutral", "class", ("a", "b", "neutral")),
        ("premise\thypothesis\tlabel", "a\tb\t2", "class", ("a", "b", "2")),
        ("genre\tsentence1\tsentence2\tscore", "0\ta\tb\t5.000", "number", ("a", "b", 5.0)),
        (
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            "1\ta\tb\t4.5\tNEUTRAL",
            "class",
            ("a", "b", "NEUTRAL"),
        ),
        (
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            "1\ta\tb\t4.5\tNEUTRAL",
            "number",
            ("a", "b", 4.5),
        ),
        ("category\tbody", "x\ta", "class", ("a", None, "x")),
    ],
)
def test_usual_columns_are_known(put, header, row, kind, expected):
    assert rows(put("a.tsv", f"{header}\n{row}\n"), kind=kind) == [expected]


def test_tables_without_a_header_are_known_by_their_first_row(put):
    cola = put("a.tsv", "gj04\t1\t\tA b.\ncj99\t0\t*\tB a.\n")
    assert rows(cola) == [("A b.", None, "1"), ("B a.", None, "0")]
    assert rows(cola, labelled=False) == [("A b.", None, None), ("B a.", None, None)]
    assert rows(put("b.tsv", "4.400\ta\tb\n0.0\tc\td\n"), kind="number") == [("a", "b", 4.4), ("c", "d", 0.0)]
    other = put("c.tsv", "x\t1\n")
    assert rows(other, header=False, text="1", label="2") == [("x", None, "1")]


def test_a_labelled_txt_is_a_table_and_one_to_be_predicted_is_lines(put):
    path = put("a.txt", "sentence\tlabel\nx\t1\n")
    assert rows(path) == [("x", None, "1")]
    assert rows(path, labelled=False)[1] == ("x\t1", None, None)
    assert "no rows in it (read as tsv, whose first line names" in refused(put("b.txt", "just a text\n"))


def test_a_txt_to_be_predicted_that_is_a_table_is_refused_unless_it_is_named(put):
    """What learned from it would read the header, and each row with its label, as texts."""
    table = "sentence\tlabel\nx\t1\n\ny\t0\n"
    path = put("a.txt", table)
    told = refused(path, labelled=False)
    assert "look like a table parted by tabs" in told
    assert "format='tsv' (--format tsv) reads it as a table, format='txt' (--format txt) each line as a text" in told
    assert rows(path, labelled=False, format="txt")[1][0] == "x\t1"
    with pytest.raises(DataError, match="a blank line"):
        rows(path, labelled=False, format="tsv")
    assert len(rows(put("b.txt", "a\tb\nc\nd\te\n"), labelled=False)) == 3


def test_blanks_around_a_class_are_none_of_it(put):
    path = put("a.csv", "text,label\nx, a\ny,a\nz,a b \n")
    assert [label for _, _, label in rows(path)] == ["a", "a", "a b"]


def test_columns_can_be_named_and_what_is_missing_is_said(put):
    path = put("a.csv", "review,extra,stars\ngood,x,5\n")
    assert rows(path, text="review", pair="extra", label="stars") == [("good", "x", "5")]
    assert "'review', 'extra', 'stars'" in refused(path)
    assert "did you mean 'stars'" in refused(path, label="star")
    assert "did you mean 'review'" in refused(path, label="stars", text="reviews")
    assert "choose one with text=" in refused(path, label="stars")
    assert "no column of a second text" in refused(path, label="stars", text="review", paired=True)
    semicolon = put("b.csv", "text;label\na;b\n")
    assert "is it another format?" in refused(semicolon)


def test_a_text_that_is_named_stands_alone_and_pairs_can_be_refused(put):
    path = put("a.jsonl", [{"question": "a", "sentence": "b", "label": "x"}])
    assert rows(path) == [("a", "b", "x")]
    assert rows(path, text="question") == [("a", None, "x")]
    assert rows(path, text="question", paired=True) == [("a", "b", "x")]
    assert rows(path, paired=False) == [("b", None, "x")]
    with pytest.raises(SettingsError, match="no pair column"):
        read_texts(path, paired=False, pair="b")


def test_classes_are_spelt_as_in_the_file(put):
    labels = [1, "1 ", True, 0.5, "NA", "null", "はい"]
    path = put("a.jsonl", [{"text": "a", "label": label} for label in labels])
    assert [label for _, _, label in rows(path)] == ["1", "1", "true", "0.5", "NA", "null", "はい"]
    path.unlink()
    table = pa.table({"text": ["a", "b"], "label": pa.array([3, 4], pa.int64())})
    pq.write_table(table, path.with_suffix(".parquet"))
    assert [label for _, _, label in rows(path.with_suffix(".parquet"))] == ["3", "4"]


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (None, "field 'label' is null"),
        ("", "field 'label' is empty"),
        (["a"], "expected one label, came list ['a']; several labels a row are the task multi-label"),
        ({}, "expected one label"),
        (float("nan"), "expected one label"),
    ],
)
def test_what_is_no_class_is_refused_with_its_row(put, label, told):
    path = put("a.jsonl", [{"text": "a", "label": "x"}, {"text": "b", "label": label}])
    message = refused(path)
    assert f"{path}: row 2: " in message
    assert told in message


def test_a_label_that_a_later_row_lacks_is_refused(put):
    assert "row 2: no field 'label'" in refused(put("a.jsonl", [{"text": "a", "label": "x"}, {"text": "b"}]))


@pytest.mark.parametrize("value", ["3,5", "", "nan", "NaN", "inf", "-inf", "1e400", "1_000", "0x1", "five", "٣", "1 2"])
def test_what_is_no_finite_number_is_refused_with_its_row(put, value):
    message = refused(put("a.tsv", f"text\tscore\na\t1\nb\t{value}\n"), kind="number")
    assert "row 3: field 'score': expected a " in message
    if value == "3,5":
        assert "write 3.5 with a point" in message


@pytest.mark.parametrize("value", [True, None, "nan", float("inf"), float("nan"), 10**400, [1.0]])
def test_what_is_no_finite_number_in_json_is_refused(put, value):
    assert "row 1: field 'score'" in refused(put("a.jsonl", [{"text": "a", "score": value}]), kind="number")


def test_numbers_are_read(put):
    values = [1, 0.5, "2", " 2.5 ", "-1e-3", ".5", "5.", "+3"]
    path = put("a.jsonl", [{"text": "a", "score": value} for value in values])
    assert [label for _, _, label in rows(path, kind="number")] == [1.0, 0.5, 2.0, 2.5, -0.001, 0.5, 5.0, 3.0]


def test_every_form_of_several_labels_says_the_same(put):
    """Case HED-01: flags as numbers and as booleans, names in a text and in a list, none."""
    names = ["a", "b", "c"]
    forms = [[1, 0, 1], [True, False, True], "a|c", "c | a", ["a", "c"], ["a", "c", "a"]]
    path = put("a.jsonl", [{"text": "x", "labels": form} for form in forms])
    assert [set(label) for _, _, label in rows(path, kind="names", names=names)] == [{"a", "c"}] * 6
    none = put("b.jsonl", [{"text": "x", "labels": form} for form in ([], "", [0, 0, 0])])
    assert [label for _, _, label in rows(none, kind="names", names=names)] == [()] * 3
    columns = put("c.csv", "text,a,b,c\nx,1,0,true\ny,0,FALSE,0\n")
    assert [label for _, _, label in rows(columns, kind="names", label=names)] == [("a", "c"), ()]
    other = put("d.tsv", "text\tlabels\nx\ta, c\n")
    assert rows(other, kind="names", separator=",") == [("x", None, ("a", "c"))]


@pytest.mark.parametrize(
    ("label", "names", "told"),
    [
        ([1, 0, 1], None, "names="),
        ([1, 0], ["a", "b", "c"], "2 flags, expected 3"),
        ([1, 2, 0], ["a", "b", "c"], "expected 0 or 1"),
        (["d"], ["a", "b", "c"], "label 'd' is none of a, b, c"),
        ("a||c", None, "an empty label"),
        (1, None, "expected a list of labels, came int 1"),
        (None, None, "is null"),
    ],
)
def test_what_is_no_list_of_labels_is_refused(put, label, names, told):
    path = put("a.jsonl", [{"text": "x", "labels": label}])
    message = refused(path, kind="names", names=names)
    assert "row 1: field 'labels'" in message
    assert told in message


def test_blank_texts_are_refused_where_something_is_learned_and_kept_where_it_is_predicted(put):
    texts = ["a", "", " \u3000", "b"]
    path = put("a.jsonl", [{"text": text, "label": "x"} for text in texts])
    assert "row 2: field 'text' is blank" in refused(path)
    assert rows(path, labelled=False) == [
        ("a", None, None),
        ("", None, None),
        (" \u3000", None, None),
        ("b", None, None),
    ]
    assert len(rows(path, keep_blank=True)) == 4
    null = put("b.jsonl", [{"text": "a"}, {"text": None}])
    assert "row 2: field 'text' is null" in refused(null, labelled=False)


def test_rows_without_a_gold_label_are_left_out_and_counted(put):
    path = put("a.tsv", "sentence1\tsentence2\tgold_label\na\tb\tneutral\nc\td\t-\n")
    with pytest.warns(AnaumeWarning, match="1 rows were left out: their gold_label is '-'"):
        assert rows(path) == [("a", "b", "neutral")]


def test_a_tsv_quoted_as_csv_is_told(put):
    quoted = 'text\tlabel\n"say ""a"" now"\tx\n"b"\ty\n'
    path = put("a.tsv", quoted)
    with pytest.warns(AnaumeWarning, match="2 cells look quoted as in csv"):
        assert rows(path)[0][0] == '"say ""a"" now"'
    assert rows(path, quoting=True)[0][0] == 'say "a" now'
    assert rows(put("b.tsv", quoted + '"a bare one\tx\n'))[2][0] == '"a bare one'  # so they are not: no warning


def test_json_is_read_as_an_array_and_as_lines(put):
    data = [{"text": "a", "label": 1}, {"text": "b", "label": 0}]
    for text in (json.dumps(data, indent=2), "\n".join(map(json.dumps, data))):
        assert rows(put("a.json", text)) == [("a", None, "1"), ("b", None, "0")]


def test_wrong_options_are_refused_before_anything_is_read(put, tmp_path):
    path = put("a.csv", "text,label\na,b\n")
    for wrong in ({"kind": "numbers"}, {"separator": ""}, {"label": ["a", "b"]}, {"format": "tsb"}):
        with pytest.raises(SettingsError):
            read_texts(path, **wrong)
    with pytest.raises(DataError, match="no such file"):
        read_texts(tmp_path / "b.csv")
    with pytest.raises(SettingsError, match="CoNLL"):
        list(read_texts(path, format="conll"))


def test_many_rows_take_no_more_memory_than_few(put):
    path = put("a.tsv", "sentence\tlabel\n" + "a text of some words\t1\n" * 20_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_texts(path)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
